"""What a person asked to try again: rows of finished tables that failed.

Enters: keys of failed rows. Leaves: a small file per table, which its step reads, obeys and puts away once the new
table is stamped; so a request outlives whatever stops the run that should fulfil it. What was asked for is kept, to
count how often each row was tried: where a try fails as the one before did, the table has the same content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from mmlake import checked_json
from mmlake.errors import TableCorrupt
from mmlake.records import canonical_json, digest_of
from mmlake.store import write_atomically
from mmlake.tables import Slot

_MAX_TRIES = 100  # kept for each table; the dead letters count them at the end of every run


class Retries:
    """The pending requests of a lake, under one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def request(self, slot: Slot, keys: Iterable[str]) -> None:
        """Ask for these rows of the table to be made again, in addition to earlier requests."""
        wanted = sorted({*keys, *self.pending(slot)})
        write_atomically(self._path(slot), checked_json.dumps({"slot": str(slot), "keys": wanted}))

    def pending(self, slot: Slot) -> frozenset[str]:
        """The keys that are asked for; empty where there are none. Raises TableCorrupt where the request cannot be
        read."""
        path = self._file(slot)  # of each table of a run, of which hardly any has a request: no Path is made
        try:
            with open(path, "rb") as file:
                return frozenset(str(key) for key in checked_json.loads(file.read())["keys"])
        except FileNotFoundError:
            return frozenset()
        except (ValueError, KeyError, TypeError) as error:
            raise TableCorrupt(
                f"the request to try rows of {slot} again is damaged; delete {path} and run `mmlake retry` again"
            ) from error

    def slots(self) -> Iterator[Slot]:
        """Every table that something is asked of, sorted by path."""
        for path in sorted(self.root.rglob("*.retry.json")):
            try:
                slot = Slot.parse(checked_json.loads(path.read_bytes())["slot"])
            except (ValueError, KeyError, TypeError) as error:
                raise TableCorrupt(f"the request {path} is damaged; delete it and run `mmlake retry` again") from error
            yield slot

    def fulfilled(self, slot: Slot, keys: Iterable[str] | None, *, at: str) -> None:
        """Forget the request. keys: the rows that the table stamped at this time tried again, where it took over the
        others; None where it is all new."""
        path, tried = self._path(slot, "retried"), None if keys is None else sorted(keys)
        # where nothing was ever asked for, a table's stamp says when its only try was
        if tried is not None or path.exists():
            known = [{"at": one, "keys": None if rows is None else sorted(rows)} for one, rows in self.tries(slot)]
            write_atomically(
                path,
                checked_json.dumps({"tries": [*known, {"at": at, "keys": tried}][-_MAX_TRIES:]}),
            )
        self._path(slot).unlink(missing_ok=True)

    def tries(self, slot: Slot) -> list[tuple[str, frozenset[str] | None]]:
        """(when the table was stamped, which of its rows it had tried again; None for all of them), the last ones in
        their order."""
        try:
            saved = checked_json.loads(self._path(slot, "retried").read_bytes())
            return [
                (str(one["at"]), None if one["keys"] is None else frozenset(map(str, one["keys"])))
                for one in saved.get("tries", [saved])
            ]
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return []

    def version(self, modality: str) -> str:
        """The digest of all tries of the modality's rows; "" where there were none."""
        files = [
            (str(path.relative_to(self.root)), digest_of(path.read_bytes()))
            for path in sorted(self.root.glob(f"*/{modality}/**/*.retried.json"))
        ]
        return digest_of(canonical_json(files).encode()) if files else ""

    def _path(self, slot: Slot, what: str = "retry") -> Path:
        return Path(self._file(slot, what))

    def _file(self, slot: Slot, what: str = "retry") -> str:
        return f"{self.root}/{slot.table}/{slot.modality}/{slot.shard}.{what}.json"
