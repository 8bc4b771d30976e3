"""Training shards of several versions of one lake: what they share, and what is removed when none needs it."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mmlake.lake import Lake
from mmlake.publish import recheck_shards
from mmlake.records import digest_of
from mmlake.shards import ShardIndex, verify_shards
from mmlake.upkeep import collect
from mmlake.upkeep.inventory import named, problems_of
from tests import make
from tests.wiring.conftest import Site

_SIDES = {"width": 320, "height": 240}


def flat() -> bytes:
    """A picture of one colour, which judging flags or takes out."""
    import io

    from PIL import Image

    sink = io.BytesIO()
    Image.fromarray(np.full((240, 320, 3), 7, np.uint8)).save(sink, format="PNG")
    return sink.getvalue()


def round_of(number: int) -> dict[str, bytes]:
    """Pictures of one round: new ones, one that came before, a near copy of one, one that is too small, a flat one."""
    files = {f"{at}.png": make.picture(100 * number + at, **_SIDES) for at in range(10)}
    files["tiny.png"] = make.picture(900 + number, width=16, height=16)
    files["flat.png"] = flat()
    files["again.jpg"] = make.picture(100 * number + 1, kind="JPEG", **_SIDES)
    return files


NAMES = [f"{recipe}-v00{number}" for number in (1, 2, 3) for recipe in ("everything", "curated")]


@pytest.fixture(scope="module")
def after_rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake after three rounds of two recipes; nobody changes it."""
    base = tmp_path_factory.mktemp("rounds")
    site, names = Site(base, [make.prose(1)]), []
    for number in range(3):
        files = sorted(round_of(number).items())
        for half, part in enumerate((files[::2], files[1::2])):
            make.land(site.zone, {f"image/{number}-{half}.tar": make.tar(dict(part))})
        names += [site.publish("everything"), site.publish("curated")]
    assert names == NAMES
    return base


@pytest.fixture
def rounds(after_rounds: Path, tmp_path: Path) -> Lake:
    """A copy of it, in which files of several names are still one."""
    subprocess.run(["cp", "-a", f"{after_rounds}/.", tmp_path], check=True)
    return Lake(tmp_path / "lake", landing=tmp_path / "landing")


def media_bytes(lake: Lake) -> int:
    """Bytes of all distinct pictures and texts."""
    return sum(lake.store.size(digest) for digest in lake.store.digests())


def disk_bytes(folder: Path) -> int:
    """Bytes of all files, those of several names once."""
    return sum({path.stat().st_ino: path.stat().st_size for path in folder.rglob("*") if path.is_file()}.values())


def test_three_rounds_of_two_recipes_take_a_fifth_more_than_their_media(rounds) -> None:
    lake = rounds
    counts = {name: lake.versions.read(name).num_samples for name in NAMES}
    assert counts["everything-v003"] > counts["curated-v003"] > counts["curated-v001"]
    assert disk_bytes(lake.shards_dir) <= 1.2 * media_bytes(lake)
    for name in NAMES:
        assert verify_shards(lake.shards_dir / lake.versions.resolve(name)) == []


def test_collecting_keeps_what_living_versions_name_and_removes_the_rest(rounds) -> None:
    lake = rounds
    indexes = [ShardIndex.read(lake.shards_dir / lake.versions.resolve(name)) for name in NAMES]
    stray = lake.shards_dir / "objects" / "ab" / f"{'ab' * 32}.tar"
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(bytes(1000))
    assert collect(lake, now_s=0.0, dry_run=True).shards_bytes == 1000
    assert stray.exists()
    assert collect(lake, now_s=0.0).shards_bytes == 1000
    assert not stray.exists()
    assert [problem for index in indexes for problem in verify_shards(index.directory)] == []


def test_bytes_that_two_modalities_hold_are_in_a_version_as_one_of_them(tmp_path: Path) -> None:
    """An empty picture and an empty caption are one digest, whose row is that of the caption: the picture was taken
    for it, the version counted two items where its shards had one, and the run ended there."""
    site, empty = Site(tmp_path, [make.prose(1)]), digest_of(b"")
    files = {"a/empty.jpg": b"", "a/1.png": make.picture(1, **_SIDES)}
    make.land(site.zone, files | {"b/2.png": make.picture(2, **_SIDES), "b/2.txt.gz": gzip.compress(b"")})
    lake, version = site.lake(), site.publish("everything")
    kept, excluded = lake.versions.items(version).to_pylist(), lake.versions.excluded(version).to_pylist()
    assert [one["modality"] for one in kept if one["digest"] == empty] == ["text"]
    assert [one["cause"] for one in excluded if one["digest"] == empty] == ["part:other_modality"]
    index = ShardIndex.read(lake.shards_dir / lake.versions.resolve(version))
    assert index.num_items == lake.versions.read(version).num_items == 4


def test_an_object_is_hashed_once_by_the_checks_of_all_versions_and_again_by_each_fsck(rounds, monkeypatch) -> None:
    lake, hashed = rounds, list[str]()
    for path in (lake.shards_dir / "objects").glob("??/*"):
        os.utime(path, ns=(0, path.stat().st_mtime_ns - 10_000_000_000))  # what has just changed is hashed anyway
    digest = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda file, name: hashed.append(file.name) or digest(file, name))
    indexes = [ShardIndex.read(lake.shards_dir / lake.versions.resolve(name)) for name in NAMES]
    objects = {shard.plan for index in indexes for shard in index.shards}
    assert len(objects) < sum(len(index.shards) for index in indexes)
    counts = list[int]()
    for _ in range(2):
        assert all(recheck_shards(lake, name) for name in NAMES)
        counts.append(len(hashed))
    assert counts == [len(objects)] * 2
    for _ in range(2):
        hashed.clear()
        [kind] = named(["shards"])
        assert list(problems_of(kind, lake, kind.units(lake))) == []
        assert len(hashed) == len(objects)
