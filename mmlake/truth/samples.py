"""Planted samples, followed from the landing zone to the batch: what belongs together in a source must reach a trainer
together, in order, with its fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.table import Table

from mmlake.drawing import table
from mmlake.lake import Lake
from mmlake.loader import ShardStream
from mmlake.publish.samples import scan_samples

if TYPE_CHECKING:
    from mmlake.sample import Truth, TruthSample

Parts = tuple[tuple[str, str], ...]  # (role, digest) in order


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleTruth:
    """How far the planted samples came."""

    num_planted: int
    num_parts: int  # parts that must arrive
    num_in_table: int  # samples whose parts and fields stand in the table of samples
    num_in_version: int
    num_in_batches: int
    lost: list[dict[str, str]] = field(default_factory=list)  # sample_id, and where what is wrong with it

    @property
    def is_met(self) -> bool:
        """Whether every planted sample arrived whole."""
        return not self.lost

    def drawn(self) -> Table:
        """The same for a terminal."""
        columns = ["planted", "in the table of samples", "in the version", "in batches", "parts each in order", ""]
        counts = [self.num_planted, self.num_in_table, self.num_in_version, self.num_in_batches, self.num_parts]
        rows: list[list[Any]] = [[*counts, "met" if self.is_met else "NOT MET"]]
        rows += [["", one["sample_id"], one["lost"], "", "", ""] for one in self.lost[:10]]
        return table("Planted samples, from the landing zone to the batch", columns, rows, right=columns[:5])


def compare_samples(lake: Lake, truth: Truth, version: str) -> SampleTruth:
    """The planted samples in the lake's tables, in the version, and as its shards give them to a trainer."""
    planted = {one.sample_id: one for one in truth.samples}
    stages = {
        "the table of samples": _in_tables(lake, planted),
        "the version": _in_version(lake, planted, version),
        "batches": _in_batches(lake, planted, version),
    }
    lost = []
    for sample_id, one in sorted(planted.items()):
        for stage, found in stages.items():
            if (
                wrong := _difference(one, found.get(sample_id), has_masked=stage == "the table of samples")
            ) is not None:
                lost.append({"sample_id": sample_id, "lost": f"{stage}: {wrong}"})
                break
    counts = [
        sum(
            _difference(one, found.get(sample_id), has_masked=stage == "the table of samples") is None
            for sample_id, one in planted.items()
        )
        for stage, found in stages.items()
    ]
    return SampleTruth(
        num_planted=len(planted),
        num_parts=sum(len(one.parts) for one in planted.values()),
        num_in_table=counts[0],
        num_in_version=counts[1],
        num_in_batches=counts[2],
        lost=lost,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    modality: str | None
    parts: Parts
    fields: Mapping[str, Any]


def _difference(planted: TruthSample, found: _Found | None, *, has_masked: bool) -> str | None:
    """What is wrong with the sample as it was found; None where nothing is."""
    if found is None:
        return "it is absent"
    if found.modality != planted.modality:
        return f"modality {found.modality}, expected {planted.modality}"
    expected = len(planted.parts) + (planted.num_masked if has_masked else 0)
    kept = tuple(part for part in found.parts if part in planted.parts) if has_masked else found.parts
    if kept != planted.parts or len(found.parts) != expected:
        return f"{len(found.parts)} parts, expected {expected} in the planted order"
    for name, value in planted.fields.items():
        if type(found.fields.get(name)) is not type(value) or found.fields[name] != value:
            return f"field {name} is {found.fields.get(name)!r}, expected {value!r}"
    return None


def _in_tables(lake: Lake, planted: Mapping[str, TruthSample]) -> dict[str, _Found]:
    found: dict[str, _Found] = {}
    shards = {sample_id.rpartition("/")[0] for sample_id in planted}
    for shard, samples in scan_samples(lake):
        if shard in shards:
            found |= _of_rows(samples.to_pylist(), planted)
    return found


def _in_version(lake: Lake, planted: Mapping[str, TruthSample], version: str) -> dict[str, _Found]:
    found: dict[str, _Found] = {}
    for samples in lake.versions.iter_samples(version):
        found |= _of_rows(samples.to_pylist(), planted)
    return found


def _of_rows(rows: list[dict[str, Any]], planted: Mapping[str, TruthSample]) -> dict[str, _Found]:
    return {
        sample_id: _Found(
            row["modality"],
            tuple((part["role"], part["digest"]) for part in row["parts"]),
            json.loads(row["fields_json"] or "{}"),
        )
        for row in rows
        for sample_id in row["sample_ids"]
        if sample_id in planted
    }


def _in_batches(lake: Lake, planted: Mapping[str, TruthSample], version: str) -> dict[str, _Found]:
    """As the loader gives them: a part counts where its bytes or its text are there."""
    stream = ShardStream(lake.shards_dir / lake.versions.resolve(version), shuffle=False, decode={"json": "json"})
    found: dict[str, _Found] = {}
    try:
        for sample in stream:
            facts = sample["json"]
            for sample_id in planted.keys() & set(facts["sample_ids"]):
                there = [part for part in facts["parts"] if part["text"] is not None or sample.get(part["member"])]
                found[sample_id] = _Found(
                    facts["modality"], tuple((part["role"], part["digest"]) for part in there), facts["fields"] or {}
                )
    finally:
        stream.close()
    return found
