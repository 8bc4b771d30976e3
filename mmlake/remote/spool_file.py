"""A file of a web server without byte ranges: its body is copied to a temporary file as far as it is read, and read
from there.

Who reads only the beginning fetches only that. A body that breaks is asked for anew from its start, and must repeat
what came before: bytes of two versions are never mixed. The temporary file has no name and ends with the process.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import replace
from typing import IO, Any

from mmlake.errors import UnreadableItem
from mmlake.remote.backoff import Transient
from mmlake.remote.bodies import Body
from mmlake.remote.settings import RemoteSettings
from mmlake.remote.website import FileHeaders, Website
from mmlake.streams import Seekable

_MEASURED = "sha256:"  # begins the version of a file whose server states none
_CHANGED = "the file changed while it was read: "


class SpooledFile(Seekable):
    """The file, whose bytes are fetched in order up to the furthest that was read. Raises UnreadableItem 1001 above
    `remote.spool_bytes`.

    Who reads to its end has the whole file: the body is as long as stated, and where it was measured, it has the same
    hash.
    """

    def __init__(
        self, website: Website, url: str, stated: FileHeaders, *, size_bytes: int, settings: RemoteSettings
    ) -> None:
        if size_bytes > settings.spool_bytes:
            super().close()  # there is nothing to close when it is thrown away
            raise UnreadableItem(
                1001,
                f"size_bytes={size_bytes} not in [0, {settings.spool_bytes}], the bound of `remote.spool_bytes`; "
                "the server has no byte ranges",
            )
        self._website, self._url, self._stated, self._size = website, url, stated, size_bytes
        self._at = self._have = 0  # where the next read begins; bytes in the temporary file
        self._position = 0  # in the body that is under way
        self._body: Body | None = None
        self._hasher = hashlib.sha256()  # of what is in the temporary file
        self._is_whole = False
        self._attempts = website.attempts(url)
        directory = settings.directory()
        directory.mkdir(parents=True, exist_ok=True)
        self._spool: IO[bytes] = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        while self._have < end or (end == self._size and not self._is_whole):
            self._grow()
        self._spool.seek(self._at)
        data = self._spool.read(max(0, end - self._at))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stop()
            self._spool.close()
        super().close()

    def _grow(self) -> None:
        """Add the next piece of the body to the temporary file."""
        try:
            if self._body is None:
                self._body, self._position = self._website.start(self._url, self._stated), 0
            chunk = self._website.more(self._body, self._url)
            if not chunk and self._position < self._size:
                raise Transient("a body that ended early")
        except self._website.transient as error:
            self._stop()
            self._attempts.wait(error)
            return
        known = max(0, min(self._have - self._position, len(chunk)))
        if known:
            self._spool.seek(self._position)
            if self._spool.read(known) != chunk[:known]:
                raise UnreadableItem(1001, f"{_CHANGED}its beginning is another one")
        self._position += len(chunk)
        if self._position > self._size:
            raise UnreadableItem(1001, f"{_CHANGED}it is longer than {self._size} bytes")
        if not chunk:
            self._finish()
        elif fresh := chunk[known:]:
            self._spool.seek(self._have)
            self._spool.write(fresh)
            self._hasher.update(fresh)
            self._have += len(fresh)
            self._attempts.progress()

    def _finish(self) -> None:
        self._stop()
        if self._stated.etag.startswith(_MEASURED) and self._stated.etag != _MEASURED + self._hasher.hexdigest():
            raise UnreadableItem(1001, f"{_CHANGED}it is not what was measured")
        self._is_whole = True

    def _stop(self) -> None:
        if self._body is not None:
            self._website.stop(self._body)
            self._body = None


def measured(website: Website, url: str, stated: FileHeaders, *, settings: RemoteSettings) -> FileHeaders | None:
    """The headers with what reading the whole body adds: its size, and its SHA-256 as the ETag where none is
    stated; None above `remote.spool_bytes`."""
    attempts = website.attempts(url)
    while True:
        body, size, hasher = None, 0, hashlib.sha256()
        try:
            body = website.start(url, stated)
            while chunk := website.more(body, url):
                size += len(chunk)
                hasher.update(chunk)
                if size > settings.spool_bytes:
                    return None
            return replace(
                stated, size_bytes=size, etag=stated.etag or _MEASURED + hasher.hexdigest(), has_ranges=False
            )
        except website.transient as error:
            attempts.wait(error)
        finally:
            if body is not None:
                website.stop(body)
