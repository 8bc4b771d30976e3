"""HTTP responses as a crawl stores them: status line and headers, parsed; the body begins behind them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mmlake.errors import UnreadableItem
from mmlake.formats.http_bodies import codings_of

MAX_HEADER_BYTES = 1 << 18
_KEPT = (
    "content-type",
    "content-language",
    "last-modified",
    "etag",
    "x-robots-tag",
    "tdm-reservation",
    "content-disposition",
)
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})(?: |\r|\n|$)")
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")

Header = tuple[str, str]  # the name in lower case, the value


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """Status and headers of one response."""

    status: int
    headers: tuple[Header, ...]
    size_bytes: int  # of status line and headers: the body is behind them

    @property
    def is_chunked(self) -> bool:
        """Whether the headers say that the body is in chunks; crawlers join them and keep the header."""
        return "chunked" in self.header("transfer-encoding").lower()

    @property
    def codings(self) -> tuple[str, ...]:
        """The content codings of the body, in the order of their application."""
        return codings_of(self.header("content-encoding"))

    def header(self, name: str) -> str:
        """The value of a header, by its name in lower case; the first where it is repeated, "" where there is none."""
        return next((value for key, value in self.headers if key == name), "")


def response_of(head: bytes, *, size_bytes: int) -> HttpResponse:
    """The response that begins so. Raises UnreadableItem 1003 where it does not begin as HTTP does, or its header does
    not end within these bytes.

    head: the first bytes, `MAX_HEADER_BYTES` of them or all. size_bytes: of the whole.
    """
    status = _STATUS.match(head)
    if status is None:
        raise UnreadableItem(1003, "the response does not start with an HTTP status line")
    end = _BLANK_LINE.search(head)
    if end is None and len(head) < size_bytes:
        raise UnreadableItem(1003, f"the HTTP header has no end in its first {MAX_HEADER_BYTES} bytes")
    text = head[: end.start() if end else len(head)].decode("utf-8", "backslashreplace")
    lines = re.sub(r"\r?\n[ \t]+", " ", text).splitlines()[1:]
    pairs = (line.partition(":") for line in lines)
    headers = tuple((name.strip().lower(), value.strip()) for name, colon, value in pairs if colon)
    return HttpResponse(int(status[1]), headers, end.end() if end else len(head))


def kept_headers(headers: Iterable[Header]) -> dict[str, str]:
    """The headers that rows keep, which say something of the content: the first of each name."""
    by_name = dict(reversed(tuple(headers)))
    return {name: by_name[name] for name in _KEPT if name in by_name}
