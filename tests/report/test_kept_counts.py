"""The counts of each shard are kept, and say the same as those that are made from its tables."""

from __future__ import annotations

import pytest

from mmlake import checked_json, pipeline
from mmlake.lake import Lake
from mmlake.preprocess import WHOLE
from mmlake.summary import summarize
from mmlake.tables import Slot, Tables
from mmlake.upkeep import checks, names
from tests import make

KEPT = "kept/text/counts.rows"


@pytest.fixture
def lake(tmp_path) -> Lake:
    texts = {"news/a.jsonl": [make.prose(1), make.prose(2), "Too short."], "web/b.jsonl": [make.prose(1)]}
    make.land(tmp_path / "in", {name: make.jsonl(lines) for name, lines in texts.items()})
    return _made(tmp_path)


def _made(tmp_path) -> Lake:
    lake = Lake(tmp_path / "lake", landing=tmp_path / "in")
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    return lake


def _damaged(lake: Lake) -> list[str]:
    """The kept files that `fsck` finds damaged."""
    return [unit for name in names.kept(lake) for unit, _ in checks.kept(lake, name)]


def _read(monkeypatch) -> list[Slot]:
    """The slots whose rows are read from now on."""
    slots, read = list[Slot](), Tables.read

    def noted(self, slot, **asked):
        slots.append(slot)
        return read(self, slot, **asked)

    monkeypatch.setattr(Tables, "read", noted)
    return slots


def test_of_shards_whose_counts_are_kept_no_table_is_read(lake, tmp_path, monkeypatch) -> None:
    first = summarize(lake, keep=True)
    slots = _read(monkeypatch)
    assert summarize(lake) == first
    assert {slot.table for slot in slots} <= {"duplicate_clusters", "cross_pairs"}


def test_of_a_lake_that_grew_the_new_shard_is_read(lake, tmp_path, monkeypatch) -> None:
    summarize(lake, keep=True)
    make.land(tmp_path / "in", {"web/c.jsonl": make.jsonl([make.prose(1), make.prose(4)])})
    grown = _made(tmp_path)
    slots = _read(monkeypatch)
    found = summarize(grown)
    assert {slot.shard for slot in slots if slot.table == "items"} == {"web/c.jsonl"}
    (grown.root / KEPT).unlink()
    assert summarize(grown) == found
    assert found.modalities[0].duplicates["exact"] == 2 and found.modalities[0].num_rows == 6


def test_a_shard_that_changed_or_went_is_counted_as_it_is_now(lake, tmp_path) -> None:
    summarize(lake, keep=True)
    make.land(tmp_path / "in", {"web/b.jsonl": make.jsonl([make.prose(5), "Short."])})
    changed = _made(tmp_path)
    kept = summarize(changed, keep=True).modalities[0]
    assert (kept.num_rows, kept.statuses["quarantined"], kept.duplicates["exact"]) == (5, 2, 0)
    changed.tables.remove(Slot("items", "text", "web/b.jsonl"))
    assert summarize(changed, keep=True).modalities[0].num_rows == 3
    (changed.root / KEPT).unlink()
    assert summarize(changed).modalities[0].num_rows == 3


@pytest.mark.parametrize("damage", [lambda data: data[:-40], lambda data: b"", lambda data: data.replace(b"P", b"Q")])
def test_damaged_counts_are_made_again_and_fsck_names_them(lake, damage) -> None:
    first, path = summarize(lake, keep=True), lake.root / KEPT
    assert not _damaged(lake)
    path.write_bytes(damage(path.read_bytes()))
    assert _damaged(lake) == ["text/counts.rows"]
    assert summarize(lake, keep=True) == first
    assert not _damaged(lake)


def test_what_another_release_kept_is_not_read(lake) -> None:
    first, path = summarize(lake, keep=True), lake.root / KEPT
    line, _, data = path.read_bytes().partition(b"\n")
    path.write_bytes(checked_json.dumps(checked_json.loads(line) | {"format": 0}) + b"\n" + data)
    assert summarize(lake) == first


def test_a_summary_alone_writes_nothing(lake) -> None:
    summarize(lake)
    assert not (lake.root / KEPT).exists()


def test_spans_of_a_recording_are_counted_alike(tmp_path) -> None:
    make.land(tmp_path / "in", {"talks/long.wav": make.sound(1, seconds=45.0), "talks/copy.wav": make.sound(1)})
    lake = _made(tmp_path)
    first = summarize(lake, keep=True)
    assert summarize(lake) == first
    kinds = lake.tables.concat("units", "audio", columns=["kind"])["kind"].to_pylist()
    assert any(kind != WHOLE for kind in kinds)
