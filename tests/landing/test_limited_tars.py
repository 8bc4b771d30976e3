"""Tars under a limit: no more is read than the first samples and a margin behind them take, and the rows are the
first of all."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import random
from pathlib import Path

import pytest
from site_server import Site

from mmlake.lake import Lake
from mmlake.landing import LocalLanding
from mmlake.landing.website import WebsiteLanding
from mmlake.pipeline import refresh
from mmlake.remote.settings import RemoteSettings
from mmlake.sources import Shard, SourceSettings, ingest, read, scan
from mmlake.sources.connectors import tar as tar_connector
from mmlake.sources.excerpt import scan_first
from mmlake.store import BlobStore
from tests import make
from tests.sources.source_builders import png, tar, wav

SETTINGS = SourceSettings()
PICTURE_BYTES = 2000
VOC = b"""<annotation><filename>a.png</filename><object><name>dog</name>
<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>3</xmax><ymax>4</ymax></bndbox></object></annotation>"""


def picture(number: int) -> bytes:
    """A PNG that does not compress."""
    return png(number % 256) + random.Random(number).randbytes(PICTURE_BYTES)


def pairs(count: int) -> list[tuple[str, bytes]]:
    """A picture and its record each."""
    return [
        (name, data)
        for at in range(count)
        for name, data in (
            (f"{at:05d}.png", picture(at)),
            (f"{at:05d}.json", json.dumps({"caption": f"picture {at}"}).encode()),
        )
    ]


@pytest.fixture(scope="module")
def large() -> bytes:
    """5,000 samples, 23 MB."""
    return tar(pairs(5000))


class Counting(LocalLanding):
    """A landing zone that counts the bytes that are read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.num_bytes = 0

    def open(self, path: str) -> io.BufferedReader:
        return io.BufferedReader(_Counted(super().open(path), self), 1024)


class _Counted(io.RawIOBase):
    def __init__(self, file: object, landing: Counting) -> None:
        self._file, self._landing = file, landing

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: memoryview) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._landing.num_bytes += len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def rows(shard: Shard, landing: LocalLanding, store: Path) -> list[dict]:
    """All rows in their order."""
    blobs = BlobStore(store)
    with blobs.batch():
        found = [
            row
            for modality in shard.modalities
            for row in ingest(shard, modality, landing=landing, store=blobs, settings=SETTINGS).to_pylist()
        ]
    return sorted(found, key=lambda row: row["item_id"])


def first_rows(found: list[dict], num_samples: int) -> list[dict]:
    """Those of the first samples."""
    first = list(dict.fromkeys(row["sample_id"] for row in found))[:num_samples]
    return [row for row in found if row["sample_id"] in first]


def both(root: Path, limit: int) -> tuple[list[dict], list[dict]]:
    """(the rows under the limit, the first of all rows) of a landing zone with one shard."""
    landing = LocalLanding(root)
    (shard,), (whole,) = scan_first(landing, limit, settings=SETTINGS), scan(landing, settings=SETTINGS)
    return rows(shard, landing, root.parent / "store"), first_rows(rows(whole, landing, root.parent / "store"), limit)


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, lambda data: lzma.compress(data, preset=0)], ids=["plain", "gzip", "xz"]
)
def test_a_limit_reads_the_beginning_alone(tmp_path: Path, large: bytes, pack) -> None:
    data = pack(large)
    landing = Counting(make.land(tmp_path / "in", {"a.tar": data}))
    (shard,) = scan_first(landing, 10, settings=SETTINGS)
    assert (shard.limit, shard.num_samples, shard.modalities) == (10, 10, ("text", "image"))
    inspected_bytes, landing.num_bytes = landing.num_bytes, 0
    assert len({row["sample_id"] for row in rows(shard, landing, tmp_path / "store")}) == 10
    # Twice for the scan, which reports modalities and samples, once for each modality; a compressed one is expanded in
    # steps of 4, 8, ... MB.
    assert inspected_bytes < len(data) // 2 and landing.num_bytes < len(data) // 2


def test_a_limit_asks_a_web_server_for_the_beginning_alone(site: Site, tmp_path: Path, large: bytes) -> None:
    site.files = {"a.tar": large}
    landing = WebsiteLanding(site.url, remote=RemoteSettings(block_bytes=1 << 16, cache_bytes=1 << 28))
    (shard,) = scan_first(landing, 10, settings=SETTINGS)
    assert len({row["sample_id"] for row in rows(shard, landing, tmp_path / "store")}) == 10
    # 10 samples, the margin of 256, and a run of 32 headers; the first scan of the format reads ahead
    assert site.served("a.tar") < 300 * len(large) // 5000 + 20 * (1 << 16)


@pytest.mark.parametrize("limit", [1, 10, 300, 599, 600, 700])
def test_the_rows_are_the_first_of_all(tmp_path: Path, limit: int) -> None:
    limited, expected = both(make.land(tmp_path / "in", {"a.tar": tar(pairs(600))}), limit)
    assert limited == expected and len(limited) == 2 * min(limit, 600)


@pytest.mark.parametrize("distance", [1, 5, tar_connector._MARGIN_STEMS - 10])
def test_members_that_lie_within_the_margin_belong_to_their_sample(tmp_path: Path, distance: int) -> None:
    """Each record stands so many samples behind its picture."""
    shuffled = sorted(enumerate(pairs(600)), key=lambda one: one[0] // 2 + (distance + 0.5) * (one[0] % 2))
    limited, expected = both(make.land(tmp_path / "in", {"a.tar": tar([member for _, member in shuffled])}), 5)
    assert limited == expected and {row["role"] for row in limited} == {"media", "caption"}


def test_a_sample_whose_record_lies_behind_the_margin_is_whole_without_it(tmp_path: Path) -> None:
    members = pairs(600)
    limited, _ = both(make.land(tmp_path / "in", {"a.tar": tar(members[::2] + members[1::2])}), 5)
    assert [(row["role"], row["status"]) for row in limited] == [("media", "ok")] * 5


@pytest.mark.parametrize(
    "record",
    [{"score": 1}, {"texts": [None], "images": ["{}.png"]}, {"texts": ["x", None], "images": [None, "{}.1.png"]}],
)
def test_what_a_record_names_is_searched_for_behind_the_margin(tmp_path: Path, record: dict) -> None:
    """All records stand before all pictures: a sample that were cut between them would be reported as damaged."""
    records = [(f"{at:05d}.json", json.dumps(record).replace("{}", f"{at:05d}").encode()) for at in range(600)]
    inner = ".1" if "texts" in record and record["texts"][0] else ""
    limited, expected = both(
        make.land(tmp_path / "in", {"a.tar": tar(records + [(f"{at:05d}{inner}.png", png()) for at in range(600)])}), 5
    )
    assert limited == expected
    assert {row["status"] for row in limited} == {"ok"} and [row["modality"] for row in limited].count("image") == 5


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    ("label", "image", "data"),
    [
        ("VOC2007/Annotations/{:04d}.xml", "VOC2007/JPEGImages/{:04d}.png", VOC),
        ("coco/labels/train/{:04d}.txt", "coco/images/train/{:04d}.png", b"3 0.5 0.5 0.25 0.125\n"),
    ],
)
def test_labels_that_lie_in_front_of_all_images_are_read_with_them(tmp_path: Path, label, image, data, pack) -> None:
    """Archives of Pascal VOC begin with 9,963 annotations: the first samples were documents of XML."""
    members = [(label.format(at), data) for at in range(700)] + [(image.format(at), png(at % 256)) for at in range(700)]
    limited, expected = both(make.land(tmp_path / "in", {"a.tar": pack(tar(members))}), 5)
    assert limited == expected
    assert [row["modality"] for row in limited] == ["image"] * 5
    assert all(json.loads(row["metadata_json"])["objects"] for row in limited)


def test_documents_in_a_folder_of_labels_are_the_first_samples(tmp_path: Path) -> None:
    members = [(f"labels/{at:04d}.txt", f"label {at} of the herbarium".encode()) for at in range(700)]
    limited, expected = both(make.land(tmp_path / "in", {"a.tar": tar(members)}), 5)
    assert limited == expected
    assert [row["text_content"] for row in limited] == [f"label {at} of the herbarium" for at in range(5)]


def test_a_table_of_transcripts_behind_its_recordings_is_read(tmp_path: Path) -> None:
    names = [f"84-7-{at:04d}" for at in range(120)]
    members = [(f"84/7/{name}.wav", wav(8 + at)) for at, name in enumerate(names)] + [
        ("84/7/84-7.trans.txt", "".join(f"{name} SPOKEN WORDS\n" for name in names).encode())
    ]
    members += [(f"85/1/85-1-{at:04d}.wav", wav(at + 1)) for at in range(600)]
    limited, expected = both(make.land(tmp_path / "in", {"a.tar": tar(members)}), 3)
    assert limited == expected and [row["role"] for row in limited].count("transcript") == 3


def test_a_margin_of_large_members_is_measured_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_connector, "_MARGIN_BYTES", 1 << 20)
    members = [(f"{at:03d}.wav", wav(1 << 18)) for at in range(200)]  # half a megabyte each
    landing = Counting(make.land(tmp_path / "in", {"a.tar": tar(members)}))
    (shard,) = scan_first(landing, 1, settings=SETTINGS)
    landing.num_bytes = 0
    (item,) = read(shard, landing=landing, settings=SETTINGS)
    assert item.size_bytes == len(members[0][1]) and landing.num_bytes < 512 << 10  # where all headers take 1.6 MB


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("limit", [2, 50])
def test_a_cut_tar_says_so_only_where_the_limit_reaches_its_end(tmp_path: Path, limit: int, pack) -> None:
    data = tar(pairs(20))
    limited, expected = both(make.land(tmp_path / "in", {"a.tar": pack(data[: len(data) - 4000])}), limit)
    assert limited == expected
    assert [row["error_code"] for row in limited if row["error_code"]] == ([1002] if limit == 50 else [])


def test_a_compressed_tar_that_breaks_behind_the_limit_is_no_matter(tmp_path: Path, large: bytes) -> None:
    data = gzip.compress(large)
    root = make.land(tmp_path / "in", {"a.tar.gz": data[: len(data) // 2]})
    (shard,) = scan_first(root, 10, settings=SETTINGS)
    assert {row["status"] for row in rows(shard, LocalLanding(root), tmp_path / "store")} == {"ok"}


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
def test_a_modality_that_turns_up_later_is_a_new_revision(tmp_path: Path, name: str) -> None:
    data = tar([(f"{at:04d}.png", png(at % 256)) for at in range(900)] + [("z.wav", wav())])
    landing = make.land(tmp_path / "in", {name: gzip.compress(data) if name.endswith("gz") else data})
    seen = []
    for limit in (10, 900, 0):
        lake = Lake(tmp_path / "lake", landing=landing, limit=limit)
        listing = refresh(lake)
        (shard,) = (*listing.new, *listing.changed)
        seen.append(shard.modalities)
        assert len(rows(shard, LocalLanding(landing), tmp_path / "store")) == (limit or 901)
        assert refresh(lake).unchanged == 1
    assert seen == [("image",), ("image",), ("image", "audio")]


@pytest.mark.parametrize(
    ("before", "after"), [(None, 5), (5, None), (5, 600), (600, 5), (700, None), (None, 700), (None, 601)]
)
def test_modalities_known_under_another_limit_are_not_taken_over(
    tmp_path: Path, before: int | None, after: int | None
) -> None:
    root = make.land(
        tmp_path / "in", {"a.tar": tar([(f"{at:04d}.png", png()) for at in range(600)] + [("z.wav", wav())])}
    )

    def scanned(limit: int | None, known: dict[str, Shard]) -> dict[str, Shard]:
        found = (
            scan(root, settings=SETTINGS, known=known)
            if limit is None
            else scan_first(root, limit, settings=SETTINGS, known=known)
        )
        return {shard.key: shard for shard in found}

    fresh, again = scanned(after, {}), scanned(after, scanned(before, {}))
    assert [(shard.modalities, shard.limit, shard.revision) for shard in again.values()] == [
        (shard.modalities, shard.limit, shard.revision) for shard in fresh.values()
    ]


def test_a_scan_that_may_open_nothing_leaves_a_limited_shard_as_it_was(tmp_path: Path) -> None:
    root = make.land(tmp_path / "in", {"a.tar": tar([("a.png", png()), ("b.png", png()), ("c.wav", wav())])})
    (shard,) = scan_first(root, 1, settings=SETTINGS)
    assert scan(root, settings=SETTINGS, known={shard.key: shard}, at_most=0) == [shard]


def test_a_zip_under_a_limit_is_asked_for_the_first_members_alone(tmp_path: Path) -> None:
    from tests.hostile.seeds import zipped

    members = {f"{at:03d}.jpg": b"\xff\xd8\xff\xe0" + random.Random(at).randbytes(100_000) for at in range(200)}
    root = make.land(tmp_path / "in", {"a.zip": zipped(members | {"z.wav": wav()}, 0)})
    landing = Counting(root)
    (shard,) = scan_first(landing, 3, settings=SETTINGS)
    assert shard.modalities == ("image",) and landing.num_bytes < 2_000_000
    limited, expected = both(root, 3)
    assert limited == expected and len(limited) == 3
