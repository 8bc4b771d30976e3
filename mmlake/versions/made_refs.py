"""Which branches and tags were made and not deleted since, by the log that says so.

Every name that is no branch, such as each tag and each id, is asked of it. A log only grows, so what was read of it is
kept, and asking again costs what was appended since: read whole each time, a thousand tags took a million lines.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mmlake import checked_json


class _Seen(NamedTuple):
    """The file when it was last read."""

    inode: int
    size_bytes: int
    modified_ns: int


class MadeRefs:
    """The log at the path, one JSON line for each ref. Threads may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._forget()

    def of(self, kind: str) -> dict[str, str]:
        """Ref of the kind, if not deleted since -> the manifest id that it was made with, in the order of the log."""
        with self._lock:
            self._catch_up()
            return dict(self._found.get(kind, {}))

    def has(self, kind: str, name: str) -> bool:
        """Whether the log says that the ref was made, and not that it was deleted since."""
        with self._lock:
            self._catch_up()
            return name in self._found.get(kind, {})

    def _forget(self) -> None:
        self._found: dict[str, dict[str, str]] = {}
        self._seen: _Seen | None = None
        self._last, self._last_at = b"", 0  # the last line, which its writer may not have ended, and where it begins

    def _catch_up(self) -> None:
        try:
            with self._path.open("rb") as file:
                status = self._path.stat()
                seen = _Seen(status.st_ino, status.st_size, status.st_mtime_ns)
                if seen == self._seen:
                    return
                before, self._seen = self._seen, None
                is_longer = before is not None and before.inode == seen.inode and before.size_bytes < seen.size_bytes
                file.seek(self._last_at if is_longer else 0)
                data = file.read()
        except FileNotFoundError:
            self._forget()
            return
        if not is_longer or not data.startswith(self._last):
            self._forget()
            data = self._path.read_bytes() if is_longer else data  # another file in its place, of the same inode
        for line in data.splitlines():
            with suppress(ValueError, KeyError):  # the torn line of a writer that died
                body = checked_json.loads(line)
                found = self._found.setdefault(str(body["kind"]), {})
                if body.get("deleted"):
                    found.pop(str(body["name"]), None)
                else:
                    found[str(body["name"])] = str(body["id"])
        start = data.rfind(b"\n") + 1
        self._last_at, self._last = self._last_at + start, data[start:]
        self._seen = seen
