"""The links of a web server's directory page that lie below it, as Apache, nginx, Caddy and Python's http.server write
them.

Enters: the text of the page and its address. Leaves: paths below the page. Links to elsewhere, links with a query
(orders of the same list)
and the page itself are left out. Nothing is followed here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes, urljoin, urlsplit

from mmlake.optional import need

PATH = "/-._~!$&'()*+,;=:@"  # what RFC 3986 lets stand in a path


@dataclass(frozen=True, slots=True)
class Link:
    """A path below a page."""

    parts: tuple[str, ...]  # native spelling, percent-decoded
    is_directory: bool  # it ends in a slash

    @property
    def is_odd(self) -> bool:
        """Whether no directory tree has such a path."""
        return any(part in ("", ".", "..") or "/" in part or "\0" in part for part in self.parts)


class _Anchors:
    """Collects the links of a page; lxml calls `start` for each tag."""

    def __init__(self) -> None:
        self.targets: dict[str, None] = {}
        self.base = ""  # the address that links are relative to, where the page states one

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        target = attributes.get("href")
        if tag == "a" and target:
            self.targets[target.strip()] = None
        elif tag == "base" and target and not self.base:
            self.base = target.strip()

    def close(self) -> _Anchors:
        return self


def links_of(page: str, url: str) -> Iterator[Link]:
    """The links of the page below its address, which ends in a slash; each once.

    Parsed by lxml, whose time grows linearly with the page; that of html.parser grows quadratically where tags are left
    open.
    """
    etree = need("lxml.etree", extra="web", purpose="reading the directory page of a web server")
    parser = etree.HTMLParser(target=_Anchors(), encoding="utf-8", huge_tree=True)
    parser.feed(page.encode() or b" ")  # lxml raises for an empty document
    anchors: _Anchors = parser.close()
    here, own, seen = _segments(urlsplit(url).path), origin(url), set[Link]()
    for target in anchors.targets:
        try:
            whole = urljoin(urljoin(url, anchors.base), target)
            is_here = origin(whole) == own
        except ValueError:  # no address at all
            continue
        parts = urlsplit(whole)
        there = _segments(parts.path)
        if parts.query or not is_here or there[: len(here) - 1] != here[:-1] or len(there) < len(here):
            continue
        below = there[len(here) - 1 :]
        is_directory = below[-1] == ""
        link = Link(tuple(below[:-1] if is_directory else below), is_directory)
        if link.parts and link not in seen:
            seen.add(link)
            yield link


def encoded(path: str) -> str:
    """The native path as an address spells it."""
    return quote(os.fsencode(path), safe=PATH)


def decoded(path: str) -> str:
    """A part of an address as a file system spells it; bytes that are no UTF-8 as surrogates."""
    return os.fsdecode(unquote_to_bytes(path))


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port. Raises ValueError where the host or port is not a possible one."""
    parts = urlsplit(url)
    return (
        parts.scheme.lower(),
        (parts.hostname or "").lower(),
        parts.port or {"http": 80, "https": 443}.get(parts.scheme.lower()),
    )


def _segments(path: str) -> list[str]:
    return [decoded(part) for part in path.split("/")]
