"""Which files of shards were hashed and found to be what their index says, so that a version costs the bytes that are
new and not those of all versions before it.

A file counts as the same while its inode, size and time of change are the same, as git's index has it. A bit that a
disk loses changes none of these: whoever searches for it hashes all (`mmlake fsck`, `mmlake verify`), and what is found
damaged there is known no longer.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from mmlake import checked_json
from mmlake.errors import SettingsError
from mmlake.locks import waiting_lock
from mmlake.store import write_atomically

# a file that was changed again within one tick of its file system's clock seems the same; FAT's is two seconds
_SETTLED_S = 2.0
_MOST_PROOFS = 16  # of one file, the latest: versions with other weights each have an index of their own


class HashedFiles:
    """What is known of the objects of one lake, in a file that may be deleted at any time: then all is hashed once.

    An object is named by its plan and ending. A proof is what was shown of its bytes: their SHA-256, or the digest of
    what an index says of them. For several threads; each process has its own, and `save` puts together what they
    found.
    """

    def __init__(self, path: Path, *, begins_anew: bool = False) -> None:
        """begins_anew: nothing is believed that was found before, as a pass over all files wants it."""
        self._path = path
        self._known: dict[str, dict[str, Any]] = {} if begins_anew else self._read()
        self._changed: set[str] = set()  # names of which something was found since the last `save`

    def proves(self, name: str, file: Path, proof: str) -> bool:
        """Whether that was shown of the file, and it has not changed since."""
        one = self._known.get(name)
        return one is not None and proof in one["proofs"] and one["is"] == identity(file)

    def add(self, name: str, file: Path, proof: str, *, before: list[int] | None) -> None:
        """Note what was shown of the file. before: `identity` of it when reading began; nothing is noted where it has
        changed since, or so lately that a further change could not be seen."""
        if before is None or before != identity(file) or time.time() - before[-1] / 1e9 < _SETTLED_S:
            return
        one = self._known.get(name)
        others = one["proofs"] if one is not None and one["is"] == before else []
        proofs = [proof, *(other for other in others if other != proof)]
        self._known[name] = {"is": before, "proofs": proofs[:_MOST_PROOFS]}
        self._changed.add(name)

    def forget(self, name: str) -> None:
        """Nothing is shown of it any longer."""
        self._known.pop(name, None)
        self._changed.add(name)

    def keep_only(self, names: Collection[str]) -> None:
        """Forget all others."""
        for name in self._known.keys() - set(names):
            self.forget(name)

    def save(self) -> None:
        """Write down what was found. Where nothing can be written, all is hashed again next time."""
        if not self._changed:
            return
        with suppress(OSError, SettingsError), waiting_lock(self._path.with_name(f"{self._path.name}.lock")):
            now = {name: one for name, one in self._read().items() if name not in self._changed}
            now |= {name: self._known[name] for name in self._changed & self._known.keys()}
            write_atomically(self._path, checked_json.dumps({"files": now}))
            self._changed.clear()

    def _read(self) -> dict[str, Any]:
        try:
            files = checked_json.loads(self._path.read_bytes())["files"]
            return {name: one for name, one in files.items() if {"is", "proofs"} <= one.keys()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}


def identity(file: Path) -> list[int] | None:
    """Inode, bytes and the time of the last change in ns, behind links; None where the file is not there. Devices have
    another number in each container."""
    try:
        facts = file.stat()
    except OSError:
        return None
    return [facts.st_ino, facts.st_size, facts.st_mtime_ns]
