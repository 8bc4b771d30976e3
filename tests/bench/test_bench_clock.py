"""The part `clock` of `mmlake bench av` holds what it promises on a few films, and reads a table of offsets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mmlake.bench.av import PARTS, measured
from mmlake.bench.av.clock_films import JUMP, clicks, event_film, event_times
from mmlake.errors import SettingsError
from tests.thorough import takes_minutes


@takes_minutes
def test_no_floor_is_missed_on_a_few_films() -> None:
    found = measured([PARTS["clock"]], None, seed=11, limit=2)
    assert found["num_missed"] == 0
    assert {row["case"] for row in found["rows"]} >= {"offset, light", "offset, jump", "sound of something else"}


def test_a_table_of_offsets_is_held_against_its_films(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    events_s = event_times(20.0, rng)
    sound = clicks(events_s + 0.2, 20.0, rng)
    event_film(tmp_path / "late.mp4", events_s, sound, kind=JUMP, times_s=np.arange(500) / 25, rng=rng)
    (tmp_path / "offsets.csv").write_text("file,offset_s\nlate.mp4,0.2\n")
    rows = {row["measure"]: row for row in measured([PARTS["clock"]], tmp_path, seed=0, limit=5)["rows"]}
    assert rows["decided fraction"]["value"] == 1 and rows["largest error in ms"]["is_met"]


def test_a_folder_without_its_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="offsets.csv"):
        measured([PARTS["clock"]], tmp_path, seed=0, limit=5)
