"""The signals of a film as columns: an hour has 28,800 rows of 35 numbers, and a dictionary each is a hundred times as
large in memory.

Enters: one row after the other. Leaves: arrays, which go from a process to another as they are, rows again for who
wants one, and a value of the column `signals`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmlake.schemas import TRACKS

_LIST: pa.ListType = TRACKS.arrow.field("signals").type
NAMES = tuple(field.name for field in _LIST.value_type)


@dataclass(frozen=True, slots=True)
class Signals:
    """Rows of the column `signals`."""

    # S signals; of each name that any row has
    values: dict[str, NDArray[np.float32]]  # (S,); 0 where there is none
    is_there: dict[str, NDArray[np.bool_]]  # (S,)

    def __len__(self) -> int:
        return len(self.values["time_s"]) if self.values else 0

    def __getitem__(self, at: int) -> dict[str, float | None]:
        """One row, with the names that any row has."""
        return {name: float(one[at]) if self.is_there[name][at] else None for name, one in self.values.items()}

    def __iter__(self) -> Iterator[dict[str, float | None]]:
        return (self[at] for at in range(len(self)))

    def scalar(self) -> pa.ListScalar:
        """All rows as one value of the column."""
        columns = [
            pa.array(self.values[name], pa.float32(), mask=~self.is_there[name])
            if name in self.values
            else pa.nulls(len(self), pa.float32())
            for name in NAMES
        ]
        rows = pa.StructArray.from_arrays(columns, fields=list(_LIST.value_type))
        return pa.ListArray.from_arrays(pa.array([0, len(self)], pa.int32()), rows, type=_LIST)[0]


class SignalColumns:
    """Takes rows one by one."""

    def __init__(self) -> None:
        self.last_s = -np.inf  # time of the latest row, unrounded
        self._num = 0
        self._values: dict[str, array[float]] = {}
        self._is_there: dict[str, bytearray] = {}

    def add(self, row: Mapping[str, float | None]) -> None:
        """Take the next row: the same names as the one before; null where there is no value."""
        for name, value in row.items():
            if name not in self._values:
                self._values[name], self._is_there[name] = array("f"), bytearray()
            self._values[name].append(0.0 if value is None else value)
            self._is_there[name].append(value is not None)
        self.last_s = row["time_s"] or 0.0

    def finish(self) -> Signals:
        """All rows."""
        return Signals(
            {name: np.array(one, np.float32) for name, one in self._values.items()},
            {name: np.frombuffer(bytes(one), np.bool_) for name, one in self._is_there.items()},
        )
