"""The source's own fields as one typed struct: which fields the lake has, of which type, and the cells of a column.

Only top-level scalars: lists and objects stay in the table of samples.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from mmlake.records import canonical_json

MAX_FIELDS = 256  # of the struct; a source with more has one field per thing it counts, which no filter names
MAX_NAME_CHARS = 64
_INT64 = range(-(2**63), 2**63)
_KINDS = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


def scalars(text: str | None) -> dict[str, bool | int | float | str]:
    """The top-level scalars of a `metadata_json` cell; nulls and numbers that are not finite are left out, integers
    beyond 64 bits are texts."""
    try:
        value = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    found: dict[str, bool | int | float | str] = {}
    for name, cell in value.items():
        if type(cell) is int and cell not in _INT64:
            found[name] = str(cell)
        elif type(cell) in _KINDS and (type(cell) is not float or math.isfinite(cell)):
            found[name] = cell
    return found


class FieldTypes:
    """What fields there are, over as many cells as are added."""

    def __init__(self) -> None:
        self._cells: dict[str, Counter[type]] = {}

    def add(self, texts: Iterable[str | None]) -> None:
        """Take note of these `metadata_json` cells."""
        for text in texts:
            for name, cell in scalars(text).items():
                self._cells.setdefault(name, Counter())[type(cell)] += 1

    @classmethod
    def joined(cls, many: Iterable[FieldTypes]) -> FieldTypes:
        """The fields of all of them."""
        made = cls()
        for one in many:
            for name, cells in one._cells.items():
                made._cells.setdefault(name, Counter()).update(cells)
        return made

    @property
    def names(self) -> frozenset[str]:
        """Every field that was seen."""
        return frozenset(self._cells)

    def struct(self) -> tuple[pa.StructType | None, int]:
        """(the struct, its fields sorted by name, None where there are no fields; how many fields are left out).

        Integers and floats make floats, any other two types texts. Of too many fields those in the most cells stay,
        then the first by name; so does the first of names that differ in case alone, which SQL does not distinguish.
        """
        ranked = sorted(self._cells, key=lambda name: (-self._cells[name].total(), name))
        chosen: dict[str, str] = {}
        for name in ranked:
            if len(chosen) < MAX_FIELDS and 0 < len(name) <= MAX_NAME_CHARS and name.isprintable():
                chosen.setdefault(name.lower(), name)
        names = sorted(chosen.values())
        fields = [pa.field(name, _type(set(self._cells[name]))) for name in names]
        return (pa.struct(fields) if fields else None), len(ranked) - len(names)


def _type(kinds: set[type]) -> pa.DataType:
    if len(kinds) == 1:
        return _KINDS[next(iter(kinds))]
    return pa.float64() if kinds == {int, float} else pa.string()


def metadata_column(texts: Iterable[str | None], struct: pa.StructType, *, max_chars: int) -> pa.Array:
    """The `metadata_json` cells as structs, null where a cell has none of the fields; texts end at that many
    characters."""
    kinds = {struct.field(at).name: struct.field(at).type for at in range(struct.num_fields)}
    cells: list[dict[str, Any] | None] = []
    for text in texts:
        cell = {name: _cast(value, kinds[name], max_chars) for name, value in scalars(text).items() if name in kinds}
        cells.append(cell or None)
    return pa.array(cells, struct)


def _cast(value: Any, kind: pa.DataType, max_chars: int) -> Any:
    if pa.types.is_string(kind):
        spelled = value if isinstance(value, str) else canonical_json(value)
        return spelled[:max_chars].encode("utf-8", "replace").decode()  # JSON may escape half of a surrogate pair
    return float(value) if pa.types.is_floating(kind) else value
