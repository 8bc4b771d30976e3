"""Two libraries that others train with read our tars as they are: webdataset, and `datasets` where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mmlake.cuts import CutCache, CutSettings
from mmlake.shards import ShardIndex, ShardSettings
from mmlake.store import BlobStore
from tests.made_clips import WORDS, MadeTracks, film_clips, recording_segments
from tests.made_samples import part, sample, shards_of, text
from tests.make import picture


def written(
    out: Path, rows: list[dict], store: BlobStore, *, tracks: MadeTracks | None = None, **settings: int
) -> ShardIndex:
    return shards_of(
        rows,
        store,
        out,
        manifest_id="ab" * 32,
        settings=ShardSettings(**settings),
        texts=lambda digest: store.read(digest).decode(),
        tracks=tracks,
        cuts=CutCache(out / "cuts", CutSettings()),
    )


def captions(number: int) -> list[str]:
    """One to five captions."""
    return [f"caption {place} of {number}" for place in range(1 + number % 5)]


@pytest.fixture
def store(tmp_path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


@pytest.fixture
def pictures(store) -> list[dict]:
    rows = []
    for number in range(12):
        said = [text(store, words, "caption", fields={"caption_id": number}) for words in captions(number)]
        rows.append(sample([part(store, picture(number, kind="JPEG")), *said], fields={"number": number}))
    return rows


def paths(index: ShardIndex) -> list[str]:
    return [str(index.directory / f"{shard.name}.tar") for shard in index.shards]


_BY_WEBDATASET = """
import json, sys, webdataset
samples = webdataset.WebDataset(sys.argv[1:], shardshuffle=False, empty_check=False)
members = [{name: data.decode("latin-1") for name, data in one.items() if name[0] != "_"} for one in samples]
print(json.dumps(members))
"""


def read_by_webdataset(index: ShardIndex) -> list[dict[str, str]]:
    run = subprocess.run(
        [sys.executable, "-c", _BY_WEBDATASET, *paths(index)],
        env=os.environ | {"WDS_SECURE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def test_webdataset_reads_pictures_with_all_of_their_captions(store, tmp_path, pictures) -> None:
    found = read_by_webdataset(written(tmp_path, pictures, store))
    assert {tuple(sample) for sample in found} == {("jpg", "caption.txt", "json")}
    facts = [json.loads(sample["json"]) for sample in found]
    assert sorted(one["fields"]["number"] for one in facts) == list(range(12))
    assert all(one["captions"] == captions(one["fields"]["number"]) for one in facts)


def test_webdataset_reads_an_interleaved_document_as_one_sample(store, tmp_path) -> None:
    row = sample([text(store, "before"), part(store, b"picture"), text(store, "after")])
    (found,) = read_by_webdataset(written(tmp_path, [row], store))
    assert list(found) == ["000.txt", "001.jpg", "002.txt", "json"]
    assert (found["000.txt"], found["001.jpg"]) == ("before", "picture")


def test_webdataset_reads_clips_and_segments(store, tmp_path) -> None:
    tracks = MadeTracks()
    rows = film_clips(store, tracks, tmp_path) + recording_segments(store, tracks)
    found = read_by_webdataset(written(tmp_path, rows, store, tracks=tracks))
    assert [tuple(sample) for sample in found] == [
        *[("mp4", "sound.flac", "keyframes.mjpeg", "transcript.txt", "json")] * 2,
        *[("flac", "json")] * 2,
    ]
    said = sorted(tuple(word["word"] for word in json.loads(sample["json"])["words"]) for sample in found)
    assert said == sorted([tuple(WORDS[:3]), tuple(WORDS[3:])] * 2)


@pytest.fixture
def datasets(monkeypatch) -> Any:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return pytest.importorskip("datasets")


def read_by_datasets(datasets: Any, index: ShardIndex, cache: Path, **arguments) -> list[dict]:
    """Every row that `load_dataset` gives, with its pictures decoded."""
    loaded = datasets.load_dataset(
        "webdataset", data_files=paths(index), split="train", cache_dir=str(cache / "cache"), **arguments
    )
    return list(loaded)


def test_datasets_reads_texts_with_their_fields(store, tmp_path, datasets) -> None:
    rows = [sample([text(store, f"article {n}")], fields={"number": n, "url": f"https://x.org/{n}"}) for n in range(12)]
    found = read_by_datasets(datasets, written(tmp_path, rows, store), tmp_path)
    assert sorted(row["json"]["fields"]["number"] for row in found) == list(range(12))
    assert all(row["txt"] == f"article {row['json']['fields']['number']}" for row in found)


def test_datasets_reads_pictures_with_one_to_five_captions(store, tmp_path, pictures, datasets) -> None:
    found = read_by_datasets(datasets, written(tmp_path, pictures, store, max_samples=5), tmp_path)
    assert len(found) == 12
    for row in found:
        assert row["jpg"].size == (96, 72)
        assert row["json"]["captions"] == captions(row["json"]["fields"]["number"])
        assert row["caption.txt"] == row["json"]["captions"][0]


def test_datasets_reads_fields_that_only_some_samples_have(store, tmp_path, datasets) -> None:
    """Its schema comes from five samples; the type `Json` takes each as it is."""
    rows = [sample([text(store, f"article {n}")], fields={"number": n} if n else {"late": "x"}) for n in range(12)]
    columns = {"txt": datasets.Value("string"), "json": datasets.Json(), "__key__": datasets.Value("string")}
    columns["__url__"] = datasets.Value("string")
    index = written(tmp_path, rows, store)
    found = read_by_datasets(datasets, index, tmp_path, features=datasets.Features(columns))
    assert {row["__key__"]: row["json"]["fields"] for row in found} == {
        row["sample"]: json.loads(row["fields_json"]) for row in rows
    }


def test_datasets_reads_clips_with_their_sound_keyframes_and_words(store, tmp_path, datasets) -> None:
    tracks = MadeTracks()
    rows = film_clips(store, tracks, tmp_path)
    names = ("mp4", "sound.flac", "keyframes.mjpeg")
    columns = {name: datasets.Value("binary") for name in names} | {"transcript.txt": datasets.Value("string")}
    columns |= {"json": datasets.Json(), "__key__": datasets.Value("string"), "__url__": datasets.Value("string")}
    index = written(tmp_path, rows, store, tracks=tracks)
    found = read_by_datasets(datasets, index, tmp_path, features=datasets.Features(columns))
    assert sorted(row["json"]["span"]["start_s"] for row in found) == [0.0, 2.0]
    for row in found:
        said = [word["word"] for word in row["json"]["words"]]
        assert row["transcript.txt"] == " ".join(said)
        assert (row["mp4"][4:8], row["sound.flac"][:4]) == (b"ftyp", b"fLaC")
        assert len(row["keyframes.mjpeg"]) == sum(one["size_bytes"] for one in row["json"]["keyframes"])
