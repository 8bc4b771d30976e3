"""What a publisher asks for: not to be used for training, said in headers or in the page itself.

Read are X-Robots-Tag and the robots meta tag with `noai` and `noimageai` (the convention that DeviantArt began in 2022;
also behind the name of an agent), and tdm-reservation as a header or meta tag (W3C Community Group, TDM Reservation
Protocol, 2024). `noindex` is about search results and is metadata only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_PAGE_BYTES = 1 << 18  # a head section with inlined styles reaches 200 kB
_META = re.compile(rb"<meta\b[^>]{0,2000}>", re.IGNORECASE)
_ATTRIBUTE = re.compile(rb"""([a-z][a-z0-9_:-]*)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
# one that never closes ends with the page: else each start of one would be searched to there
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_AGENT = re.compile(r"\s*([a-z0-9_*-]+)\s*:(.*)", re.IGNORECASE | re.DOTALL)
_DIRECTIVES_WITH_COLON = ("max-snippet", "max-image-preview", "max-video-preview", "unavailable_after")

Header = tuple[str, str]


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
    for name, value in _metas(page[:_PAGE_BYTES]):
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
