"""The group of each sample of a version: what quotas and mixtures count by. Of the version's samples alone, so that an
old version has the groups that it had."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import SettingsError
from mmlake.recipes.sql import near

NONE = "none stated"
_COLUMNS = ("modality", "source", "licence")
_FIELD = "metadata."


def check_by(by: str, *, where: str) -> None:
    """Raises SettingsError where nothing can be counted by this."""
    if by not in _COLUMNS and not (by.startswith(_FIELD) and len(by) > len(_FIELD)):
        raise SettingsError(
            f"{where}: by is {by!r}{near(by, _COLUMNS)}; expected one of {', '.join(_COLUMNS)}, or metadata.FIELD"
        )


def groups_of(samples: pa.Table, by: str) -> tuple[list[str], np.ndarray]:
    """(names of the groups, sorted; number of the group of each sample, int64). samples: `VERSION_SAMPLES`. A sample of
    several sources is of the first by name; one of several licences is of all of them together."""
    values = _values(samples, by)
    spelled = pc.fill_null(values, NONE).dictionary_encode()
    if isinstance(spelled, pa.ChunkedArray):
        spelled = spelled.combine_chunks()
    names = spelled.dictionary.to_pylist()
    order = sorted(range(len(names)), key=names.__getitem__)
    place = np.empty(len(names), dtype=np.int64)
    place[order] = np.arange(len(names))
    numbers = spelled.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return [names[at] for at in order], place[numbers] if len(names) else numbers


def _values(samples: pa.Table, by: str) -> pa.Array:
    if by == "modality":
        return samples["modality"].combine_chunks()
    if by in ("source", "licence"):
        joined = pc.binary_join(samples[f"{by}s"].combine_chunks(), "\n").dictionary_encode()
        split = " AND ".join if by == "licence" else min
        named = [split(sorted(text.split("\n"))) if text else None for text in joined.dictionary.to_pylist()]
        return pa.array(named, pa.string()).take(joined.indices) if named else pa.nulls(len(joined), pa.string())
    name = by.removeprefix(_FIELD)
    cells = samples["fields_json"].combine_chunks().dictionary_encode()
    found = [_stated(text, name) for text in cells.dictionary.to_pylist()]
    return pa.array(found, pa.string()).take(cells.indices) if found else pa.nulls(len(cells), pa.string())


def _stated(text: str | None, name: str) -> str | None:
    try:
        value = json.loads(text or "{}").get(name)
    except (ValueError, AttributeError, RecursionError):
        return None
    if value is None or isinstance(value, (dict, list)):
        return None
    return json.dumps(value) if not isinstance(value, str) else value
