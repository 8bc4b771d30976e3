"""What a person asked to try again: rows of finished tables that failed.

Enters: keys of failed rows. Leaves: a small file per table, which its step reads, obeys and removes once the new table is stamped; so a
request outlives whatever stops the run that should fulfil it.
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

    def fulfilled(self, slot: Slot) -> None:
        """Forget the request."""
        self._path(slot).unlink(missing_ok=True)

    def _path(self, slot: Slot) -> Path:
        return self.root / slot.table / slot.modality / f"{slot.shard}.retry.json"
