"""What a body from the web is, and whether its publisher withholds it from training, which he says in headers or in the
page itself. Downloaded and crawled bodies are classified alike.

Read are X-Robots-Tag and the robots meta tag with `noai` and `noimageai` (the convention that DeviantArt began in 2022;
also behind the name of an agent), and tdm-reservation as a header or meta tag (W3C Community Group, TDM Reservation
Protocol, 2024). `noindex` is about search results and is metadata only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO

from mmlake.formats import sniff
from mmlake.formats.charsets import declared_charset
from mmlake.formats.urls import kind_of

Header = tuple[str, str]  # a name, and its value
HEAD_BYTES = 1 << 18  # read of a body: a head section with inlined styles reaches 200 kB


@dataclass(frozen=True, kw_only=True, slots=True)
class Classification:
    """What is known of a body before it is decoded."""

    content_type: str | None  # None where neither bytes nor names say it
    extension: str
    modality: str | None  # None for what no modality takes
    charset: str | None  # that a page declares
    opt_out: str | None  # the sentence that says how its publisher withholds it; None where he does not


def classify(
    head: bytes,
    *,
    declared: str,
    url: str,
    agent: str,
    headers: Iterable[Header] | None,
    stream: Callable[[], IO[bytes]] | None,
) -> Classification:
    """The classification of the body that begins so.

    head: the first `HEAD_BYTES`. declared: its Content-Type, or "". agent: the product token of our user agent.
    headers: of the response; None where there was none, and with it nobody who could opt out. stream: opens the body,
    for containers that are known by what is in them; None where it cannot be read.
    """
    kind = kind_of(head[: sniff.HEAD_BYTES], content_type=declared, url=url, stream=stream)
    kind = kind or sniff.Kind(content_type=None, modality=None, extension="bin")
    is_text = kind.modality == "text"
    page, opt_out = head if is_text else b"", None
    if headers is not None:
        opt_out = opt_out_of(headers, agent=agent, modality=kind.modality, page=page)
    return Classification(
        content_type=kind.content_type,
        extension=kind.extension,
        modality=kind.modality,
        charset=declared_charset(declared, head) if is_text else None,
        opt_out=opt_out,
    )


_META = re.compile(rb"<meta\b[^>]{0,2000}>", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    rb"""(?<![a-z0-9_:-])([a-z][a-z0-9_:-]*)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE
)
# one that never closes ends with the page: else each start of one would be searched to there
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_AGENT = re.compile(r"\s*([a-z0-9_*-]+)\s*:(.*)", re.IGNORECASE | re.DOTALL)
_DIRECTIVES_WITH_COLON = ("max-snippet", "max-image-preview", "max-video-preview", "unavailable_after")


def opt_out_of(headers: Iterable[Header], *, agent: str, modality: str | None, page: bytes = b"") -> str | None:
    """The opt-out that forbids training on the response, in one sentence; None where there is none.

    agent: the product token of our user agent. modality: of the content; `noimageai` is about images only. page: the
    start of an HTML page, whose own meta tags count.
    """
    for name, value in headers:
        if name.lower() == "x-robots-tag" and (directive := _refusal(_directives_for(value, agent), modality)):
            return f"the header X-Robots-Tag says {directive}"
        if name.lower() == "tdm-reservation" and value.strip() == "1":
            return "the header tdm-reservation is 1"
    for name, value in _metas(page[:HEAD_BYTES]):
        if name in ("robots", agent.lower()) and (directive := _refusal(_directives(value), modality)):
            return f"the meta tag {name} says {directive}"
        if name == "tdm-reservation" and value.strip() == "1":
            return "the meta tag tdm-reservation is 1"
    return None


def _directives_for(value: str, agent: str) -> set[str]:
    """The directives of an X-Robots-Tag that are meant for everybody or for this agent. A name holds for all that
    follows it."""
    found: set[str] = set()
    ours = True
    for part in value.split(","):
        named = _AGENT.match(part)
        if named and named[1].lower() not in _DIRECTIVES_WITH_COLON:
            ours = named[1].lower() in ("*", agent.lower())
            part = named[2]
        if ours:
            found |= _directives(part)
    return found


def _directives(value: str) -> set[str]:
    return {directive for directive in re.split(r"[\s,]+", value.lower()) if directive}


def _refusal(directives: set[str], modality: str | None) -> str | None:
    if "noai" in directives:
        return "noai"
    return "noimageai" if "noimageai" in directives and modality == "image" else None


def _metas(page: bytes) -> Iterator[tuple[str, str]]:
    for tag in _META.findall(_COMMENT.sub(b"", page)):
        fields = {name.lower(): double or single or bare for name, double, single, bare in _ATTRIBUTE.findall(tag)}
        if b"name" in fields and b"content" in fields:
            yield fields[b"name"].decode("latin-1").strip().lower(), fields[b"content"].decode("latin-1")
