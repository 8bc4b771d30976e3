"""Versions keep the texts and facts that they were published with, whatever happens to the tables."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

from mmlake.errors import BlobCorrupt, BlobMissing
from mmlake.lake import Lake
from mmlake.progress import silent
from mmlake.publish import pins
from mmlake.publish.pins import pin, verify_pins
from mmlake.publish.results import read_result, write_result
from mmlake.publish.unit_facts import UNIT_COLUMNS
from mmlake.publish.version_shards import write_version_shards
from mmlake.schemas import TRACKS
from mmlake.shards import ShardIndex
from mmlake.tables import Slot
from mmlake.upkeep import collect
from tests import make
from tests.wiring.conftest import Site


@pytest.fixture
def published(site) -> tuple[Lake, str]:
    """A lake and the id of its version."""
    name = site.publish()
    return site.lake(), site.lake().versions.resolve(name)


def change_tracks(lake: Lake) -> None:
    """The same texts, normalized otherwise, as another release would."""
    for shard, table in lake.tables.scan("tracks", "text"):
        texts = pa.array([text and text.upper() for text in table["text"].to_pylist()], table["text"].type)
        table = table.set_column(table.column_names.index("text"), "text", texts)
        stamp = lake.tables.stamp(Slot("tracks", "text", shard))
        made = {name: getattr(stamp, name) for name in ("code_version", "settings_digest", "inputs")}
        lake.tables.write(Slot("tracks", "text", shard), TRACKS, table, **made)


def written(lake: Lake, id_: str) -> ShardIndex:
    """The shards of the version, all of them written now."""
    shutil.rmtree(lake.shards_dir)
    return write_version_shards(lake, id_, advance=silent)


def text_packs(lake: Lake) -> list:
    """Files of packs that hold texts."""
    paths = (lake.root / "versions" / "packs").rglob("*.parquet")
    return [path for path in paths if b"text" in path.read_bytes()[-4000:] and b"keyframes" not in path.read_bytes()]


def test_shards_that_are_written_again_after_tracks_changed_have_the_same_bytes(published) -> None:
    lake, id_ = published
    before = ShardIndex.read(lake.shards_dir / id_)
    change_tracks(lake)
    assert written(lake, id_).shards == before.shards
    assert verify_pins(lake, id_) == []


def test_what_changed_is_in_the_next_version_and_the_old_one_keeps_its_own(published) -> None:
    lake, id_ = published
    change_tracks(lake)
    (lake.root / "versions" / "pins" / f"{id_}.json").unlink()
    before = ShardIndex.read(lake.shards_dir / id_)
    assert [shard.sha256 for shard in written(lake, id_).shards] != [shard.sha256 for shard in before.shards]


def test_versions_share_the_packs_of_a_source_shard(site) -> None:
    names = [site.publish("everything"), site.publish("curated")]
    site.land("text/b.jsonl", ["Other words of another shard, which is long enough to be kept by all. " * 8])
    names.append(site.publish("everything"))
    lake = site.lake()
    read = [pin(lake, lake.versions.resolve(name), lake.versions.samples(name)) for name in names]
    found = [{pack.shard: pack.digest for pack in one.packs if pack.kind == pins.TEXTS} for one in read]
    assert found[0] == found[1]
    assert len(found[2]) == 2
    assert found[2].items() >= found[0].items()


def test_a_lost_pack_is_put_back_where_the_tables_still_hold_the_same(published) -> None:
    lake, id_ = published
    before = ShardIndex.read(lake.shards_dir / id_)
    for path in text_packs(lake):
        path.unlink()
    (problem,) = verify_pins(lake, id_)
    assert "texts of text/a.jsonl" in problem
    assert written(lake, id_).shards == before.shards
    assert verify_pins(lake, id_) == []


@pytest.mark.parametrize(("damage", "error"), [("cut", BlobCorrupt), ("remove", BlobMissing)])
def test_shards_that_cannot_be_written_as_they_were_are_an_error_that_names_the_pack(published, damage, error) -> None:
    lake, id_ = published
    change_tracks(lake)
    (path,) = text_packs(lake)
    data = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(data[:-100])
    (problem,) = verify_pins(lake, id_)
    assert path.stem in problem
    with pytest.raises(error, match=f"pack {path.stem} .texts of text/a.jsonl., to which version {id_[:12]} is pinned"):
        written(lake, id_)


def test_damaged_pins_are_named(published) -> None:
    lake, id_ = published
    path = lake.root / "versions" / "pins" / f"{id_}.json"
    for text in ("", "{}", path.read_text().replace("texts", "tests")):
        path.write_text(text)
        assert [str(path) in problem for problem in verify_pins(lake, id_)] == [True]


def test_pins_that_are_gone_or_others_are_named(published) -> None:
    """Without them the shards would be written with the texts of now, and nothing said so."""
    lake, id_ = published
    path = lake.root / "versions" / "pins" / f"{id_}.json"
    body = path.read_text()
    path.unlink()
    (problem,) = verify_pins(lake, id_)
    assert problem.startswith(f"{path} is absent")
    path.write_text(body.replace('"num_rows":', '"num_rows":1'))
    (problem,) = verify_pins(lake, id_)
    assert problem.startswith(f"{path} is not what the version was published with")


def test_a_version_of_an_earlier_release_has_no_pins_and_no_problem(published) -> None:
    lake, id_ = published
    (lake.root / "versions" / "pins" / f"{id_}.json").unlink()
    (name,) = lake.versions.tags()
    record = read_result(lake, name, "manifest")
    del record["pins"]
    write_result(lake, name, "manifest", record)
    assert verify_pins(lake, id_) == []


def test_packs_of_versions_that_are_gone_are_collected(site: Site) -> None:
    names = [site.publish()]
    site.land("text/b.jsonl", [make.prose(7)])
    names.append(site.publish())
    lake = site.lake()
    first, second = (lake.versions.resolve(name) for name in names)
    versions = lake.root / "versions"
    before = set((versions / "packs").rglob("*.parquet"))
    assert collect(lake, now_s=0.0).pins_bytes == 0
    (versions / "pins" / f"{second}.json").rename(versions / "pins" / f"{'a' * 64}.json")
    with pytest.raises(BlobCorrupt):  # of the same version it may be, which the name denies
        pins._read(lake, "a" * 64)
    planned, done = (collect(lake, now_s=0.0, dry_run=is_dry).pins_bytes for is_dry in (True, False))
    assert planned == done > 0
    kept = {pack.digest for pack in pins._read(lake, first).packs}
    assert {path.stem for path in (versions / "packs").rglob("*.parquet")} == kept < {path.stem for path in before}
    assert not (versions / "pins" / f"{'a' * 64}.json").exists()
    assert verify_pins(lake, first) == []


def test_keyframes_and_sound_of_pinned_facts_are_kept(published) -> None:
    """Tables that were made again name others, but the shards of the version are written from these."""
    lake, id_ = published
    (name,) = lake.versions.tags()
    write_result(lake, name, "manifest", {"version": name})  # which says nothing of the pins
    frame, sound = lake.store.put(b"a keyframe"), lake.store.put(b"a sound")
    row = {"digest": "e" * 64, "audio_digest": sound, "keyframes": [{"time_s": 0.0, "digest": frame, "shot": 0}]}
    facts = pa.Table.from_pylist([row | {"cues": [], "words": []}], UNIT_COLUMNS)
    pack = pins._write(lake.root / "versions", pins.UNITS, "video/a.tar", facts)
    path = lake.root / "versions" / "pins" / f"{id_}.json"
    before = path.read_text()
    entry = f'{{"digest":"{pack.digest}","kind":"facts","num_rows":1,"shard":"video/a.tar"}}'
    path.write_text(before.replace('"packs":[', f'"packs":[{entry},'))
    assert verify_pins(lake, id_) == []
    assert collect(lake, now_s=0.0, dry_run=True).condemned == 0
    path.write_text(before)
    assert collect(lake, now_s=0.0, dry_run=True).condemned == 2


def test_packs_that_were_checked_are_decoded_once_and_damage_is_found(published, monkeypatch) -> None:
    lake, id_ = published
    assert verify_pins(lake, id_) == []
    monkeypatch.setattr("pyarrow.parquet.ParquetFile", None)
    assert verify_pins(lake, id_) == []
    monkeypatch.undo()
    (path, *_) = text_packs(lake)
    path.write_bytes(path.read_bytes()[:-9])
    assert len(verify_pins(lake, id_)) == 1


def test_pins_are_the_same_whatever_run_makes_them(site: Site) -> None:
    name = site.publish()
    lake = site.lake()
    id_ = lake.versions.resolve(name)
    path = lake.root / "versions" / "pins" / f"{id_}.json"
    before = path.read_bytes()
    path.unlink()
    pin(lake, id_, lake.versions.samples(name))
    assert path.read_bytes() == before
