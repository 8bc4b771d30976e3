"""The first samples of a landing zone: as many as were asked for, and nothing behind them opened."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import IO

import pytest

from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.landing import LocalLanding
from mmlake.pipeline import refresh
from mmlake.registry import Registry
from mmlake.sources import Shard, SourceSettings, read, scan
from mmlake.sources.excerpt import scan_first
from mmlake.sources.parsed_files import ParsedFiles
from tests import make

SETTINGS = SourceSettings()


class Noting(LocalLanding):
    """A landing zone that notes what is opened."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.opened: list[str] = []

    def open(self, path: str) -> IO[bytes]:
        self.opened.append(path)
        return super().open(path)

    def head(self, path: str, size_bytes: int) -> bytes:
        self.opened.append(path)
        return super().head(path, size_bytes)


def lines(name: str, count: int) -> bytes:
    return "".join(
        json.dumps({"id": f"{name}{number}", "text": f"text {number} of {name}"}) + "\n" for number in range(count)
    ).encode()


def samples(shards: list[Shard], landing: LocalLanding) -> list[str]:
    """Ids of all samples that the shards give, in order."""
    return list(
        dict.fromkeys(item.sample_id for shard in shards for item in read(shard, landing=landing, settings=SETTINGS))
    )


@pytest.fixture
def mixed(tmp_path: Path) -> Noting:
    """Four shards of 3, 2, 4 and 3 samples, in the order of their keys."""
    pictures = {"0.jpg": make.picture(0, kind="JPEG"), "0.txt": b"zero", "1.png": make.picture(1)}
    loose = {
        f"c/{name}": data
        for name, data in {
            "a.txt": b"a",
            "b.en.txt": b"b",
            "b.png": make.picture(2),
            "c.png": make.picture(3),
            "d.png": make.picture(4),
        }.items()
    }
    make.land(
        tmp_path / "landing", {"a.jsonl": lines("a", 3), "b.tar": make.tar(pictures), "d.jsonl": lines("d", 3)} | loose
    )
    return Noting(tmp_path / "landing")


@pytest.mark.parametrize("limit", range(1, 14))
def test_a_limit_gives_the_first_samples_of_all(mixed: Noting, limit: int) -> None:
    everything = samples(scan(mixed, settings=SETTINGS), mixed)
    assert samples(scan_first(mixed, limit, settings=SETTINGS), mixed) == everything[:limit]


def test_shards_behind_the_limit_are_neither_registered_nor_opened(mixed: Noting) -> None:
    shards = scan_first(mixed, 4, settings=SETTINGS)
    assert [(shard.key, shard.limit, shard.num_samples) for shard in shards] == [("a.jsonl", None, 3), ("b.tar", 1, 1)]
    # the first bytes of what is called as a manifest of the members is
    assert set(mixed.opened) == {"a.jsonl", "b.tar", "d.jsonl"}


def test_of_loose_files_only_those_that_can_hold_the_samples_are_opened(tmp_path: Path) -> None:
    landing = Noting(
        make.land(tmp_path, {f"{number:03d}.txt": b"text %d" % number for number in range(50)} | {"000.json": b"{}"})
    )
    (shard,) = scan_first(landing, 2, settings=SETTINGS)
    assert len(samples([shard], landing)) == 2
    assert set(landing.opened) == {"000.txt", "000.json", "001.txt"}


def test_a_shard_that_is_taken_whole_keeps_the_revision_that_it_has_without_a_limit(mixed: Noting) -> None:
    whole = {shard.key: shard.revision for shard in scan(mixed, settings=SETTINGS)}
    first = {shard.key: shard.revision for shard in scan_first(mixed, 7, settings=SETTINGS)}
    assert first["a.jsonl"] == whole["a.jsonl"] and first["b.tar"] == whole["b.tar"]
    assert first["c"] != whole["c"]


def test_a_scan_of_what_did_not_change_opens_nothing(mixed: Noting) -> None:
    parsed = ParsedFiles()  # a lake has one for all of its scans
    known = {shard.key: shard for shard in scan_first(mixed, 7, settings=SETTINGS, parsed=parsed)}
    mixed.opened.clear()
    again = scan_first(mixed, 7, settings=SETTINGS, known=known, parsed=parsed)
    assert {shard.key: shard for shard in again} == known
    assert not mixed.opened


@pytest.mark.parametrize("before", range(1, 13))
@pytest.mark.parametrize("after", (1, 4, 7, 12))
def test_what_was_known_under_another_limit_does_not_change_the_result(mixed: Noting, before: int, after: int) -> None:
    known = {shard.key: shard for shard in scan_first(mixed, before, settings=SETTINGS)}
    assert scan_first(mixed, after, settings=SETTINGS, known=known) == scan_first(mixed, after, settings=SETTINGS)


def test_only_the_shard_at_the_limit_changes_when_the_limit_does(tmp_path: Path, mixed: Noting) -> None:
    lake = tmp_path / "lake"
    refresh(Lake(lake, landing=mixed, limit=4))
    listing = refresh(Lake(lake, landing=mixed, limit=6))
    assert [shard.key for shard in listing.changed] == ["b.tar"]
    assert [shard.key for shard in listing.new] == ["c"]
    assert listing.unchanged == 1


def test_a_lake_remembers_its_limit_until_another_is_given(tmp_path: Path, mixed: Noting) -> None:
    lake = tmp_path / "lake"
    refresh(Lake(lake, landing=mixed, limit=4))
    assert Lake(lake).limit == 4
    assert refresh(Lake(lake)).unchanged == 2
    assert len(refresh(Lake(lake, limit=0)).new) == 2
    assert Lake(lake).limit is None
    assert not refresh(Lake(lake)).gone


def test_a_parquet_file_is_counted_by_its_footer(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(
        pa.table({"text": [f"row {number}" for number in range(1000)]}), tmp_path / "a.parquet", row_group_size=100
    )
    pq.write_table(pa.table({"text": [f"row {number}" for number in range(5)]}), tmp_path / "b.parquet")
    landing = Noting(tmp_path)
    shards = scan_first(landing, 1003, settings=SETTINGS)
    assert [(shard.key, shard.limit, shard.num_samples) for shard in shards] == [
        ("a.parquet", None, 1000),
        ("b.parquet", 3, 3),
    ]
    assert len(samples(shards, landing)) == 1003


def test_a_file_whose_name_lies_is_left_out_under_a_limit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    landing = Noting(
        make.land(
            tmp_path,
            {
                "a.parquet": make.picture(1),
                "b.jsonl": lines("b", 2),
                "c.bin": make.tar({"0.txt": b"zero", "1.txt": b"one"}),
            },
        )
    )
    shards = scan_first(landing, 10, settings=SETTINGS)
    assert [(shard.key, shard.format) for shard in shards] == [("b.jsonl", "jsonl"), ("c.bin", "webdataset")]
    assert "a.parquet is left out" in caplog.text


def test_a_container_that_does_not_open_counts_as_the_one_row_that_says_so(tmp_path: Path) -> None:
    landing = Noting(make.land(tmp_path, {"a.parquet": b"PAR1 and then nothing", "b.jsonl": lines("b", 2)}))
    shards = scan_first(landing, 2, settings=SETTINGS)
    assert [(shard.key, shard.limit) for shard in shards] == [("a.parquet", None), ("b.jsonl", 1)]


@pytest.mark.parametrize("limit", (0, -1))
def test_a_limit_under_one_is_refused(mixed: Noting, limit: int) -> None:
    with pytest.raises(SettingsError, match=f"limit {limit}"):
        scan_first(mixed, limit, settings=SETTINGS)


def test_a_registry_from_before_limits_is_still_read(tmp_path: Path, mixed: Noting) -> None:
    registry = Registry(tmp_path / "landing.sqlite")
    shards = scan(mixed, settings=SETTINGS)
    registry.record(shards)
    with registry._open() as database:
        for key, text in database.execute("SELECT key, shard FROM shards").fetchall():
            old = {
                name: value
                for name, value in json.loads(text).items()
                if name not in ("checksum", "limit", "num_samples")
            }
            database.execute("UPDATE shards SET shard = ? WHERE key = ?", (json.dumps(old), key))
    assert sorted(registry.known()) == [shard.key for shard in shards]
    assert [asdict(shard) for shard in registry.known().values()] == [asdict(shard) for shard in shards]


@pytest.mark.parametrize("sign", ["-", "_"])
@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_transcripts_of_a_table_come_with_the_recordings_that_a_limit_takes(
    tmp_path: Path, limit: int, sign: str
) -> None:
    """The table stands behind the recordings that it describes, or before them: it is no sample, and what lies behind
    the limit is not missing."""
    names = [f"84{sign}7{sign}000{number}" for number in range(3)]
    table = "".join(f"{name} WORDS OF {name}\n" for name in names).encode()
    root = make.land(
        tmp_path / "landing",
        {f"84/7/{name}.wav": make.sound(number) for number, name in enumerate(names)}
        | {f"84/7/84{sign}7.trans.txt": table},
    )
    (shard,) = scan_first(root, limit, settings=SETTINGS)
    rows = [(item.modality, item.fault) for item in read(shard, landing=root, settings=SETTINGS)]
    assert rows == [("audio", None), ("text", None)] * min(limit, 3)
    assert shard.modalities == ("text", "audio")
