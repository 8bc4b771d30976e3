"""Units that could not be cut, remembered until what they were cut with changes or somebody asks for another try.

    <directory>/uncut.json    unit -> item, modality, code, reason, when, and what it was tried with

A version promises the bytes of its samples, so the next one leaves these out, and says why. Who deletes the file has
them tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from mmlake import checked_json
from mmlake.border import Failure
from mmlake.locks import waiting_lock
from mmlake.records import canonical_json, digest_of
from mmlake.store import write_atomically

UNCUT_FILE = "uncut.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Uncut:
    """A unit that could not be cut."""

    digest: str  # of the unit
    parent_digest: str
    modality: str
    error_code: int
    reason: str
    at: str  # when it was tried, in UTC
    tried_with: str  # digest of settings, program, code and limits


class UncutUnits:
    """Those of one directory of cuts."""

    def __init__(self, directory: Path, tried_with: Callable[[str], str]) -> None:
        """tried_with: of a modality, what its units would be cut with now."""
        self.path = directory / UNCUT_FILE
        self._tried_with = tried_with

    def held(self, modality: str | None = None) -> dict[str, Uncut]:
        """Digest -> unit, sorted, of the modality or of all: those whose last try failed."""
        return {digest: one for digest, one in self._read().items() if modality in (None, one.modality)}

    def now(self) -> dict[str, Uncut]:
        """Those of them that would be cut now as they were tried."""
        tried_with = cache(self._tried_with)
        return {digest: one for digest, one in self._read().items() if one.tried_with == tried_with(one.modality)}

    def note(self, tried: Collection[str], failed: Iterable[tuple[str, str, str, Failure]]) -> None:
        """Remember what became of tries. tried: digests of units, of which those that did not fail were cut. failed:
        digests of unit and item, modality, and why."""
        at, tried_with = datetime.now(UTC).isoformat(timespec="seconds"), cache(self._tried_with)
        made = {
            digest: Uncut(
                digest=digest,
                parent_digest=parent_digest,
                modality=modality,
                error_code=failure.code,
                reason=failure.reason,
                at=at,
                tried_with=tried_with(modality),
            )
            for digest, parent_digest, modality, failure in failed
        }
        if made or tried:
            with waiting_lock(self.path.with_suffix(".lock")):
                others = {digest: one for digest, one in self._read().items() if digest not in tried}
                self._write(others | made)

    def forget(self, digests: Collection[str]) -> None:
        """Let these units be tried again."""
        self.note(digests, ())

    def forget_others(self, wanted: Collection[str]) -> None:
        """Forget the units that are none of these."""
        if others := self._read().keys() - set(wanted):
            self.forget(others)

    def _read(self) -> dict[str, Uncut]:
        """All that are written down; none where that cannot be read: they fail once more."""
        try:
            rows = checked_json.loads(self.path.read_bytes())["units"]
            return {row["digest"]: Uncut(**row) for row in rows}
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return {}

    def _write(self, units: dict[str, Uncut]) -> None:
        rows = [asdict(units[digest]) for digest in sorted(units)]
        write_atomically(self.path, checked_json.dumps({"units": rows}))


def version_of(units: dict[str, Uncut]) -> str:
    """The digest of which units they are; "" where there are none. Equal failures at another time are the same."""
    found = [(one.digest, one.error_code, one.reason) for one in units.values()]
    return digest_of(canonical_json(found).encode()) if found else ""
