"""Joins kept on disk, so that the next one goes on from them. A file may be deleted at any time: what is missing,
damaged or made by other code or settings is no join, and the next one is made as a whole, with the same outcome.

A file is one line of JSON (what it was made with, the arrays in it, the SHA-256 of the rest) and the arrays, one after
the other. It is mapped and written array by array, so that none of it has to fit into memory.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmlake import checked_json
from mmlake.dedup.greedy import Candidates, Edges, Led, Outcome
from mmlake.dedup.kept.join import Elections, Kept, Units
from mmlake.dedup.kept.parts import Parts
from mmlake.dedup.numbering import Index
from mmlake.dedup.prints import Ragged
from mmlake.dedup.text.pairs import Pairs
from mmlake.dedup.text.templates import Scale
from mmlake.records import digest_of
from mmlake.store import write_atomically

_FORMAT = 9
_ALIGNED = 64  # bytes
_STANDING = ("rank", "priority", "is_clean", "values")
_PARTS = ("sums", *_STANDING, "part_of", "is_beyond", "common")
_EDGES = ("follows", "held", "overlaps", "misses", "known")
Arrays = dict[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class KeptJoins:
    """The joins of one modality, one file for each tier."""

    folder: Path
    made_with: str  # all that the outcome depends on besides the units: code, settings, tiers

    def read(self, tier: str) -> Kept | None:
        """The join as it was, if it is there, whole, and made with the same."""
        arrays = self._read(tier, "join")
        return None if arrays is None else _join_of(arrays)

    def write(self, tier: str, kept: Kept) -> None:
        """Keep the join in place of the one before."""
        self._write(tier, "join", _arrays_of(kept))

    def read_parts(self, tier: str) -> Parts | None:
        """The same, of a tier that is joined by parts."""
        arrays = self._read(tier, "parts")
        return None if arrays is None else _parts_of(arrays)

    def write_parts(self, tier: str, parts: Parts) -> None:
        """Keep them in place of the ones before."""
        self._write(tier, "parts", _arrays_of_parts(parts))

    def _read(self, tier: str, kind: str) -> Arrays | None:
        try:
            data = _mapped(self._path(tier))
            known, begin = _checked(data)
            arrays = known.pop("arrays")
        except (OSError, ValueError, KeyError):
            return None
        if known != self._header(kind, known["sha256"]):
            return None
        found: Arrays = {}
        for name, dtype, shape in arrays:
            size = np.dtype(dtype).itemsize * math.prod(shape)
            found[name] = np.frombuffer(data[begin : begin + size], dtype).reshape(shape)
            begin += size + -size % _ALIGNED
        return found

    def _write(self, tier: str, kind: str, arrays: Arrays) -> None:
        digest = hashlib.sha256()
        for chunk in _chunks(arrays):
            digest.update(chunk)
        held = [[name, one.dtype.str, list(one.shape)] for name, one in arrays.items()]
        header = checked_json.dumps(self._header(kind, digest.hexdigest()) | {"arrays": held}) + b"\n"
        padding = bytes(-len(header) % _ALIGNED)
        write_atomically(self._path(tier), itertools.chain((header, padding), _chunks(arrays)))

    def _path(self, tier: str) -> Path:
        return self.folder / f"{digest_of(tier.encode())[:16]}.join"

    def _header(self, kind: str, digest: str) -> dict[str, object]:
        return {"format": _FORMAT, "kind": kind, "made_with": self.made_with, "sha256": digest}


def is_as_written(path: Path) -> bool:
    """Whether the file of a kept join is what was written, whatever that was made with."""
    try:
        _checked(_mapped(path))
    except (ValueError, KeyError):
        return False
    return True


def _mapped(path: Path) -> memoryview:
    """The bytes of the file, which the page cache holds; it may be replaced. Raises ValueError where there are none."""
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _chunks(arrays: Arrays) -> Iterator[bytes | memoryview]:
    """The bytes of all arrays, each from an aligned place on."""
    for one in arrays.values():
        whole = np.ascontiguousarray(one).reshape(-1).view(np.uint8).data
        yield whole
        yield bytes(-len(whole) % _ALIGNED)


def _checked(data: memoryview) -> tuple[dict[str, Any], int]:
    """(the header, where the arrays begin). Raises ValueError or KeyError where either is not what was written."""
    end = bytes(data[: 1 << 16]).index(b"\n") + 1
    line, begin = bytes(data[: end - 1]), end + -end % _ALIGNED
    header = checked_json.loads(line)
    if not checked_json.has_checksum(line) or any(data[end:begin]):
        raise ValueError("the header of a kept join is not what was written")
    if hashlib.sha256(data[begin:]).hexdigest() != header["sha256"]:
        raise ValueError("the arrays of a kept join are not what was written")
    return header, begin


def _arrays_of(kept: Kept) -> Arrays:
    arrays: Arrays = {
        "order": kept.order, "equal": kept.units.equal, "key_values": kept.keys.values,
        "key_offsets": kept.keys.offsets, "released": kept.led.released, "head_of": kept.led.head_of,
    }  # fmt: skip
    arrays |= _arrays_of_texts("digests", kept.units.digests)
    if kept.led.candidates is not None:
        arrays |= {f"candidates.{name}": one for name, one in kept.led.candidates._asdict().items()}
    if kept.units.items is not None:
        arrays |= _arrays_of_texts("items", kept.units.items)
    arrays |= {f"index.{name}": one for name, one in kept.index._asdict().items()}
    won = kept.elections
    arrays |= {"criteria": np.frombuffer(won.criteria.encode(), np.uint8), "cluster_values": won.clusters.values}
    arrays |= {name: getattr(won, name) for name in _STANDING} | {"cluster_offsets": won.clusters.offsets}
    if kept.derived is kept.keys:
        arrays["derived_are_keys"] = np.ones(1, np.uint8)
    elif kept.derived is not None:
        arrays |= {"derived_values": kept.derived.values, "derived_offsets": kept.derived.offsets}
    for name in _EDGES:
        arrays |= _arrays_of_edges(name, kept.known if name == "known" else getattr(kept.led, name))
    return arrays


def _join_of(arrays: dict[str, Any]) -> Kept:
    found = {name: _edges_of(arrays, name) for name in _EDGES}
    known = found.pop("known")
    items = _texts_of(arrays, "items") if "items.begins" in arrays else None
    clusters, keys = (_rows_of(arrays, name) for name in ("cluster", "key"))
    return Kept(
        Units(_texts_of(arrays, "digests"), arrays["equal"], items),
        arrays["order"],
        keys,
        Led(
            released=arrays["released"],
            head_of=arrays["head_of"],
            candidates=Candidates(*(arrays[f"candidates.{name}"] for name in Candidates._fields)),
            **found,
        ),
        known,
        Elections(
            arrays["criteria"].tobytes().decode(), clusters=clusters, **{name: arrays[name] for name in _STANDING}
        ),
        Index(*(arrays[f"index.{name}"] for name in Index._fields)),
        keys if "derived_are_keys" in arrays else _rows_of(arrays, "derived") if "derived_values" in arrays else None,
    )


def _arrays_of_parts(parts: Parts) -> Arrays:
    arrays: Arrays = {name: getattr(parts, name) for name in _PARTS}
    arrays |= _arrays_of_texts("digests", parts.digests)
    arrays["criteria"] = np.frombuffer(parts.criteria.encode(), np.uint8)
    arrays["scale"] = np.array(parts.scale, np.uint64)
    arrays |= {"cluster_values": parts.clusters.values, "cluster_offsets": parts.clusters.offsets}
    if parts.items is not None:
        arrays |= _arrays_of_texts("items", parts.items)
    arrays |= {f"pairs.{name}": column for name, column in parts.pairs._asdict().items()}
    for name, edges in parts.outcome._asdict().items():
        arrays |= _arrays_of_edges(name, edges)
    return arrays


def _parts_of(arrays: dict[str, Any]) -> Parts:
    return Parts(
        digests=_texts_of(arrays, "digests"),
        items=_texts_of(arrays, "items") if "items.begins" in arrays else None,
        criteria=arrays["criteria"].tobytes().decode(),
        pairs=Pairs(*(arrays[f"pairs.{name}"] for name in Pairs._fields)),
        outcome=Outcome._make(_edges_of(arrays, name) for name in Outcome._fields),
        clusters=_rows_of(arrays, "cluster"),
        scale=Scale(*arrays["scale"].tolist()),
        **{name: arrays[name] for name in _PARTS},
    )


def _arrays_of_edges(name: str, edges: Edges) -> Arrays:
    return {f"{name}.{column}": value for column, value in edges._asdict().items() if value is not None}


def _edges_of(arrays: dict[str, Any], name: str) -> Edges:
    return Edges._make(arrays.get(f"{name}.{column}") for column in Edges._fields)


def _rows_of(arrays: dict[str, Any], name: str) -> Ragged:
    return Ragged(arrays[f"{name}_values"], arrays[f"{name}_offsets"])


def _arrays_of_texts(name: str, texts: pa.Array) -> Arrays:
    """The buffers of texts, as they are."""
    column = pa.chunked_array(texts).combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    wide = np.int64 if pa.types.is_large_string(column.type) else np.int32
    _, offsets, values = column.buffers()
    begins = np.zeros(1, wide)
    if offsets is not None and len(column):
        begins = np.frombuffer(offsets, wide)[column.offset : column.offset + len(column) + 1]
    found = np.zeros(0, np.uint8) if values is None else np.frombuffer(values, np.uint8)[begins[0] : begins[-1]]
    arrays: Arrays = {f"{name}.begins": begins - begins[0], f"{name}.values": found}
    if column.null_count:
        is_there = column.is_valid().to_numpy(zero_copy_only=False)
        arrays[f"{name}.there"] = np.packbits(is_there, bitorder="little")
    return arrays


def _texts_of(arrays: dict[str, Any], name: str) -> pa.Array:
    begins = arrays[f"{name}.begins"]
    kind = pa.large_string() if begins.dtype == np.int64 else pa.string()
    buffers = [arrays.get(f"{name}.there"), begins, arrays[f"{name}.values"]]
    held = [None if one is None else pa.py_buffer(one) for one in buffers]
    return pa.Array.from_buffers(kind, len(begins) - 1, held)
