"""Addresses as names: of a kind of content, for where its bytes are silent, and as they may be shown, without
credentials."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import IO
from urllib.parse import urlsplit

from mmlake.formats import sniff

_EXTENSIONS = {
    "html": "html",
    "xhtml+xml": "html",
    "plain": "txt",
    "markdown": "md",
    "jpeg": "jpg",
    "mpeg": "mp3",
    "quicktime": "mov",
    "x-wav": "wav",
}
_USER = re.compile(r"(?<=://)[^/?#@\s]*@")
# What signed addresses of S3, Google, Azure and CloudFront carry, and what others call their secrets.
_SECRET = re.compile(
    r"(?i)([?&;](?:x-amz-(?:signature|security-token|credential)|x-goog-(?:signature|credential)|awsaccesskeyid|signature|sig|key-pair-id|policy|token|access_token|auth|api_?key|password)=)[^&;#\s]*"
)


def kind_of(head: bytes, *, content_type: str, url: str, stream: Callable[[], IO[bytes]] | None) -> sniff.Kind | None:
    """The kind of content by its first bytes; where they are silent, by the declared type, else by the path of the
    address.

    Text under the name of a medium is text: most such answers are the page that says that the picture is gone.
    """
    kind = sniff.kind_of(head, _name(content_type, url), stream=stream)
    is_belied = kind is not None and kind.by_name and kind.modality != "text" and sniff.is_textual(head)
    return sniff.kind_of(head, "") if is_belied else kind


def _name(content_type: str, url: str) -> str:
    family, _, subtype = content_type.partition(";")[0].strip().lower().partition("/")
    if family in ("text", "image", "audio", "video") or subtype in _EXTENSIONS:
        return f"declared.{_EXTENSIONS.get(subtype, subtype)}"
    return path_of(url)


def path_of(url: str) -> str:
    """The path of the address; "" where it does not parse."""
    try:
        return urlsplit(url).path
    except ValueError:
        return ""


def redacted(url: str) -> str:
    """The address as rows, tables and logs may hold it: without user, password and the secrets of a signed query."""
    # most have neither, and this is asked of every field of every record
    found = _USER.sub("", url) if "@" in url else url
    return _SECRET.sub(r"\1-", found) if "=" in found else found
