"""Known-item probes of the catalog as it is, whatever its size: its rows are read a part at a time, and of each unit a
few bytes are kept until it is known which ones are asked for."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.catalog import vector_column
from mmlake.evaluate import ProbeSet, build_probes, lot, middle_words
from mmlake.lake import Lake
from mmlake.records import ADMITTED

_COLUMNS = ["digest", "modality", "role", "status", "survivor", "text"]
_KEY = np.dtype([("query", "S8"), ("survivor", "S64")])


def catalog_probes(lake: Lake) -> ProbeSet:
    """The known-item probes of the catalog as it is now: of items that have a vector, since no others are found."""
    settings, rows = lake.settings.evaluate, list[dict[str, Any]]()
    for modality in lake.parts.modalities:
        column = vector_column(lake.encoder_of(modality))
        if column.removeprefix("vector_") in lake.catalog.encoders():
            where = f"modality = '{modality}' AND {column} IS NOT NULL"
            rows += _members(lake, where, _drawn(lake, modality, where))
    return build_probes(
        rows,
        modalities=tuple(lake.parts.modalities),
        seed=settings.seed,
        per_modality=settings.probes_per_modality,
        query_words=settings.query_words,
    )


def _drawn(lake: Lake, modality: str, where: str) -> list[str]:
    """The survivors of the clusters that are asked for, by lot; of texts those alone that have a query, and one that is
    nobody else's."""
    settings, is_text = lake.settings.evaluate, modality == "text"
    columns = _COLUMNS if is_text else [name for name in _COLUMNS if name != "text"]
    parts = (_keys(batch, settings.query_words) for batch in lake.catalog.scan(columns, where=where))
    keys = np.concatenate([np.empty(0, _KEY), *parts])
    if is_text:
        _, place, count = np.unique(keys["query"], return_inverse=True, return_counts=True)
        keys = keys[(count[place] == 1) & (keys["query"] != b"")]
    survivors = (digest.decode() for digest in keys["survivor"].tolist())
    return heapq.nsmallest(settings.probes_per_modality, survivors, key=lambda digest: lot(settings.seed, digest))


def _keys(batch: pa.RecordBatch, query_words: int) -> np.ndarray:
    """Of each admitted survivor its digest; of documents with a hash of their query, which is empty where there is
    none."""
    return np.array(list(_each_key(batch, query_words)), _KEY)


def _each_key(batch: pa.RecordBatch, query_words: int) -> Iterator[tuple[bytes, bytes]]:
    for row in batch.to_pylist():
        if row["status"] in ADMITTED and row["survivor"] in (None, row["digest"]):
            query = ""
            if (row["role"] or "document") == "document":
                query = middle_words(row.get("text") or "", num_words=query_words).casefold()
            yield blake2b(query.encode(), digest_size=8).digest() if query else b"", row["digest"].encode()


def _members(lake: Lake, where: str, survivors: list[str]) -> Iterator[dict[str, Any]]:
    """The rows of the clusters of these survivors."""
    wanted = pa.array(survivors, pa.string())
    for batch in lake.catalog.scan(_COLUMNS, where=where):
        owners = pc.coalesce(batch["survivor"], batch["digest"])
        yield from batch.filter(pc.is_in(owners, value_set=wanted)).to_pylist()
