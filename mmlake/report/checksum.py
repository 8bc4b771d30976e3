"""The checksum of a report: a comment behind the page, so that it stays one file that any browser shows."""

from __future__ import annotations

from mmlake.records import digest_of

_MARK = b"\n<!-- sha256 %s -->\n"


def with_checksum(page: bytes) -> bytes:
    """The page with its SHA-256 behind it."""
    return page + _MARK % digest_of(page).encode()


def is_as_written(page: bytes) -> bool:
    """Whether the page is what was written; those of earlier releases, which end with the page, are taken to be."""
    text, mark, rest = page.rpartition(_MARK.partition(b"%")[0])
    return mark + rest == _MARK % digest_of(text).encode() if mark else page.rstrip().endswith(b"</html>")
