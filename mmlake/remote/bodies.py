"""The body of a web server's answer as it arrives. gzip that the server applied on the way is undone here: libraries
that accept a gzip stream which ends early would return a shorter file.
"""

from __future__ import annotations

import zlib
from typing import Any
from urllib.parse import urlsplit

from mmlake.errors import UnreadableItem

CHUNK_BYTES = 256 << 10
_GZIP = ("gzip", "x-gzip")  # requests ask for no coding at all; some servers send gzip nonetheless
_GZIP_WINDOW = 31  # zlib's number for the largest window in the gzip format
_STORED = (".gz", ".tgz", ".br", ".zst", ".z", ".bz2", ".xz", ".svgz")


class Body:
    """An answer's body, to be read once and in order. Raises UnreadableItem 1001 for another coding than gzip."""

    def __init__(self, answer: Any, url: str) -> None:
        self.answer = answer
        coding = coding_of(answer, url)
        if coding and coding not in _GZIP:
            raise UnreadableItem(
                1001, f"the server sends it in the content coding {coding[:40]!r}, expected none or gzip"
            )
        self._inflater = zlib.decompressobj(_GZIP_WINDOW) if coding else None

    async def more(self) -> bytes:
        """The next bytes; none at the end. Raises UnreadableItem 1001 where the compression is cut or damaged, and
        what aiohttp raises."""
        if self._inflater is None:
            return bytes(await self.answer.content.read(CHUNK_BYTES))
        while not self._inflater.eof:
            packed = self._inflater.unconsumed_tail or await self.answer.content.read(CHUNK_BYTES)
            try:
                data = self._inflater.decompress(packed, CHUNK_BYTES)
            except zlib.error:
                raise UnreadableItem(
                    1001, "the server says that it compresses the body by gzip, and it is none"
                ) from None
            if data:
                return data
            if not packed and not self._inflater.eof:
                raise UnreadableItem(1001, "the body that the server compresses on the way ends early")
        if self._inflater.unused_data or await self.answer.content.read(1):
            raise UnreadableItem(1001, "the body that the server compresses on the way goes on behind its end")
        return b""


def coding_of(answer: Any, url: str) -> str:
    """The coding that the body has on the way; "" for none. Files that are stored compressed count as having none:
    Apache states a coding for a stored `.tar.gz`, too."""
    coding = answer.headers.get("Content-Encoding", "").strip().lower()
    return "" if coding == "identity" or urlsplit(url).path.lower().endswith(_STORED) else coding
