"""A run that was stopped in the middle of a table goes on from the rows that it had made."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest
from pyarrow import parquet as pq

from mmlake import pipeline, table_files, tables
from mmlake.border import InProcess
from mmlake.compute import Executor
from mmlake.lake import Lake
from mmlake.preprocess.settings import UnitSettings
from mmlake.settings import Settings
from mmlake.steps import ROW_STEPS, begun, run_step
from mmlake.steps.begun import Begun
from mmlake.steps.former import all_begun, begun_tables
from mmlake.tables import Slot
from mmlake.upkeep import kind_of
from mmlake.upkeep.references import is_named, marks_of, referenced
from tests import make
from tests.damages import files_of, wrong

FILES = {
    "text/a.jsonl": make.jsonl([*map(make.prose, range(10)), "Too short."]),
    "audio/a.tar": make.tar({f"{at}.wav": make.sound(at, seconds=3 + at) for at in range(4)} | {"x.wav": b"x"}),
    "image/a.tar": make.tar({f"{at}.png": make.picture(at) for at in range(7)}),
}
SHARDS = {"text": "text/a.jsonl", "audio": "audio/a.tar", "image": "image/a.tar"}
SLOTS = [
    Slot(name, modality, SHARDS[modality])
    for modality, names in {
        "text": ("tracks", "measures", "fingerprints", "embeddings"),
        "audio": ("tracks", "measures", "fingerprints", "embeddings"),
        "image": ("tracks", "measures"),
    }.items()
    for name in names
]


def lake_of(path, *modalities: str) -> Lake:
    """modalities: which of the files land; all of them where none is named."""
    landing = make.land(path / "landing", {SHARDS[name]: FILES[SHARDS[name]] for name in modalities or SHARDS})
    units = UnitSettings(whole_up_to_s=2.0, min_span_s=0.5, target_span_s=1.0, max_span_s=1.5)
    lake = Lake(
        path / "lake", landing=landing, settings=Settings(units=units), executor=Executor("cpu"), runner=InProcess()
    )
    pipeline.refresh(lake)
    return lake


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    lake = lake_of(tmp_path_factory.mktemp("whole"))
    pipeline.run_tables(lake)
    return lake


@pytest.fixture
def small_parts(monkeypatch):
    """Everything comes in parts of a few rows, each of which is kept."""
    monkeypatch.setattr(table_files, "ROW_GROUP_ROWS", 3)
    monkeypatch.setattr(tables, "_KEPT_BYTES", 0)
    monkeypatch.setattr(import_module("mmlake.preprocess.tracks"), "_HELD_S", 0.0)
    for name, value in {"_EVERY_S": 0.0, "_ITEMS_PER_WORKER": 1, "_SLICE_S": 0.0}.items():
        monkeypatch.setattr(begun, name, value)


def keep_of(monkeypatch, slot: Slot, most: int | None = None) -> list[str]:
    """The keys of the slot's rows, as they are kept. most: the run is stopped once so many parts have been."""
    kept, keep, count = list[str](), Begun.keep, [0]

    def counted(self, rows):
        made = keep(self, rows)
        if self._slot == slot and rows.num_rows:
            kept.extend(dict.fromkeys(rows["digest"].to_pylist()))
            count[0] += 1
            if count[0] == most:
                raise KeyboardInterrupt
        return made

    monkeypatch.setattr(Begun, "keep", counted)
    return kept


def stopped(path, monkeypatch, slot: Slot, most: int = 2) -> tuple[Lake, list[str]]:
    """A lake whose run was stopped in the middle of the table; the keys of the rows that it had made."""
    lake = lake_of(path, slot.modality)
    with monkeypatch.context() as patched:
        first = keep_of(patched, slot, most)
        with pytest.raises(KeyboardInterrupt):
            pipeline.run_tables(lake)
    assert lake.tables.stamp(slot) is None and first
    return lake, first


def rows_of(lake: Lake, slot: Slot) -> list[dict]:
    rows = pq.read_table(lake.tables.path(slot)).to_pylist()
    return [{name: value for name, value in row.items() if name != "vector"} for row in rows]


@pytest.mark.parametrize("slot", SLOTS, ids=str)
def test_the_next_run_makes_what_is_left(tmp_path, monkeypatch, whole, small_parts, slot):
    lake, first = stopped(tmp_path, monkeypatch, slot)
    again = keep_of(monkeypatch, slot)
    pipeline.run_tables(lake)
    assert not set(first) & set(again) and again
    if slot.table == "embeddings":  # the last digit of a vector is float noise of what was encoded together
        assert rows_of(lake, slot) == rows_of(whole, slot)
    else:
        assert pq.read_table(lake.tables.path(slot)).equals(pq.read_table(whole.tables.path(slot)))
    assert lake.tables.stamp(slot).counts == whole.tables.stamp(slot).counts
    assert not any(begun_tables(lake, one) for one in SLOTS)


def test_who_stops_twice_goes_on_from_both(tmp_path, monkeypatch, small_parts):
    slot = SLOTS[0]
    lake, first = stopped(tmp_path, monkeypatch, slot, most=3)
    with monkeypatch.context() as patched:
        second = keep_of(patched, slot, most=3)
        with pytest.raises(KeyboardInterrupt):
            pipeline.run_tables(lake)
    third = keep_of(monkeypatch, slot)
    pipeline.run_tables(lake)
    made = first + second + third
    assert len(made) == len(set(made)) == lake.tables.stamp(slot).num_rows


def test_what_other_settings_made_is_not_taken_over(tmp_path, monkeypatch, small_parts):
    slot = SLOTS[0]
    lake, first = stopped(tmp_path, monkeypatch, slot)
    settings = replace(lake.settings, preprocess=replace(lake.settings.preprocess, max_pixels=63_000_000))
    other = Lake(lake.root, landing=lake.landing, settings=settings, executor=Executor("cpu"), runner=InProcess())
    again = keep_of(monkeypatch, slot)
    pipeline.run_tables(other)
    assert set(first) < set(again)
    assert not begun_tables(other, slot)


def test_a_damaged_file_of_them_is_made_again(tmp_path, monkeypatch, whole, small_parts):
    slot = SLOTS[1]
    lake, first = stopped(tmp_path, monkeypatch, slot)
    for former in begun_tables(lake, slot):
        former.tables.path(slot).write_bytes(b"PAR1 and no more")
    again = keep_of(monkeypatch, slot)
    pipeline.run_tables(lake)
    assert set(first) <= set(again)
    assert rows_of(lake, slot) == rows_of(whole, slot)


def test_who_asks_for_all_rows_gets_them(tmp_path, monkeypatch, small_parts):
    slot = SLOTS[0]
    lake, first = stopped(tmp_path, monkeypatch, slot)
    again = keep_of(monkeypatch, slot)
    run_step(ROW_STEPS[slot.table], lake, slot.modality, slot.shard, force=True)
    assert set(first) < set(again)


def test_no_blob_that_they_name_is_garbage(tmp_path, monkeypatch, small_parts):
    slot = Slot("tracks", "audio", SHARDS["audio"])
    lake, first = stopped(tmp_path, monkeypatch, slot)
    sounds = [
        sound
        for former in begun_tables(lake, slot)
        for sound in former.tables.read(slot)["audio_digest"].drop_null().to_pylist()
    ]
    assert sounds and is_named(marks_of(sounds), referenced(lake)).all()
    reopened = Lake(lake.root, landing=lake.landing, executor=Executor("cpu"), runner=InProcess())
    assert all(reopened.store.read(sound) for sound in sounds)


def test_its_files_are_of_a_kind_and_damage_to_them_is_noticed(tmp_path, monkeypatch, small_parts):
    lake, _ = stopped(tmp_path, monkeypatch, SLOTS[0])
    begun_files = [path for path in files_of(lake) if path.startswith("kept/begun/")]
    assert {kind_of(path).name for path in begun_files} == {"kept"} and len(begun_files) >= 6
    for path in begun_files:
        data = (lake.root / path).read_bytes()
        (lake.root / path).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        assert wrong(lake), path
        (lake.root / path).write_bytes(data)


def test_nothing_is_written_of_what_takes_less_than_a_minute(tmp_path):
    lake = lake_of(tmp_path, "text")
    pipeline.run_tables(lake)
    assert not all_begun(lake)
