"""A machine that fails in the middle of a step: nothing is stamped, and a healthy run gives the tables of an
undisturbed one. For every step, and every read and write of the store and every read of a table in it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mmlake import pipeline
from mmlake.border import InProcess
from mmlake.compute import Executor
from mmlake.errors import RemoteUnavailable
from mmlake.lake import Lake
from mmlake.modalities import MODALITIES
from mmlake.publish import read_dead_letters, update_catalog, update_dead_letters
from mmlake.publish.dead_letters import dead_letters_slot
from mmlake.steps import CORPUS_STEPS, ROW_STEPS, corpus_steps, row_steps, run_step
from mmlake.store import BlobStore
from mmlake.tables import ALL, Slot, Tables
from tests import make

FAULTS: dict[str, Callable[[], Exception]] = {
    "a disk": lambda: OSError(errno.EIO, "the disk does not answer"),
    "a remote store": lambda: RemoteUnavailable("GET gave 503 five times; try again later"),
}
GUARDED: tuple[tuple[type, str], ...] = (
    *((BlobStore, name) for name in ("read", "local", "open", "size", "extension", "put", "put_stream")),
    (Tables, "read"),
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """One shard per modality, all row and corpus tables made; two items of each, and one that does not decode."""
    base: Path = tmp_path_factory.mktemp("faults")
    files = {
        "text/a.jsonl": make.jsonl([make.prose(1), make.prose(1) + " Amended since."]),
        "image/a.tar": make.tar({"0.png": make.picture(1), "1.jpg": make.picture(1, kind="JPEG"), "2.png": b"\x89PNG"}),
        "video/a.tar": make.tar({"0.mp4": make.film(1, seconds=0.75)}),
        "audio/a.tar": make.tar({"0.wav": make.sound(1, seconds=0.75), "1.wav": make.sound(2, seconds=0.75)}),
    }
    lake = Lake(base / "lake", landing=make.land(base / "landing", files), executor=Executor("cpu"), runner=InProcess())
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    return lake


class Faulty:
    """Counts calls of the store and of tables, and lets one of them fail."""

    def __init__(self, fault: Callable[[], Exception], at: int | None = None) -> None:
        self.fault, self.at, self.num_calls = fault, at, 0

    def check(self) -> None:
        self.num_calls += 1
        if self.num_calls - 1 == self.at:
            raise self.fault()


@contextmanager
def failing(fault: Callable[[], Exception], at: int | None = None) -> Iterator[Faulty]:
    """Every guarded call of this process counted; the one at that place raises."""
    faulty = Faulty(fault, at)
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in GUARDED:
            original = getattr(owner, name)

            def guarded(*given: Any, _original: Any = original, **named: Any) -> Any:
                faulty.check()
                return _original(*given, **named)

            patch.setattr(owner, name, guarded)
        yield faulty


def shard_of(lake: Lake, modality: str) -> str:
    return lake.registry.keys(modality)[0]


def survives(lake: Lake, slot: Slot, work: Callable[[], object], *, version: Callable[[], str]) -> int:
    """The number of calls that were let fail, one after the other, with each kind of fault."""
    before = version()
    with failing(FAULTS["a disk"]) as counted:
        lake.tables.remove(slot)
        work()
    assert version() == before
    for at in range(counted.num_calls):
        for fault in FAULTS.values():
            lake.tables.remove(slot)
            with failing(fault, at), pytest.raises(type(fault())):
                work()
            assert lake.tables.stamp(slot) is None
    work()
    assert version() == before
    return counted.num_calls


@pytest.mark.parametrize(
    ("modality", "name"),
    [(modality, step.name) for modality, row in MODALITIES.items() for step in (*row_steps(row), *corpus_steps(row))],
)
def test_a_fault_in_a_step_raises_and_leaves_no_trace(lake, modality, name):
    step = (ROW_STEPS | CORPUS_STEPS)[name]
    shard = ALL if step.over_shards else shard_of(lake, modality)
    slot = Slot(name, modality, shard)

    def version() -> str:
        stamp = lake.tables.stamp(slot)
        assert stamp is not None
        return stamp.data_version

    num_calls = survives(lake, slot, lambda: run_step(step, lake, modality, shard), version=version)
    # which reads nothing where the encoder knows no texts; with one that does: test_caption_scores_in_lakes
    assert num_calls or name == "caption_scores"


def test_a_fault_while_the_dead_letters_are_made_leaves_no_trace(lake):
    update_dead_letters(lake)
    rows = read_dead_letters(lake).drop_columns(["first_failed_at", "last_failed_at", "attempts"])

    def version() -> str:
        now = read_dead_letters(lake).drop_columns(["first_failed_at", "last_failed_at", "attempts"])
        return "the same" if now.equals(rows) else "others"

    slot = dead_letters_slot("image")
    assert survives(lake, slot, lambda: update_dead_letters(lake, "image"), version=version)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_while_the_catalog_is_joined_leaves_no_trace(lake, fault):
    def version() -> dict[str, str]:
        return {modality: stamp.data_version for modality, stamp in update_catalog(lake).items()}

    before = version()
    with failing(fault) as counted:
        assert version() == before
    for at in (0, counted.num_calls // 2, counted.num_calls - 1):
        with failing(fault, at), pytest.raises(type(fault())):
            update_catalog(lake)
    assert version() == before
