"""A power cut at any moment of a run: what was not synced may be gone, empty or half there, and the next run ends at
what an undisturbed one made. The record of one run gives every such disk; see `disk.py`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults import state
from tests.faults.conftest import Recorded
from tests.faults.disk import EMPTY, LOST, Adversary, Disk, lay, mixed, real
from tests.faults.machine import tried

SAMPLE = 3  # disks of the default suite, one of each kind; MMLAKE_FAULTS=200 tries as many
UNNAMED = ("lock", ".lock", ".part", "-journal", "#1")  # locks, and files that have no name yet


def followed(recorded: Recorded) -> Disk:
    disk = Disk(recorded.base / "disk")
    for call in recorded.calls:
        disk.follow(call)
    return disk


def test_the_record_of_a_run_gives_the_files_that_are_really_there(recorded: Recorded) -> None:
    everything = Adversary(name="everything", names=lambda one: one.now, data=lambda one: bytes(one.now))
    assert followed(recorded).pick(everything) == real(recorded.base / "disk")


def test_what_a_finished_run_leaves_is_on_the_disk_whole(recorded: Recorded) -> None:
    assert [path for path in followed(recorded).unsynced() if not path.endswith(UNNAMED)] == []


def test_nothing_that_a_stamp_names_is_unsynced_when_the_stamp_gets_its_name(recorded: Recorded) -> None:
    disk, num_stamps = Disk(recorded.base / "disk"), 0
    for call in recorded.calls:
        if call.what == "r" and call.other.endswith(".stamp.json"):
            num_stamps += 1
            name = call.other.split("/tables/")[1].removesuffix(".stamp.json")
            wanted = ("lake/catalog/", "lake/blobs/", "lake/shards/", "lake/versions/", f"lake/tables/{name}.parquet")
            late = [path for path in disk.unsynced() if path.startswith(wanted) and not path.endswith(UNNAMED)]
            assert late == [], name
        disk.follow(call)
    assert num_stamps > 50


def disks(recorded: Recorded, count: int) -> list[tuple[int, Adversary]]:
    """(place in the record, adversary): as many of each kind, spread over the record."""
    rng = random.Random(13)
    adversaries = [(LOST, EMPTY, mixed(number))[number % 3] for number in range(count)]
    places = sorted(rng.randrange(len(recorded.calls)) for _ in adversaries)
    rng.shuffle(adversaries)
    return list(zip(places, adversaries, strict=True))


def test_a_run_after_a_power_cut_ends_where_an_undisturbed_one_does(recorded: Recorded, tmp_path: Path) -> None:
    disk, at, ends = Disk(recorded.base / "disk"), 0, []
    for number, (place, adversary) in enumerate(disks(recorded, tried() or SAMPLE)):
        while at < place:
            disk.follow(recorded.calls[at])
            at += 1
        root = tmp_path / str(number)
        root.mkdir()
        lay(disk.pick(adversary), root)
        if state.recovered(root / "lake", recorded.landing) == recorded.ids:
            ends.append(number)
        else:
            pytest.fail(f"a power cut before call {place} that leaves the {adversary.name}: another lake")
    assert len(ends) == (tried() or SAMPLE)
