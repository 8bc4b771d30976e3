"""Joins kept on disk, so that the next one goes on from them. A file may be deleted at any time: what is missing,
damaged or made by other code or settings is no join, and the next one is made as a whole, with the same outcome.

A file is one line of JSON (what it was made with, the SHA-256 of the rest) and arrays as numpy's `npz` has them.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmlake.dedup.kept import Elections, Kept, Units
from mmlake.dedup.led import Edges, Led
from mmlake.dedup.prints import Ragged
from mmlake.records import canonical_json, digest_of
from mmlake.store import write_atomically

_FORMAT = 1
_STANDING = ("rank", "priority", "is_clean", "values")
_EDGES = ("follows", "held", "overlaps", "misses", "known")
Arrays = dict[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class KeptJoins:
    """The joins of one modality, one file for each tier."""

    folder: Path
    made_with: str  # all that the outcome depends on besides the units: code, settings, tiers

    def read(self, tier: str) -> Kept | None:
        """The join as it was, if it is there, whole, and made with the same."""
        try:
            header, _, data = self._path(tier).read_bytes().partition(b"\n")
            known = json.loads(header)
        except (OSError, ValueError):
            return None
        if known != self._header(data):
            return None
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return _join_of({name: arrays[name] for name in arrays.files})

    def write(self, tier: str, kept: Kept) -> None:
        """Keep the join in place of the one before."""
        sink = io.BytesIO()
        np.savez(sink, allow_pickle=False, **_arrays_of(kept))  # type: ignore[arg-type]
        data = sink.getvalue()
        path = self._path(tier)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, canonical_json(self._header(data)).encode() + b"\n" + data)

    def _path(self, tier: str) -> Path:
        return self.folder / f"{digest_of(tier.encode())[:16]}.join"

    def _header(self, data: bytes) -> dict[str, object]:
        return {"format": _FORMAT, "made_with": self.made_with, "sha256": digest_of(data)}


def _arrays_of(kept: Kept) -> Arrays:
    arrays: Arrays = {
        "order": kept.order, "equal": kept.units.equal, "key_values": kept.keys.values,
        "key_offsets": kept.keys.offsets, "released": kept.led.released, "head_of": kept.led.head_of,
        "digests": _bytes_of(kept.units.digests),
    }  # fmt: skip
    if kept.units.items is not None:
        arrays["items"] = _bytes_of(kept.units.items)
    won = kept.elections
    arrays |= {"criteria": np.array(won.criteria), "cluster_values": won.clusters.values}
    arrays |= {name: getattr(won, name) for name in _STANDING} | {"cluster_offsets": won.clusters.offsets}
    if kept.derived is not None:
        arrays |= {"derived_values": kept.derived.values, "derived_offsets": kept.derived.offsets}
    for name in _EDGES:
        edges: Edges = kept.known if name == "known" else getattr(kept.led, name)
        arrays |= {f"{name}.{column}": value for column, value in edges._asdict().items() if value is not None}
    return arrays


def _join_of(arrays: dict[str, Any]) -> Kept:
    found = {name: Edges._make(arrays.get(f"{name}.{column}") for column in Edges._fields) for name in _EDGES}
    known = found.pop("known")
    items = _strings_of(arrays["items"]) if "items" in arrays else None
    clusters, keys = (_rows_of(arrays, name) for name in ("cluster", "key"))
    return Kept(
        Units(_strings_of(arrays["digests"]), arrays["equal"], items),
        arrays["order"],
        keys,
        Led(released=arrays["released"], head_of=arrays["head_of"], **found),
        known,
        Elections(str(arrays["criteria"]), clusters=clusters, **{name: arrays[name] for name in _STANDING}),
        _rows_of(arrays, "derived") if "derived_values" in arrays else None,
    )


def _rows_of(arrays: dict[str, Any], name: str) -> Ragged:
    return Ragged(arrays[f"{name}_values"], arrays[f"{name}_offsets"])


def _bytes_of(texts: pa.Array) -> NDArray[np.generic]:
    sink = pa.BufferOutputStream()
    column = pa.chunked_array(texts).combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    with pa.ipc.new_stream(sink, pa.schema([("text", pa.string())])) as writer:
        writer.write_batch(pa.record_batch([column], names=["text"]))
    return np.frombuffer(sink.getvalue(), np.uint8)


def _strings_of(data: NDArray[np.generic]) -> pa.Array:
    return pa.ipc.open_stream(pa.py_buffer(data.tobytes())).read_all()["text"].combine_chunks()
