"""The parts of a directory are found in one listing of it, which shows what they are registered with."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from mmlake import sources
from mmlake.landing import LocalLanding
from mmlake.sources import directory_parts
from mmlake.sources.parsed_files import ParsedFiles
from mmlake.sources.shard import Shard
from mmlake.store import BlobStore
from tests import make
from tests.sources.corpora.builders import landed

SETTINGS = sources.SourceSettings(max_loose_files=20)


class _Zone:
    """A landing zone whose parts are ingested by one owner of what is parsed."""

    def __init__(self, tmp_path, monkeypatch, num: int) -> None:
        self.root = landed(tmp_path / "in", {f"d/{number:03}.txt": f"note {number}".encode() for number in range(num)})
        self.store, self.parsed, self.num_listed = BlobStore(tmp_path / "store"), ParsedFiles(), 0
        listed = LocalLanding.files

        def counted(landing, directory):
            self.num_listed += directory == "d"
            return listed(landing, directory)

        monkeypatch.setattr(LocalLanding, "files", counted)

    def scan(self):
        return sources.scan(self.root, settings=SETTINGS, parsed=self.parsed)

    def texts(self, shards) -> dict[str, list[str]]:
        """The texts of each part."""
        given = {"landing": self.root, "store": self.store, "settings": SETTINGS, "parsed": self.parsed}
        tables = {shard.key: sources.ingest(shard, "text", **given) for shard in shards}
        return {key: table.column("text_content").to_pylist() for key, table in tables.items()}


def test_a_directory_in_parts_is_listed_once_for_all_of_them(tmp_path, monkeypatch):
    zone = _Zone(tmp_path, monkeypatch, 200)
    shards = zone.scan()
    zone.num_listed = 0
    found = zone.texts(shards)
    assert len(shards) > 10 and sum(map(len, found.values())) == 200
    assert zone.num_listed == 1


def test_the_cost_of_names_does_not_grow_with_the_number_of_parts(tmp_path, monkeypatch):
    zone = _Zone(tmp_path, monkeypatch, 200)
    num_hashed, composed = [0], directory_parts.composed

    def counted(name):
        num_hashed[0] += 1
        return composed(name)

    monkeypatch.setattr(directory_parts, "composed", counted)
    shards = zone.scan()
    assert len(shards) > 10 and num_hashed[0] <= 2 * 200
    zone.texts(shards)
    assert num_hashed[0] <= 3 * 200


@pytest.mark.parametrize("change", ["written", "added", "deleted"])
def test_what_changed_before_a_scan_is_in_the_rows_behind_it(tmp_path, monkeypatch, change):
    zone = _Zone(tmp_path, monkeypatch, 200)
    before = zone.texts(zone.scan())
    path = zone.root / "d" / ("new.txt" if change == "added" else "007.txt")
    path.unlink() if change == "deleted" else path.write_text("another note, and a longer one")
    after = zone.texts(zone.scan())
    [changed] = [key for key in after if after[key] != before[key]]
    expected = {text for text in before[changed] if text != "note 7" or change == "added"}
    assert set(after[changed]) == expected | ({"another note, and a longer one"} if change != "deleted" else set())


def test_images_and_their_label_files_in_parts_are_listed_a_few_times_for_all_of_them(tmp_path, monkeypatch):
    """Each part listed both directories, and those where classes may stand, some ten times over."""
    files = {f"images/{number:03}.png": make.picture(number) for number in range(80)}
    files |= {f"labels/{number:03}.txt": f"{number % 2} .5 .5 .2 .2\n".encode() for number in range(80)}
    root, parsed, times = landed(tmp_path / "in", files | {"classes.txt": b"cat\ndog\n"}), ParsedFiles(), Counter()
    listed = LocalLanding.files
    monkeypatch.setattr(LocalLanding, "files", lambda zone, path: times.update([path]) or listed(zone, path))
    shards = sources.scan(root, settings=SETTINGS, parsed=parsed)
    given = {"landing": root, "store": BlobStore(tmp_path / "store"), "settings": SETTINGS, "parsed": parsed}
    tables = [sources.ingest(shard, "image", **given) for shard in shards if shard.part]
    rows = [row for table in tables for row in table.to_pylist()]
    said = {row["item_id"]: json.loads(row["metadata_json"])["objects"][0]["category"] for row in rows}
    assert len(shards) > 20 and len(said) == 80 and set(said.values()) == {"cat", "dog"}
    assert max(times.values()) < 8


def test_directories_that_may_not_be_opened_any_more_are_found_among_the_known_shards_by_one_pass(
    tmp_path, monkeypatch
):
    """Each of them went through all known shards, in every tick of a sensor."""
    files = {f"{number:03}/x.txt": f"note {number}".encode() for number in range(60)}
    root, settings = landed(tmp_path / "in", files), sources.SourceSettings(gather_above=1000)
    known = {shard.key: shard for shard in sources.scan(root, settings=settings)}
    for number in range(60):
        (root / f"{number:03}" / "y.txt").write_text("another")
    asked, homes = [], Shard.homes.fget
    monkeypatch.setattr(Shard, "homes", property(lambda shard: asked.append(shard.key) or homes(shard)))
    found = sources.scan(root, settings=settings, known=known, at_most=5)
    assert sum(known[shard.key] != shard for shard in found) == 5 and len(found) == 60
    assert len(asked) <= 3 * 60
