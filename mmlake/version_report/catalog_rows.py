"""The catalog as a report reads it: narrow columns of all units, whole rows of the few that are shown."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.lake import Lake
from mmlake.publish.titles import TITLE_COLUMNS
from mmlake.version_report.examples import EXAMPLE_COLUMNS

_COUNTED = ("digest", "modality", "status", "rule", "tier", "survivor", "score", "size_bytes")
_NAMES = ("modality", "status", "rule", "tier")  # few values, each many times
_SHOWN = tuple(dict.fromkeys((*EXAMPLE_COLUMNS, *TITLE_COLUMNS, "rule", "severity", "error_code", "survivor")))


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """The units of a lake, as many as there are: about 160 bytes of each."""

    lake: Lake
    counted: pa.Table  # _COUNTED, sorted by digest

    @classmethod
    def of(cls, lake: Lake) -> CatalogRows:
        """Those of the catalog as it is."""
        none = lake.catalog.read(list(_COUNTED), where="digest IS NULL")
        parts = [_narrow(part) for part in (none, *map(_table, lake.catalog.scan(list(_COUNTED))))]
        table = pa.concat_tables(parts).unify_dictionaries().combine_chunks()
        return cls(lake, table.take(pc.sort_indices(table["digest"])))

    def of_modality(self, modality: str) -> pa.Table:
        """Those of one modality."""
        return self.counted.filter(pc.equal(self.counted["modality"], modality))

    def whole(self, digests: Collection[str]) -> dict[str, dict[str, Any]]:
        """Digest -> all of its row that is shown, of those that there are."""
        return self.lake.catalog.rows_of(digests, _SHOWN)


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def _narrow(rows: pa.Table) -> pa.Table:
    return pa.table({name: rows[name].dictionary_encode() if name in _NAMES else rows[name] for name in _COUNTED})
