"""One WebDataset tar of samples in the making. Enters: tables of whole samples. Leaves: for each sample its media
members, then its JSON.

    <id in percent form>.<position>.<extension>     the bytes of an image, a sound or a film
    <id in percent form>.json                       {"sample_id", "texts": [..], "images": [..], fields of the sample,
    lists of fields per row}

`texts` and `images` are as long as the sample, null where something else stands; `audios` and `videos` likewise, where
it has any. The same rows give the same bytes: fixed headers, no times, no order of chance.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import SettingsError
from mmlake.formats.tar_writer import TarWriter
from mmlake.media_names import ENDINGS
from mmlake.modalities import MODALITIES
from mmlake.records import UNKNOWN_LICENCE
from mmlake.rows.batch import RowBatch
from mmlake.rows.columns import agreed, is_null, opened, plain
from mmlake.rows.identity import stem_of
from mmlake.rows.order import by_sample, filter_rows
from mmlake.rows.passthrough import json_text
from mmlake.rows.schema import METADATA, REQUIRED, RESERVED

LISTS: Final = {"text": "texts", "image": "images", "audio": "audios", "video": "videos"}
_NOTES: Final = ("duplicate_member", "charset")  # true of the file that the row came from, not of the one it goes to
_TAKEN: Final = ("sample_id", *LISTS.values())
_MAX_POSITION = 1_000_000  # lists are as long as the highest position: one wrong number must not take all memory
# reserved columns that the JSON is made of
_READ: Final = ("sample_id", "position", "modality", "content_type", "text_content", "licence", "metadata_json")
_EXTENSIONS: Final = ENDINGS | {"image/tiff": "tif"}  # which such tars have been written with


class UnsupportedModality(SettingsError, ValueError):
    """Rows of a modality that no sample of a tar can hold."""


class TarRows:
    """A tar that tables are appended to."""

    suffix = ".tar"

    def __init__(self, path: Path, *, schema: pa.Schema | None = None) -> None:
        self._file = path.open("xb")
        self._tar, self._schema = TarWriter(self._file), schema
        self.dropped: Counter[str] = Counter()
        self.problems: list[str] = []
        # columns written as one value per image: name them when the tar is read back
        self.per_image_fields: set[str] = set()
        self.per_text_fields: set[str] = set()

    @property
    def size_bytes(self) -> int:
        """What the tar takes so far."""
        return self._tar.size_bytes

    def append(self, table: pa.Table) -> int:
        """The number of rows taken. Left out, and counted in `dropped`: content below position 0, texts that are null.

        Raises UnsupportedModality, a ValueError, that names the modality.
        """
        _check_modalities(table)
        table = self._placed(table)
        kinds = self._kinds(table)
        table, bounds = by_sample(table)
        num_before = sum(self.dropped.values())
        columns = [
            name
            for name in table.column_names
            if name in kinds
            or (name in _READ and (self._schema is None or name in self._schema.names or name in REQUIRED))
        ]
        rows = table.select(columns).to_pylist()
        for row in rows:
            _restore(row, kinds)
        bytes_of = table["binary_content"] if "binary_content" in table.column_names else None
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            self._add(rows[first:last], kinds, None if bytes_of is None else bytes_of.slice(first, last - first))
        return int(table.num_rows) - (sum(self.dropped.values()) - num_before)

    def finish(self) -> None:
        """Write the end of the tar."""
        self._tar.finish()
        self._file.close()

    def close(self) -> None:
        """Let go of the file of a write that failed."""
        self._file.close()

    def _placed(self, table: pa.Table) -> pa.Table:
        if (pc.max(table["position"]).as_py() or 0) < _MAX_POSITION:
            return table
        self.problems.append(
            f"position={pc.max(table['position']).as_py()} not in [-1, {_MAX_POSITION}): the positions of its "
            "batch were counted anew"
        )
        return filter_rows(RowBatch(table), np.ones(table.num_rows, dtype=bool)).to_arrow()

    def _kinds(self, table: pa.Table) -> dict[str, str]:
        """Passthrough column -> where its values stand: sample, image, text, or rows for anything mixed. Decided by
        the table, so that all its samples agree."""
        wanted = set(self._schema.names) if self._schema is not None else None
        kinds: dict[str, str] = {}
        for name in table.column_names:
            if name in RESERVED or (wanted is not None and name not in wanted):
                continue
            found = set(pc.unique(table["modality"].filter(pc.is_valid(table[name]))).to_pylist())
            rows = found - {METADATA}
            kinds[name] = (
                "none"
                if not found
                else "sample"
                if not rows
                else next(iter(rows))
                if rows in ({"image"}, {"text"}) and METADATA not in found
                else "rows"
            )
            if METADATA in found and rows:
                self._warn_once(
                    f"field {name!r} has values on metadata rows and on content rows: the latter are in "
                    f"{name}_by_position"
                )
        self.per_image_fields |= {_key_of(name) for name, kind in kinds.items() if kind == "image"}
        self.per_text_fields |= {_key_of(name) for name, kind in kinds.items() if kind == "text"}
        return kinds

    def _warn_once(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def _add(self, rows: list[dict[str, Any]], kinds: dict[str, str], bytes_of: pa.ChunkedArray | None) -> None:
        content = sorted(
            (at for at, row in enumerate(rows) if row["modality"] != METADATA and self._is_writable(row)),
            key=lambda at: (rows[at]["position"], at),
        )
        length = max((rows[at]["position"] + 1 for at in content), default=0)
        sample_id = rows[0]["sample_id"] or ""
        present = {"text", "image"} | {rows[at]["modality"] for at in content}
        lists: dict[str, list[Any]] = {LISTS[modality]: [None] * length for modality in LISTS if modality in present}
        stem = stem_of(sample_id)
        for name, at in self._members(stem, rows, content):
            if bytes_of is not None and bytes_of[at].is_valid:  # else its name alone stands in the JSON
                # any bytes-like object; not copied
                self._tar.add(name, memoryview(bytes_of[at].as_buffer()))  # type: ignore[arg-type]
            lists[LISTS[rows[at]["modality"]]][rows[at]["position"]] = name
        for at in content:
            if rows[at]["modality"] == "text":
                lists["texts"][rows[at]["position"]] = rows[at]["text_content"]
        payload = {"sample_id": sample_id, **lists, **_fields(rows, content, length, kinds)}
        self._tar.add(
            f"{stem}.json", json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        )

    def _is_writable(self, row: dict[str, Any]) -> bool:
        if row["position"] is None or row["position"] < 0:
            self.dropped["position_below_0"] += 1
            return False
        if row["modality"] == "text" and is_null(row.get("text_content")):
            self.dropped["text_is_null"] += 1
            return False
        return True

    @staticmethod
    def _members(stem: str, rows: list[dict[str, Any]], content: list[int]) -> Iterator[tuple[str, int]]:
        taken = set()
        for at in content:
            row = rows[at]
            if row["modality"] != "text":
                extension = _EXTENSIONS.get((row.get("content_type") or "").partition(";")[0].strip().lower(), "bin")
                name = f"{stem}.{row['position']}.{extension}"
                if name in taken:  # a picture and a sound of unknown types at one position
                    name = f"{stem}.{row['position']}.{row['modality']}.{extension}"
                taken.add(name)
                yield name, at


def _check_modalities(table: pa.Table) -> None:
    found = set(pc.unique(table["modality"]).to_pylist())
    if unknown := sorted(str(one) for one in found - {*MODALITIES, METADATA}):
        raise UnsupportedModality(
            f"rows of the modality {', '.join(unknown)} cannot be written to a tar, which holds "
            f"{', '.join([*MODALITIES, METADATA])}; filter them out first"
        )


def _restore(row: dict[str, Any], kinds: dict[str, str]) -> None:
    """Put the record's own value in place of the text that a column made of it, and leave in `said` what has no
    column."""
    said = opened(row.get("metadata_json"))
    for name in kinds.keys() & said.keys():
        original, value = said.pop(name), row[name]
        if isinstance(value, str) and not isinstance(original, str) and value == json_text(original):
            row[name] = original
    row["said"] = {name: value for name, value in said.items() if name not in _TAKEN and name not in _NOTES}


def _fields(rows: list[dict[str, Any]], content: list[int], length: int, kinds: dict[str, str]) -> dict[str, Any]:
    """What the JSON says next to the lists: fields of the sample once, fields of rows as lists, null where a row has
    none."""
    metadata = next((row for row in rows if row["modality"] == METADATA), {})
    found = _stored(rows, metadata, content, length)
    for name, kind in kinds.items():
        key = _key_of(name)
        if not is_null(metadata.get(name)):
            found[key] = plain(metadata[name])
            key = f"{key}_by_position"
        if kind in ("image", "text"):
            if values := [plain(rows[at][name]) for at in content if rows[at]["modality"] == kind]:
                found[key] = values
        elif kind == "rows" and any(not is_null(rows[at][name]) for at in content):
            found[key] = _aligned(rows, content, name, length)
    return found


def _key_of(column: str) -> str:
    """The column's name in the JSON: names that a record of interleaved rows has itself, and those that differ from
    them by underscores at their end, get one more."""
    return f"{column}_" if column.rstrip("_") in _TAKEN else column


def _aligned(rows: list[dict[str, Any]], content: Iterable[int], name: str, length: int) -> list[Any]:
    """The values at their positions; where a text and a picture share one and both have a value, both by modality."""
    places: list[dict[str, Any]] = [{} for _ in range(length)]
    for at in content:
        if not is_null(rows[at][name]):
            places[rows[at]["position"]][rows[at]["modality"]] = plain(rows[at][name])
    return [next(iter(place.values()), None) if len(place) < 2 else place for place in places]


def _stored(rows: list[dict[str, Any]], metadata: dict[str, Any], content: list[int], length: int) -> dict[str, Any]:
    """What the records say beyond the columns: fields of the sample, fields of its rows as lists, and its licence
    where all rows have one."""
    own = [rows[at]["said"] for at in content]
    if metadata:
        found = dict(metadata["said"])
        own = [
            {name: value for name, value in said.items() if name not in found or found[name] != value} for said in own
        ]
    else:
        found, own = agreed(own)
    for name in dict.fromkeys(name for said in own for name in said):
        modalities = {rows[at]["modality"] for at, said in zip(content, own, strict=True) if name in said}
        values = [{**rows[at], name: said.get(name)} for at, said in zip(content, own, strict=True)]
        key = f"{name}_by_position" if name in found else name
        is_list = modalities in ({"image"}, {"text"})
        found[key] = (
            [row[name] for row in values if row["modality"] in modalities]
            if is_list
            else _aligned(values, range(len(values)), name, length)
        )
    licences = {row.get("licence") for row in rows} - {None}
    if len(licences) == 1 and licences != {UNKNOWN_LICENCE}:
        found.setdefault("licence", licences.pop())
    return found
