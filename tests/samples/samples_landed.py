"""Samples of a small landing zone, straight from the source pass, with their texts and names where they are short."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from mmlake import sources
from mmlake.samples import assemble
from mmlake.store import BlobStore
from tests.make import land


class Landed(NamedTuple):
    """What a landing zone gave: the samples in order of their ids, and the items by their ids."""

    samples: list[dict[str, Any]]
    items: dict[str, dict[str, Any]]

    def parts(self) -> list[list[tuple[int, str, str]]]:
        """For each sample (position, role, text, file name or reason) of its parts."""
        return [[self._part(part) for part in sample["parts"]] for sample in self.samples]

    def _part(self, part: dict[str, Any]) -> tuple[int, str, str]:
        item = self.items[part["item_id"]]
        said = item["materialize_error"] or item["text_content"] or item["content_type"]
        return part["position"], part["role"], said


def landed(root: Path, files: dict[str, bytes]) -> Landed:
    """The samples of these files. Every item is in one of them: `assemble` counts."""
    zone, store, settings = land(root / "zone", files), BlobStore(root / "blobs"), sources.SourceSettings()
    samples: list[dict[str, Any]] = []
    tables: list[pa.Table] = []
    for shard in sources.scan(zone, settings=settings):
        ingested = [
            sources.ingest(shard, modality, landing=zone, store=store, settings=settings)
            for modality in shard.modalities
        ]
        tables += ingested
        samples += assemble(ingested).to_pylist()
    items = {row["item_id"]: row for table in tables for row in table.to_pylist()}
    return Landed(sorted(samples, key=lambda row: row["sample_ids"]), items)
