"""Most lakes lack a modality, and all steps over its shards run all the same: nothing is read or joined for it, and the
tables are those that a join of nothing gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from mmlake import dedup, pipeline, schemas
from mmlake.errors import ContractBroken
from mmlake.lake import Lake
from mmlake.progress import silent
from mmlake.steps import corpus, standing
from mmlake.steps.step import Job
from mmlake.tables import ALL, Slot
from tests import make


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """Two texts, and no other modality."""
    make.land(tmp_path / "landing", {"a.jsonl": make.jsonl([make.prose(1), make.prose(2)])})
    with Lake(tmp_path / "lake", landing=tmp_path / "landing") as made:
        pipeline.refresh(made)
        yield made


def _job(lake: Lake, modality: str) -> Job:
    return Job(lake=lake, modality=modality, shard=ALL, advance=silent, runner=lake.runner)


def test_no_tier_is_joined_for_a_modality_without_units(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    given, near_pairs = {}, dedup.near_pairs

    def noting(prints: standing.Fingerprints, tiers: tuple, **rest: object) -> pa.Table:
        given[prints.job.modality] = tiers
        made = near_pairs(prints, tiers, **rest)
        assert made.equals(near_pairs(prints, prints.job.row.tiers, **rest), check_metadata=True)
        return made

    monkeypatch.setattr(corpus.dedup, "near_pairs", noting)
    pipeline.run_tables(lake)
    assert {modality: bool(tiers) for modality, tiers in given.items()} == {
        "text": True, "image": False, "video": False, "audio": False
    }  # fmt: skip
    assert not any(lake.tables.read(Slot("duplicate_clusters", one)).num_rows for one in ("image", "video", "audio"))


def test_no_table_is_read_for_the_units_that_a_modality_does_not_have(lake: Lake, monkeypatch) -> None:
    pipeline.run_tables(lake)
    read, scan_parts = [], type(lake.tables).scan_parts
    monkeypatch.setattr(
        type(lake.tables),
        "scan_parts",
        lambda self, table, *given, **columns: read.append(table) or scan_parts(self, table, *given, **columns),
    )
    assert [standing.nodes(_job(lake, "image")).num_rows, read] == [0, ["verdicts", "units"]]  # whether there are any
    assert [standing.nodes(_job(lake, "text")).num_rows, len(read) > 6] == [2, True]


def test_no_units_have_the_columns_that_units_have(tmp_path: Path) -> None:
    with Lake(tmp_path / "full", landing=make.small_landing(tmp_path / "landing")) as full:
        pipeline.refresh(full)
        pipeline.run_tables(full)
        held = {modality: standing.nodes(_job(full, modality)) for modality in full.parts.modalities}
    with Lake(tmp_path / "bare", landing=tmp_path / "landing") as bare:
        none = {modality: standing.nodes(_job(bare, modality)) for modality in bare.parts.modalities}
    assert all(held[modality].num_rows and not none[modality].num_rows for modality in held)
    assert {modality: nodes.schema for modality, nodes in none.items()} == {
        modality: nodes.schema for modality, nodes in held.items()
    }


def test_clusters_of_nothing_are_none_and_a_pair_without_its_units_is_refused() -> None:
    nodes, pairs = standing._NODES.empty_table(), schemas.empty(schemas.PAIRS)
    assert dedup.cluster(nodes, pairs).equals(schemas.empty(schemas.CLUSTERS), check_metadata=True)
    stray = {"left": "a", "right": "b", "tier": "near", "method": "minhash", "score": 1.0, "relation": "same"}
    with pytest.raises(ContractBroken, match="which is no node"):
        dedup.cluster(nodes, pa.Table.from_pylist([stray]))
