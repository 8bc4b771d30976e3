"""A shard that lands again with other contents."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

from mmlake import checked_json, pipeline, publish
from mmlake.lake import Lake
from mmlake.modalities import MODALITIES
from mmlake.registry import Registry
from mmlake.sources import Shard, priorities
from mmlake.steps import corpus_steps, row_steps
from tests import make


def test_a_shard_that_lost_a_modality_keeps_nothing_of_it(tmp_path) -> None:
    """The caption of the last revision is no part of a sample of this one."""
    for files in ({"0.png": make.picture(1), "0.txt": b"A cat."}, {"0.png": make.picture(2)}):
        make.land(tmp_path / "landing", {"image/a.tar": make.tar(files)})
        lake = Lake(tmp_path / "lake", landing=tmp_path / "landing")
        pipeline.refresh(lake)
        pipeline.run_tables(lake, modalities=["text", "image"])
        publish.update_samples(lake)
    ((_, samples),) = publish.scan_samples(lake)
    assert [[part["role"] for part in sample["parts"]] for sample in samples.to_pylist()] == [["media"]]
    assert lake.tables.shards("items", "text") == [] and lake.tables.shards("verdicts", "text") == []


def test_a_new_folder_with_a_priority_makes_the_clusters_of_its_own_modality_stale_and_no_others(tmp_path) -> None:
    """Every folder is a source: until now any new one made every modality's duplicates again."""
    priority = b'{"priority": 5}'
    files = {"texts/a.jsonl": make.jsonl([make.prose(1)]), "photos/a.png": make.picture(1)}
    lake = Lake(tmp_path / "lake", landing=make.land(tmp_path / "landing", files | {"texts/_source.json": priority}))
    pipeline.refresh(lake)
    pipeline.run_tables(lake, modalities=["text", "image"])
    make.land(tmp_path / "landing", {"more/b.jsonl": make.jsonl([make.prose(2)]), "more/_source.json": priority})
    lake = Lake(tmp_path / "lake", landing=tmp_path / "landing")
    pipeline.refresh(lake)
    assert not pipeline.stale_corpus(lake, "text") and not pipeline.stale_corpus(lake, "image")  # no row is there yet
    assert pipeline.run_tables(lake, modalities=["image"]) == 0
    row = MODALITIES["text"]
    assert pipeline.run_tables(lake, modalities=["text"]) == len(row_steps(row)) + len(corpus_steps(row))
    make.land(tmp_path / "landing", {"photos/_source.json": priority})
    lake = Lake(tmp_path / "lake", landing=tmp_path / "landing")
    assert not pipeline.stale_corpus(lake, "text") and pipeline.stale_corpus(lake, "image")


def test_priorities_are_known_without_reading_the_rows_of_items_that_did_not_change(tmp_path, monkeypatch) -> None:
    files = {"texts/a.jsonl": make.jsonl([make.prose(1)])}
    lake = Lake(tmp_path / "lake", landing=make.land(tmp_path / "landing", files))
    pipeline.refresh(lake)
    pipeline.run_tables(lake, modalities=["text"])
    monkeypatch.delattr("mmlake.tables.Tables.read")
    monkeypatch.delattr("mmlake.landing.LocalLanding.directories")  # nor by listing what may be a million files
    assert not pipeline.stale_corpus(lake, "text")


def test_the_priority_of_a_source_counts_as_long_as_its_folder_says_it(tmp_path) -> None:
    """Also where its files are gone, and where folders above it say it."""
    said = {"_source.json": b'{"priority":7}', "b/_source.json": b'{"source":"bb","priority":3}'}
    files = {"a/x/a.jsonl": make.jsonl([make.prose(1)]), "b/a.jsonl": make.jsonl([make.prose(2)]), **said}
    lake = Lake(tmp_path / "lake", landing=make.land(tmp_path / "landing", files))
    pipeline.refresh(lake)
    assert priorities(lake.landing, lake.registry.directories()) == priorities(lake.landing) == {"a": 7, "bb": 3}
    (tmp_path / "landing" / "b" / "a.jsonl").unlink()
    pipeline.refresh(lake)
    assert priorities(lake.landing, lake.registry.directories()) == {"a": 7, "bb": 3}


def test_of_many_shards_with_as_many_bytes_those_of_the_same_name_may_be_the_one_that_moved(tmp_path) -> None:
    def shards(folder: str) -> list[Shard]:
        common = {"format": "tar", "modalities": ("audio",), "size_bytes": 4096, "modified_ns": 1, "revision": folder}
        return [Shard(key=f"{folder}/{at:02}.tar", path=f"{folder}/{at:02}.tar", **common) for at in range(20)]

    registry = Registry(tmp_path / "landing.sqlite")
    registry.record(shards("old"))
    registry.record(shards("new"), gone=[shard.key for shard in shards("old")])
    found = registry.moved_from("new/17.tar")
    assert found[0] == "old/17.tar" and 1 < len(found) < 20
    registry.record([replace(shards("new")[3], size_bytes=409)])
    assert registry.moved_from("new/03.tar") == [] and registry.moved_from("new/99.tar") == []


def test_a_shard_that_may_have_moved_is_found_without_reading_those_that_are_gone(tmp_path, monkeypatch) -> None:
    """Each of four thousand renamed shards read all four thousand that were gone, nine times."""
    common = {"format": "tar", "modalities": ("audio",), "size_bytes": 4096, "modified_ns": 1, "revision": "r"}
    gone, new = ([Shard(key=f"{one}/{at}.tar", path=f"{one}/{at}.tar", **common) for at in range(50)] for one in "ab")
    registry, parsed = Registry(tmp_path / "landing.sqlite"), []
    registry.record(gone)
    registry.record(new, gone=[shard.key for shard in gone])
    loads = checked_json.loads
    monkeypatch.setattr(checked_json, "loads", lambda data: parsed.append(data) or loads(data))
    assert registry.moved_from("b/33.tar")[0] == "a/33.tar"
    assert len(parsed) == 1
    with closing(sqlite3.connect(registry.path)) as database:
        of_a_few = "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name LIKE 'gone%'"
        assert database.execute(of_a_few).fetchone() == (2,)
