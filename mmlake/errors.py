"""Everything that can go wrong, in one tree and one catalogue.

    MmlakeError                 something that a person must act on; carries an exit code
    |- SettingsError      (2)   a setting or argument is not usable
    |- SchemaMismatch     (3)   a table does not keep its contract
    |- BlobMissing        (4)   a digest is named but its bytes are gone
    |- BlobCorrupt        (5)   bytes do not hash to their name
    |- TableCorrupt       (5)   a stage table does not hash to its stamp
    |- RefMissing         (6)   no version, branch or tag of that name
    |- RefExists          (6)   a tag or version name is taken
    |- RefInUse           (6)   a branch or tag that is needed is not deleted
    |- HistoryCorrupt     (5)   Dagster's databases of the lake cannot be read
    |- ShardCorrupt       (5)   a training shard does not match its index
    |- RowsUnreadable     (5)   rows of an export have no bytes and the policy says to stop
    |- MissingExtra       (7)   an optional library is not installed
    |  `- MissingBackend  (7)   of a storage that a setting or argument names: a SettingsError as well
    |- ModelMissing       (7)   weights are neither on disk nor reachable
    |- LakeLocked         (8)   another writer holds the lake
    |- ContractBroken     (9)   rows went missing or appeared twice at a border
    `- RemoteUnavailable  (10)  storage or a service over the network does not answer, or refuses us
    UnreadableItem              one item cannot be read: becomes a row, never stops a shard

Bad data is a row (status, reason, severity, code); bad code, settings or environment raises. The codes of rows are in
`mmlake/error_codes/catalogue.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mmlake.error_codes import CODES


class MmlakeError(Exception):
    """An error whose message says what is wrong, where, what was expected and what to do."""

    exit_code = 1


class SettingsError(MmlakeError):
    """A setting or argument is not usable."""

    exit_code = 2


class SchemaMismatch(MmlakeError):
    """A table does not keep the schema that its stage promises."""

    exit_code = 3


class BlobMissing(MmlakeError):
    """A digest is named but the store has no bytes for it."""

    exit_code = 4


class BlobCorrupt(MmlakeError):
    """The bytes of a blob do not hash to its name."""

    exit_code = 5


class TableCorrupt(MmlakeError):
    """The bytes of a stage table do not hash to its stamp."""

    exit_code = 5


class HistoryCorrupt(MmlakeError):
    """A database of Dagster's runs and events is damaged; tables and versions stand without it."""

    exit_code = 5


class ShardCorrupt(MmlakeError):
    """A training shard does not match the size, checksum or count in its index."""

    exit_code = 5


class RowsUnreadable(MmlakeError):
    """Rows of an export have no bytes and the policy says to stop."""

    exit_code = 5


class RefMissing(MmlakeError):
    """No version, branch or tag has that name."""

    exit_code = 6


class RefExists(MmlakeError):
    """That tag or version name is taken by something else."""

    exit_code = 6


class RefInUse(MmlakeError):
    """That branch or tag is not deleted: a version or a recipe needs it."""

    exit_code = 6


class MissingExtra(MmlakeError):
    """An optional library is not installed; the message names the extra that brings it."""

    exit_code = 7


class MissingBackend(MissingExtra, SettingsError):
    """The library of a storage is not installed; the message names the package. Where an address that cannot be used is
    put up with, so is this one."""


class ModelMissing(MmlakeError):
    """Model weights are neither in the named directory nor reachable."""

    exit_code = 7


class LakeLocked(MmlakeError):
    """Another process is writing to the same lake."""

    exit_code = 8


class ContractBroken(MmlakeError):
    """Rows went missing, appeared twice, or came from nowhere at a border between two stages."""

    exit_code = 9


class RemoteUnavailable(MmlakeError):
    """Storage or a service over the network does not answer after all retries, or refuses our credentials."""

    exit_code = 10


class UnreadableItem(Exception):
    """One item cannot be read. Raised inside a stage and turned into a row at its one per-item border.

    code: a key of `CODES`. reason: our own words with the measured value, never a library's message.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {CODES[code].name}: {reason}")
        self.code = code
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        # by what it holds, not by what it was made from: a process pool that cannot pass an error on breaks
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[UnreadableItem], args: tuple[Any, ...], state: dict[str, Any]) -> UnreadableItem:
    error: UnreadableItem = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an item is unreadable."""

    code: int
    reason: str

    @classmethod
    def of(cls, error: UnreadableItem) -> Fault:
        """The fault of an exception."""
        return cls(error.code, error.reason)
