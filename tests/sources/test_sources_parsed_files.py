"""What was parsed of files that describe many shards: kept by its owner, bounded, and gone with it."""

from __future__ import annotations

import json
import threading
import weakref

import pytest

from mmlake import pipeline, sources
from mmlake.lake import Lake
from mmlake.sources.companions import coco_index, file_records
from mmlake.sources.parsed_files import Kind, ParsedFiles, owned
from mmlake.store import BlobStore
from tests import make
from tests.sources.corpora.builders import coco, landed


class Parsed:
    """Something that can be watched going."""


def test_a_value_is_made_once_until_its_owner_closes():
    parsed, kind, made = ParsedFiles(), Kind[int](max_size=4), []
    for _ in range(3):
        assert parsed.get(kind, "a", lambda: made.append("a") or 7) == 7
    parsed.close()
    parsed.get(kind, "a", lambda: made.append("again") or 7)
    assert made == ["a", "again"]


def test_the_least_lately_used_value_goes_where_there_are_more_than_the_kind_keeps():
    parsed, kind, made = ParsedFiles(), Kind[str](max_size=2), []
    for key in ("a", "b", "a", "c", "a", "b"):
        parsed.get(kind, key, lambda key=key: made.append(key) or key)
    assert made == ["a", "b", "c", "b"]


def test_kinds_are_bounded_by_the_size_of_their_values_and_keep_the_latest():
    parsed, kind, made = ParsedFiles(), Kind[str](max_size=5, size_of=len), []
    for key in ("aaa", "bb", "aaa", "cc", "dddddddd", "dddddddd"):
        parsed.get(kind, key, lambda key=key: made.append(key) or key)
    assert made == ["aaa", "bb", "cc", "dddddddd"]


def test_kinds_do_not_share_keys():
    parsed = ParsedFiles()
    assert [parsed.get(Kind[int](max_size=1), "a", lambda at=at: at) for at in range(2)] == [0, 1]


def test_values_go_when_their_owner_closes():
    kind, value = Kind[Parsed](max_size=4), Parsed()
    seen = weakref.ref(value)
    with owned(None) as parsed:
        parsed.get(kind, "a", lambda: seen())
        del value
        assert seen() is not None
    assert seen() is None


def test_what_another_owns_stays_open():
    kind, made = Kind[int](max_size=4), []
    mine = ParsedFiles()
    for _ in range(2):
        with owned(mine) as parsed:
            parsed.get(kind, "a", lambda: made.append("a") or 7)
    assert made == ["a"]


def test_threads_that_ask_at_once_wait_for_one_value():
    parsed, kind, made, begun = ParsedFiles(), Kind[int](max_size=4), [], threading.Barrier(4)

    def ask() -> None:
        begun.wait()
        parsed.get(kind, "a", lambda: made.append("a") or 7)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["a"]


def test_a_lake_parses_an_annotation_file_once_for_all_shards_that_it_describes(tmp_path, monkeypatch):
    """Pictures in parts of a few files, their captions in one file, which is a shard as well."""
    made: list[object] = []

    class Counted(coco_index.CocoIndex):
        def __init__(self, found: object) -> None:
            made.append(found)
            super().__init__(found)

    monkeypatch.setattr(coco_index, "CocoIndex", Counted)
    root = landed(tmp_path / "in", coco())
    lake = Lake(tmp_path / "lake", landing=root)
    pipeline.refresh(lake)
    keys = lake.registry.keys("text")
    assert len(keys) > 1
    for key in keys:
        shard = lake.registry.get(key)
        for modality in shard.modalities:
            sources.ingest(
                shard,
                modality,
                landing=lake.landing,
                store=lake.store,
                settings=lake.settings.sources,
                parsed=lake.parsed_files,
            )
    num_files = sum(1 for name in coco() if name.endswith(".json"))
    assert 0 < len(made) <= num_files


def test_another_lake_of_the_process_knows_nothing_of_it(tmp_path):
    assert Lake(tmp_path / "a").parsed_files is not Lake(tmp_path / "a").parsed_files


@pytest.mark.parametrize(("module", "kind"), [(coco_index, "_INDEXES"), (file_records, "FILE_RECORDS")])
def test_files_that_are_more_than_those_kept_are_parsed_for_each_shard_and_not_for_each_picture(
    tmp_path, monkeypatch, module, kind
):
    """Of five files of annotations, each was parsed again for each image that it describes."""
    names, made = [f"{number}.png" for number in range(12)], []
    files = {f"train2017/{name}": make.picture(at) for at, name in enumerate(names)}
    images = [{"id": at, "file_name": name} for at, name in enumerate(names)]
    for split in ("one", "two", "three"):
        said = [{"id": at, "image_id": at, "caption": f"{split} {name}"} for at, name in enumerate(names)]
        records = [{"image": f"train2017/{name}", "text": f"{split} {name}"} for name in names]
        annotations = json.dumps({"images": images, "annotations": said}).encode()
        if module is coco_index:
            files[f"annotations/captions_{split}_train2017.json"] = annotations
        else:
            files[f"{split}.jsonl"] = "".join(json.dumps(one) + "\n" for one in records).encode()
    monkeypatch.setattr(module, kind, Kind(max_size=1, size_of=lambda one: made.append(one) or 1))
    root = landed(tmp_path / "in", files)
    given = {"landing": root, "store": BlobStore(tmp_path / "store"), "settings": sources.SourceSettings()}
    [shard] = [one for one in sources.scan(root, settings=given["settings"]) if one.path == "train2017"]
    made.clear()
    texts = sources.ingest(shard, "text", **given).column("text_content").to_pylist()
    assert len(texts) == 3 * 12
    assert len(made) <= 3 * 3
