"""The tables of samples of a lake: made where items changed, gone with them, checked against them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from mmlake import pipeline, publish, schemas
from mmlake.errors import ContractBroken, TableCorrupt
from mmlake.lake import Lake
from mmlake.publish.samples import SLOT, samples_inputs
from mmlake.steps import ROW_STEPS, run_step
from mmlake.tables import Slot
from mmlake.upkeep import check_tables
from tests import make


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two shards of pictures with captions and one of texts, ingested without any later stage."""
    pictures = {"0.png": make.picture(1), "0.txt": b"A cat.", "1.png": make.picture(2), "1.txt": b"A cat."}
    make.land(
        tmp_path / "landing",
        {"a.tar": make.tar(pictures), "b.tar": make.tar(pictures), "t.jsonl": make.jsonl(["One.", "Two."])},
    )
    return ingested(tmp_path)


def ingested(base: Path) -> Lake:
    """The lake, opened anew, once its items are up to date."""
    made = Lake(base / "lake", landing=base / "landing")
    pipeline.refresh(made)
    for modality in made.parts.modalities:
        for shard in made.registry.keys(modality):
            run_step(ROW_STEPS["items"], made, modality, shard)
    return made


def slot(shard: str) -> Slot:
    return Slot("samples", "all", shard)


def test_each_shard_has_a_table_over_all_modalities(lake: Lake) -> None:
    stamp = publish.update_samples(lake)
    assert {shard: table.num_rows for shard, table in publish.scan_samples(lake)} == {
        "a.tar": 2,
        "b.tar": 2,
        "t.jsonl": 2,
    }
    assert stamp.counts == {"items": 10, "occurrences": 6, "image": 4, "text": 2, "shards": 3, "shards_made": 3}
    assert (stamp.num_rows, stamp.inputs) == (6, samples_inputs(lake))
    held = lake.tables.stamp(slot("a.tar"))
    assert held is not None
    assert held.inputs == {
        f"{modality}/items": lake.tables.stamp(Slot("items", modality, "a.tar")).data_version
        for modality in ("text", "image")
    }
    assert publish.recheck_samples(lake) == 10


def test_only_the_samples_of_changed_shards_are_made_again(lake: Lake, tmp_path: Path) -> None:
    assert not publish.samples_are_current(lake)
    before = publish.update_samples(lake)
    assert publish.samples_are_current(lake)
    assert publish.update_samples(lake).counts["shards_made"] == 0
    make.land(tmp_path / "landing", {"t.jsonl": make.jsonl(["One.", "Two.", "Three."])})
    changed = ingested(tmp_path)
    assert not publish.samples_are_current(changed)
    after = publish.update_samples(changed)
    assert (after.counts["shards_made"], after.num_rows) == (1, 7)
    assert after.data_version != before.data_version


def test_equal_items_give_equal_samples_in_another_lake(lake: Lake, tmp_path: Path) -> None:
    other = Lake(tmp_path / "other", landing=lake.landing)
    pipeline.refresh(other)
    for modality in ("text", "image"):
        for shard in other.registry.keys(modality):
            run_step(ROW_STEPS["items"], other, modality, shard)
    assert publish.update_samples(other).data_version == publish.update_samples(lake).data_version


def test_samples_go_with_the_items_of_their_shard(lake: Lake) -> None:
    publish.update_samples(lake)
    lake.tables.remove(Slot("items", "text", "t.jsonl"))
    with pytest.raises(ContractBroken, match=r"t\.jsonl"):
        publish.recheck_samples(lake)
    assert publish.update_samples(lake).num_rows == 4
    assert lake.tables.stamp(slot("t.jsonl")) is None
    assert publish.recheck_samples(lake) == 8


def test_a_modality_that_a_shard_loses_leaves_its_samples(lake: Lake) -> None:
    publish.update_samples(lake)
    lake.tables.remove(Slot("items", "text", "a.tar"))
    assert publish.update_samples(lake).counts["items"] == 8


def test_a_lake_without_items_has_no_samples(tmp_path: Path) -> None:
    made = Lake(tmp_path / "lake", landing=make.land(tmp_path / "landing", {"t.jsonl": make.jsonl(["One."])}))
    assert publish.update_samples(made).num_rows == 0
    assert publish.recheck_samples(made) == 0


def test_a_part_too_few_breaks_the_contract(lake: Lake) -> None:
    publish.update_samples(lake)
    held = lake.tables.stamp(slot("a.tar"))
    table = lake.tables.read(slot("a.tar"))
    rows = table.to_pylist()
    rows[0]["parts"].pop()
    lake.tables.write(
        slot("a.tar"),
        schemas.SAMPLES,
        pa.Table.from_pylist(rows, schema=schemas.SAMPLES.arrow),
        code_version=held.code_version,
        settings_digest="",
        inputs=held.inputs,
    )
    with pytest.raises(ContractBroken, match="4 items in parts expected, 3 found"):
        publish.recheck_samples(lake)


def test_lost_and_damaged_rows_are_noticed(lake: Lake) -> None:
    publish.update_samples(lake)
    lake.tables.path(slot("a.tar")).unlink()
    lake.tables.path(slot("b.tar")).write_bytes(b"rot")
    problems = list(check_tables(lake, [SLOT, slot("a.tar"), slot("b.tar"), slot("t.jsonl")]))
    assert len(problems) == 2
    with pytest.raises(TableCorrupt):
        publish.recheck_samples(lake)
