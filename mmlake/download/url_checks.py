"""Which addresses may be requested: http and https, without credentials, with a host. `remote/networks.py` checks to
which networks the host may belong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mmlake.errors import UnreadableItem
from mmlake.optional import need
from mmlake.remote.networks import is_numeric

if TYPE_CHECKING:
    from yarl import URL

_NUMBERS = re.compile(r"[0-9.]+")
_MAX_URL_CHARS = 8192


def parse_url(text: str) -> URL:
    """The address, fit to be requested. Raises UnreadableItem 1101 where it is not: another scheme, credentials, no
    host."""
    yarl = need("yarl", extra="web", purpose="reading a list of URLs")
    if len(text) > _MAX_URL_CHARS:
        raise UnreadableItem(1101, f"url_chars={len(text)} not in [1, {_MAX_URL_CHARS}]")
    try:
        url = yarl.URL(text.strip())
        port = url.port
    except (ValueError, UnicodeError) as error:
        raise UnreadableItem(1101, "the address does not parse as a URL") from error
    return check_url(url) if port else _refuse_scheme(url)


def check_url(url: URL) -> URL:
    """The same address. Raises UnreadableItem 1101 for another scheme, credentials, or no host."""
    if url.scheme not in ("http", "https"):
        _refuse_scheme(url)
    if url.user is not None or url.password is not None:
        raise UnreadableItem(1101, "the address holds credentials, which are never sent")
    if not url.host:
        raise UnreadableItem(1101, "the address names no host")
    # "127.1", "2130706433": what libraries resolve by themselves, past the check
    if _NUMBERS.fullmatch(url.host) and not is_numeric(url.host):
        raise UnreadableItem(1101, "the host is a number that is no address in its usual form")
    return url


def _refuse_scheme(url: URL) -> Any:
    raise UnreadableItem(
        1101, f"the scheme {url.scheme[:20]!r} is none of http and https" if url.scheme else "the address has no scheme"
    )
