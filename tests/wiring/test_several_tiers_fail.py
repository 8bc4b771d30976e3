"""An item that fails in several tiers of its modality: a row for each tier, and one dead letter and one retry for all
of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow.compute as pc
import pytest

from mmlake import dedup, pipeline
from mmlake.border import InProcess
from mmlake.compute import Executor
from mmlake.dedup.image import fingerprints
from mmlake.errors import ContractBroken, UnreadableItem
from mmlake.lake import Lake
from mmlake.parts import BUILT_IN
from mmlake.provenance import why
from mmlake.publish import update_dead_letters
from mmlake.publish.dead_letters import recheck_dead_letters
from mmlake.tables import Slot
from mmlake.upkeep import failed_rows, request_retries
from tests import make
from tests.stamp_clock import Clock

VICTIM = make.picture(1)
SLOT = Slot("fingerprints", "image", "image/a.tar")


def sizes(pictures, settings):
    """The kernel of a second tier: number of bytes."""
    return [{"byte-count": np.array([len(data)], np.uint64)} for data in pictures]


def equal_sizes(prints, *, settings, advance):
    """Those with equal numbers of bytes."""
    counts = [int(one["byte-count"][0]) for one in prints]
    return [(j, i, "byte-count", 1.0) for i in range(len(counts)) for j in range(i) if counts[i] == counts[j]]


def fails(kernel, error: Exception):
    """The kernel, which fails on the victim."""

    def failing(pictures, *settings):
        if VICTIM in (pictures if isinstance(pictures, list) else [pictures]):
            raise error
        return kernel(pictures, *settings)

    return failing


def lake_of(tmp_path, *, second=sizes, name: str = "lake") -> Lake:
    """A lake whose pictures have two tiers."""
    tier = dedup.Tier(
        modality="image",
        method="byte-count",
        methods=("byte-count",),
        opened=dedup.tiers_of("image")[0].opened,
        fingerprint=second,
        pairs=equal_sizes,
        bound=lambda settings: 1.0,
        finds="files of one size",
        source="none",
    )
    row = dataclasses.replace(BUILT_IN.modalities["image"], tiers=(*dedup.tiers_of("image"), tier))
    lake = Lake(
        tmp_path / name,
        landing=tmp_path / "landing",
        executor=Executor("cpu"),
        runner=InProcess(),
        parts=dataclasses.replace(BUILT_IN, modalities={**BUILT_IN.modalities, "image": row}),
    )
    pipeline.refresh(lake)
    return lake


@pytest.fixture(autouse=True)
def landed(tmp_path):
    files = {f"{number}.png": make.picture(number) for number in range(3)}
    make.land(tmp_path / "landing", {"image/a.tar": make.tar(files)})


def run(lake: Lake) -> None:
    pipeline.run_tables(lake, modalities=["image"])


def failed_in(lake: Lake) -> list[tuple[str, int]]:
    """(method, code) of the failed rows, in the order of the table."""
    rows = lake.tables.read(SLOT).to_pylist()
    return [(row["method"], row["error_code"]) for row in rows if row["status"] == "unreadable"]


def test_an_item_that_fails_in_two_tiers_is_a_row_of_each_and_one_letter_that_one_retry_takes_up(tmp_path, monkeypatch):
    good = lake_of(tmp_path, name="good")
    run(good)
    with monkeypatch.context() as patch:
        patch.setattr(fingerprints, "fingerprint", fails(fingerprints.fingerprint, ValueError("torn")))
        run(lake_of(tmp_path, second=fails(sizes, ValueError("torn"))))
    lake = lake_of(tmp_path)
    assert failed_in(lake) == [("byte-count", 5001), ("phash", 5001)]
    (letter,) = failed_rows(lake)
    assert (letter["stage"], letter["error_code"], letter["attempts"]) == ("dedup", 5001, 1)
    assert recheck_dead_letters(lake) == 1
    assert request_retries(lake, [letter]) == 1
    assert lake.retries.pending(SLOT) == {letter["key"]}
    run(lake)
    assert failed_rows(lake) == []
    assert lake.tables.stamp(SLOT).data_version == good.tables.stamp(SLOT).data_version


def test_a_try_that_fails_in_both_tiers_again_is_one_attempt(tmp_path, monkeypatch):
    Clock(monkeypatch)
    monkeypatch.setattr(fingerprints, "fingerprint", fails(fingerprints.fingerprint, ValueError("torn")))
    lake = lake_of(tmp_path, second=fails(sizes, ValueError("torn")))
    run(lake)
    request_retries(lake, failed_rows(lake))
    run(lake)
    update_dead_letters(lake)
    assert [letter["attempts"] for letter in failed_rows(lake)] == [2]


def test_an_item_that_fails_in_one_tier_is_made_by_the_other(tmp_path):
    lake = lake_of(tmp_path, second=fails(sizes, ValueError("torn")))
    run(lake)
    assert failed_in(lake) == [("byte-count", 5001)]
    (letter,) = failed_rows(lake)
    made = lake.tables.read(SLOT).filter(pc.field("digest") == letter["key"]).to_pylist()
    assert sorted(row["method"] for row in made if row["status"] == "ok") == sorted(dedup.tiers_of("image")[0].methods)
    steps = {step.table: step.said for step in why(letter["key"], tables=lake.tables).steps}
    assert "phash" in steps["fingerprints"]
    assert "no byte-count: " in steps["fingerprints"]


def test_a_letter_of_two_failures_has_the_gravest_code_and_both_reasons(tmp_path, monkeypatch):
    """Trying again may help where it may help in one tier."""
    monkeypatch.setattr(
        fingerprints, "fingerprint", fails(fingerprints.fingerprint, UnreadableItem(3004, "pixels=9 not in [1, 8]"))
    )
    lake = lake_of(tmp_path, second=fails(sizes, UnreadableItem(3102, "seconds=600 not in [0, 599]")))
    run(lake)
    assert failed_in(lake) == [("byte-count", 3102), ("phash", 3004)]
    (letter,) = failed_rows(lake, transient=True)
    assert (letter["error_code"], letter["severity"], letter["is_transient"]) == (3004, "P0", True)
    assert letter["reason"] == "pixels=9 not in [1, 8]; seconds=600 not in [0, 599]"


def test_a_tier_that_loses_an_item_breaks_the_contract(tmp_path, monkeypatch):
    """The other tier's rows do not stand in for it."""
    original = dedup.fingerprint

    def losing(tracks, tiers, **named):
        table = original(tracks, tiers, **named)
        first = table.column("digest")[0]
        return table.filter((pc.field("method") != "byte-count") | (pc.field("digest") != first))

    monkeypatch.setattr(dedup, "fingerprint", losing)
    with pytest.raises(ContractBroken, match="byte-count.*1 were lost"):
        run(lake_of(tmp_path))
