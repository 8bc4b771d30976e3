"""What a person asked to try again: rows of finished tables that failed.

Enters: keys of failed rows. Leaves: a small file per table, which its step reads, obeys and puts away once the new table is stamped; so a
request outlives whatever stops the run that should fulfil it. What the last one asked for is kept, to tell which rows were tried again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from mmlake.errors import TableCorrupt
from mmlake.store import write_atomically
from mmlake.tables import Slot


class Retries:
    """The pending requests of a lake, under one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def request(self, slot: Slot, keys: Iterable[str]) -> None:
        """Ask for these rows of the table to be made again, beside what was asked for before."""
        wanted = sorted({*keys, *self.pending(slot)})
        write_atomically(self._path(slot), json.dumps({"slot": str(slot), "keys": wanted}, indent=0).encode())

    def pending(self, slot: Slot) -> frozenset[str]:
        """The keys that are asked for; empty where there are none. Raises TableCorrupt where the request cannot be read."""
        path = self._path(slot)
        try:
            return frozenset(str(key) for key in json.loads(path.read_bytes())["keys"])
        except FileNotFoundError:
            return frozenset()
        except (ValueError, KeyError, TypeError) as error:
            raise TableCorrupt(f"the request to try rows of {slot} again is damaged; delete {path} and run `mmlake retry` again") from error

    def slots(self) -> Iterator[Slot]:
        """Every table that something is asked of, sorted by path."""
        for path in sorted(self.root.rglob("*.retry.json")):
            yield Slot.parse(json.loads(path.read_bytes())["slot"])

    def fulfilled(self, slot: Slot, keys: Iterable[str], *, at: str) -> None:
        """Forget the request. keys: the rows that the table stamped at this time tried again, where it took over the others; none where it is all new."""
        if keys := sorted(keys):
            write_atomically(self._path(slot, "retried"), json.dumps({"at": at, "keys": keys}, indent=0).encode())
        else:
            self._path(slot, "retried").unlink(missing_ok=True)
        self._path(slot).unlink(missing_ok=True)

    def tried(self, slot: Slot, *, at: str) -> frozenset[str] | None:
        """The rows that the table stamped at this time tried again; None where that is all of them, or cannot be told."""
        try:
            told = json.loads(self._path(slot, "retried").read_bytes())
            return frozenset(str(key) for key in told["keys"]) if told["at"] == at else None
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def _path(self, slot: Slot, what: str = "retry") -> Path:
        return self.root / slot.table / slot.modality / f"{slot.shard}.{what}.json"
