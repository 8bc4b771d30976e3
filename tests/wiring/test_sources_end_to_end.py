"""One landing zone with a shard of every format, through a lake: each row is there once, and each sound one's bytes
come back."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard

from mmlake import pipeline, sources
from mmlake.lake import Lake
from mmlake.records import SourceRef
from mmlake.settings import Settings
from mmlake.steps import ROW_STEPS, run_step
from mmlake.tables import Slot
from tests import make
from tests.sources.corpora.builders import (
    coco,
    finevideo,
    finevideo_record,
    fineweb,
    fineweb_record,
    librispeech,
    packed,
)
from tests.sources.formats import warcs
from tests.sources.source_builders import mp4, parquet, png, wav
from tests.sources.web.site import QUICK, Site, running

TEXTS = make.jsonl([make.prose(1), make.prose(2), make.prose(3)])
PAIRS = make.tar({"0.png": png(1), "0.txt": b"a caption", "1.png": png(2)})
LINES = [("00:00:00.000", "00:00:01.000", "first words")]


def interleaved() -> bytes:
    """Two samples of a text, the second page of a TIFF, a missing picture, and a text."""
    from PIL import Image

    pages, sink = [Image.new("L", (8, 8), shade) for shade in (10, 200)], io.BytesIO()
    pages[0].save(sink, format="TIFF", save_all=True, append_images=pages[1:])
    members = {}
    for name in ("a", "b"):
        images = [None, {"member": f"{name}.tif", "frame_index": 1}, {"member": "gone.png"}, None]
        members |= {
            f"{name}.tif": sink.getvalue(),
            f"{name}.json": json.dumps(
                {"texts": [f"before {name}", None, None, f"after {name}"], "images": images}
            ).encode(),
        }
    return make.tar(members)


def crawl() -> bytes:
    pages = [
        warcs.response(f"<html><body>{make.prose(number)}</body></html>".encode(), uri=f"http://example.org/{number}")
        for number in (30, 31)
    ]
    return b"".join(
        gzip.compress(record, mtime=0)
        for record in (*pages, warcs.response(b"gone", status="404 Not Found", uri="http://example.org/gone"))
    )


# Shard key -> number of rows by modality and error code.
EXPECTED = {
    # one image is missing: its two captions and the count
    "coco/annotations/captions_train2017.json": {("text", 1011): 3},
    "coco/annotations/instances_train2017.json": {("text", 1011): 1},
    "coco/train2017": {("image", None): 2, ("text", None): 4},
    "crawl.warc.gz": {("text", None): 2, ("text", 1106): 1},
    "cut.tar": {("image", None): 1, ("image", 1002): 1},
    "finevideo.parquet": {("video", None): 2, ("text", None): 2, ("video", 1003): 1},
    "fineweb.parquet": {("text", None): 3},
    "folder": {("audio", None): 1, ("text", None): 2, ("image", 1006): 1},
    "interleaved.tar": {("text", None): 4, ("image", None): 2, ("image", 1003): 2},
    "librispeech.tar.gz": {("audio", None): 3, ("text", None): 7},
    "libritree/LibriSpeech": {("text", None): 4},
    "libritree/LibriSpeech/dev-clean/84/121123": {("audio", None): 2, ("text", None): 2},
    "pairs.tar": {("image", None): 2, ("text", None): 1},
    "pairs.tar.gz": {("image", None): 2, ("text", None): 1},
    "pairs.tar.zst": {("image", None): 2, ("text", None): 1},
    "pictures.lance": {("image", None): 3, ("text", None): 3},
    "pictures.parquet": {("image", None): 2, ("text", None): 2},
    "texts.jsonl": {("text", None): 3, ("text", 1003): 1},
    "texts.jsonl.gz": {("text", None): 3},
    "texts.jsonl.zst": {("text", None): 3},
    "web.urls": {("image", None): 2, ("text", None): 1, ("text", 1106): 1, ("text", 1101): 1},
}


def landing_zone(root: Path, site: Site) -> Path:
    missing = "coco/train2017/000000000030.jpg"
    corpora = coco(numbers=(9, 25, 30))
    captions = json.loads(corpora["coco/annotations/captions_train2017.json"])
    captions["annotations"] = [one for one in captions["annotations"] if one["id"] % 1000 < 2]
    corpora["coco/annotations/captions_train2017.json"] = json.dumps(captions).encode()
    speech = librispeech({"84-121123": ["ONE LINE", "TWO LINES"], "174-50561": ["THREE LINES"]})
    tree = librispeech({"84-121123": ["ONE LINE", "TWO LINES"]})
    films = [(mp4(b"vide") + bytes(number), finevideo_record(number, LINES)) for number in range(2)]
    addresses = [
        site.serve("/0.png", png(50)),
        site.serve("/1.png", png(51)),
        site.serve("/a.txt", b"words from far", Content_Type="text/plain"),
        site.url("/gone"),
        "file:///etc/hostname",
    ]
    files = {
        **{name: data for name, data in corpora.items() if name != missing},
        **{f"libritree/{name}": data for name, data in tree.items()},
        "crawl.warc.gz": crawl(),
        "cut.tar": make.tar({"0.png": png(7), "1.png": png(8)})[:1560],
        "finevideo.parquet": finevideo([*films, (None, finevideo_record(9, None, text_to_speech=None))]),
        "fineweb.parquet": fineweb([fineweb_record(number) for number in range(3)]),
        "folder/a.wav": wav(),
        "folder/a.txt": b"what is said",
        "folder/b.md": b"a document",
        "folder/empty.png": b"",
        "interleaved.tar": interleaved(),
        "librispeech.tar.gz": packed(speech, compress=True),
        "pairs.tar": PAIRS,
        "pairs.tar.gz": gzip.compress(PAIRS, mtime=0),
        "pairs.tar.zst": zstandard.compress(PAIRS),
        "pictures.parquet": parquet({"id": ["p", "q"], "image": [png(60), png(61)], "caption": ["one", "two"]}),
        "texts.jsonl": TEXTS + b'{"text": \n',
        "texts.jsonl.gz": gzip.compress(TEXTS, mtime=0),
        "texts.jsonl.zst": zstandard.compress(TEXTS),
        "web.urls": "".join(f"{address}\n" for address in addresses).encode(),
    }
    pytest.importorskip("lance").write_dataset(
        pa.table({"id": ["x", "y", "z"], "image": [png(at) for at in (70, 71, 72)], "caption": ["x", "y", "z"]}),
        str(root / "pictures.lance"),
    )
    return make.land(root, files)


@dataclass
class Ingested:
    lake: Lake
    landing: Path
    rows: dict[str, list[dict]]  # by shard


@pytest.fixture(scope="module")
def ingested(tmp_path_factory) -> Iterator[Ingested]:
    """The lake once items and blobs of every shard are made."""
    base = tmp_path_factory.mktemp("every-format")
    (base / "in").mkdir()
    with running() as site:
        landing = landing_zone(base / "in", site)
        lake = Lake(base / "lake", landing=landing, settings=Settings.of({"web": dict(QUICK)}))
        pipeline.refresh(lake)
        rows: dict[str, list[dict]] = {}
        for key, shard in lake.registry.known().items():
            for modality in shard.modalities:
                for name in ("items", "blobs"):
                    run_step(ROW_STEPS[name], lake, modality, key)
                rows.setdefault(key, []).extend(lake.tables.read(Slot("items", modality, key)).to_pylist())
        yield Ingested(lake, landing, rows)
        lake.downloads.close()


def test_every_file_of_the_landing_zone_is_in_a_shard(ingested: Ingested) -> None:
    assert sorted(ingested.rows) == sorted(EXPECTED)


@pytest.mark.parametrize("key", sorted(EXPECTED))
def test_a_shard_has_the_rows_that_were_put_into_it(ingested: Ingested, key: str) -> None:
    assert Counter((row["modality"], row["error_code"]) for row in ingested.rows[key]) == EXPECTED[key]


@pytest.mark.parametrize("key", sorted(EXPECTED))
def test_each_item_is_one_row(ingested: Ingested, key: str) -> None:
    assert sorted(row["item_id"] for row in ingested.rows[key]) == [
        f"{key}#{at:06d}" for at in range(len(ingested.rows[key]))
    ]


@pytest.mark.parametrize("key", sorted(EXPECTED))
def test_a_row_is_ok_or_says_why_not(ingested: Ingested, key: str) -> None:
    for row in ingested.rows[key]:
        assert (row["status"] == "ok") == (row["error_code"] is None) == (row["materialize_error"] is None)
        assert row["status"] in ("ok", "unreadable")


@pytest.mark.parametrize("key", sorted(EXPECTED))
def test_the_bytes_of_every_sound_row_are_in_the_store(ingested: Ingested, key: str) -> None:
    sound = [row for row in ingested.rows[key] if row["status"] == "ok"]
    assert [hashlib.sha256(ingested.lake.store.read(row["digest"])).hexdigest() for row in sound] == [
        row["digest"] for row in sound
    ]


# an address is not asked again: its bytes are those of the store
@pytest.mark.parametrize("key", sorted(set(EXPECTED) - {"web.urls"}))
def test_the_bytes_of_every_sound_row_come_back_from_the_landing_zone(ingested: Ingested, key: str) -> None:
    sound = [row for row in ingested.rows[key] if row["status"] == "ok"]
    found = dict(
        sources.fetch_many([SourceRef.from_json(row["source_ref"]) for row in sound], landing=ingested.landing)
    )
    assert [hashlib.sha256(found[at]).hexdigest() for at in range(len(sound))] == [row["digest"] for row in sound]


def test_a_second_scan_finds_nothing_to_do(ingested: Ingested) -> None:
    listing = pipeline.refresh(ingested.lake)
    assert (listing.new, listing.changed, listing.gone) == ((), (), ())
