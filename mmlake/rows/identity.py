"""Sample ids in one output: two samples that share an id are distinguished, and an id becomes a safe file name.

Two shards may both have a sample "000"; written as they are, one would hide the other's rows.
"""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.records import SourceRef
from mmlake.rows.order import sample_numbers
from mmlake.rows.schema import METADATA

_SHIFT = np.int64(1) << 32
_EXAMPLES = 100
STEM_CHARS = 72  # of the 100 that a ustar header has for a name; ".<position>.<extension>" takes at most 28
_HASH_CHARS = 16
_EMPTY = "%"  # no percent form, so no other id has it
_CUT = re.compile(r"%[0-9A-F]?$")


def stem_of(sample_id: str) -> str:
    """The id in percent form: letters, digits, `_` and `-` stand for themselves, so that no slash, dot or odd byte
    reaches a file name.

    An id that is too long for a tar header is cut and ends in `~` and 16 hex characters of its SHA-256.
    """
    data = sample_id.encode("utf-8", "surrogatepass")
    text = quote(data, safe="").replace(".", "%2E").replace("~", "%7E") or _EMPTY
    if len(text) <= STEM_CHARS:
        return text
    return f"{_CUT.sub('', text[: STEM_CHARS - _HASH_CHARS - 1])}~{hashlib.sha256(data).hexdigest()[:_HASH_CHARS]}"


class DistinctIds:
    """Hands out the ids of one output. It keeps 8 bytes for each, a hash: of 2^64, so a free id that seems taken is
    a rare rename and no loss."""

    def __init__(self) -> None:
        # sorted hashes of ids, each run more than twice the next: lookups stay few and merges cheap
        self._runs: list[np.ndarray] = []
        self._counts: dict[str, int] = {}  # id -> number that its latest namesake got
        self.num_renamed = 0
        # (the id, what its second or later sample is called), the first of them
        self.examples: list[tuple[str, str]] = []

    def distinct(self, table: pa.Table) -> pa.Table:
        """The table, whose samples are whole, with the ids of those renamed that an earlier sample of the output
        has: `id#2`, `id#3`."""
        if not table.num_rows:
            return table
        numbers, ids = _separate(table)
        taken = self._taken(ids)
        if not taken.any():
            self._remember(ids)
            return table
        names, used = list(ids), set(ids)
        for at in np.flatnonzero(taken):
            names[at] = self._free(ids[at], used)
        self._remember(names)
        field = table.schema.field("sample_id")
        column = pa.array(names, pa.string()).take(pa.array(numbers)).cast(field.type)
        return table.set_column(table.schema.get_field_index("sample_id"), field, column)

    def _taken(self, ids: list[str]) -> np.ndarray:
        hashes = _hashes(ids)
        _, firsts = np.unique(hashes, return_index=True)
        taken = np.ones(len(ids), dtype=bool)
        taken[firsts] = False
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            taken |= run[places] == hashes
        return taken

    def _free(self, sample_id: str, used: set[str]) -> str:
        count = self._counts.get(sample_id, 1) + 1
        while (name := f"{sample_id}#{count}") in used or self._taken([name])[0]:
            count += 1
        self._counts[sample_id] = count
        used.add(name)
        self.num_renamed += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append((sample_id, name))
        return name

    def _remember(self, ids: list[str]) -> None:
        self._runs.append(np.unique(_hashes(ids)))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            self._runs.append(np.union1d(self._runs.pop(), self._runs.pop()))


def _hashes(ids: list[str]) -> np.ndarray:
    return np.array(
        [
            int.from_bytes(hashlib.blake2b(one.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
            for one in ids
        ],
        dtype=np.uint64,
    )


def _separate(table: pa.Table) -> tuple[np.ndarray, list[str]]:
    """(number of each row's sample, id by number), where rows that cannot be of one sample are of two: same id,
    position and modality.

    They are distinguished by the file that their locators name where that is enough, else by their order.
    """
    samples = sample_numbers(table)
    ids = ["" if one is None else one for one in pc.unique(table["sample_id"]).to_pylist()]
    clash = _clashing(table, samples)
    if not clash.any():
        return samples, ids
    numbers, order = samples.copy(), np.argsort(samples, kind="stable")
    ranked = samples[order]
    for sample in np.unique(samples[clash]):
        first, last = np.searchsorted(ranked, [sample, sample + 1])
        rows = order[first:last]
        parts = _parts(table, rows)
        for part in range(1, int(parts.max()) + 1):
            numbers[rows[parts == part]] = len(ids)
            ids.append(ids[sample])
    return numbers, ids


def _clashing(table: pa.Table, samples: np.ndarray) -> np.ndarray:
    """Which rows share id, position and modality with an earlier row."""
    modalities = (
        pa.chunked_array([table["modality"].combine_chunks()]).dictionary_encode(null_encoding="encode").chunk(0)
    )
    keys = samples * len(modalities.dictionary) + modalities.indices.to_numpy(zero_copy_only=False)
    keys = keys * _SHIFT + np.array(pc.fill_null(pc.cast(table["position"], pa.int64()), -2).to_numpy(), dtype=np.int64)
    _, firsts = np.unique(keys, return_index=True)
    clash = np.ones(table.num_rows, dtype=bool)
    clash[firsts] = False
    return clash


def _parts(table: pa.Table, rows: np.ndarray) -> np.ndarray:
    """The number of the part that each of the rows of one id is of."""
    own = table.select(["position", "modality"]).take(pa.array(rows))
    places = list(zip(own["position"].to_pylist(), own["modality"].to_pylist(), strict=True))
    files = (
        [_file_of(ref) for ref in table["source_ref"].take(pa.array(rows)).to_pylist()]
        if "source_ref" in table.column_names
        else [None] * len(rows)
    )
    if None not in files and len(set(zip(files, places, strict=True))) == len(rows):
        order = list(dict.fromkeys(files))
        return np.array([order.index(file) for file in files])
    content = [place for place in places if place[1] != METADATA]
    if None not in files and len(set(files)) == 1 and len(set(content)) == len(content):
        # one sample whose rows did not follow one another in its file: it has its metadata row twice
        return np.zeros(len(rows), np.int64)
    parts: list[int] = []
    part = 0
    seen: set[tuple[int | None, str | None]] = set()
    for place in places:
        if place in seen:
            part, seen = part + 1, set()
        seen.add(place)
        parts.append(part)
    return np.array(parts)


def _file_of(ref: str | None) -> str | None:
    try:
        return SourceRef.from_json(ref).path if ref else None
    except ValueError:
        return None
