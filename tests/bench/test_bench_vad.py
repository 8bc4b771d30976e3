"""The part `vad` of `mmlake bench av`: figures on a small run, and labels next to recordings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from mmlake.bench.av import PARTS, measured
from mmlake.bench.av.vad import _counts, _f1
from mmlake.errors import SettingsError
from tests.speech.voices_in_rooms import RATE_HZ, spoken
from tests.thorough import takes_minutes

PART = PARTS["vad"]


@takes_minutes
def test_generated_voices_meet_the_floors() -> None:
    spoken()  # skips where there is no voice with words
    rows = measured([PART], None, seed=5, limit=2)["rows"]
    assert [row["case"] for row in rows if row["is_met"] is False] == []
    assert sum(row["is_met"] is True for row in rows) >= 10


@pytest.mark.parametrize("kind", ["json", "rttm"])
def test_labels_next_to_recordings_are_read(tmp_path: Path, kind: str) -> None:
    samples, spans = spoken()
    soundfile.write(tmp_path / "talk_one.wav", samples, RATE_HZ)
    soundfile.write(tmp_path / "unlabelled.wav", samples, RATE_HZ)
    if kind == "json":
        (tmp_path / "talk_one.json").write_text(json.dumps({"speech": spans}))
    else:
        lines = [f"SPEAKER one 1 {start:.3f} {end - start:.3f} <NA> <NA> A <NA> <NA>" for start, end in spans]
        (tmp_path / "labels.rttm").write_text("\n".join(lines))
    rows = measured([PART], tmp_path, seed=0, limit=9)["rows"]
    assert [row["case"] for row in rows] == ["talk_one.wav", "all recordings"]
    assert rows[-1]["value"] >= 0.97


def test_a_folder_without_labels_is_refused(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(1600), RATE_HZ)
    with pytest.raises(SettingsError, match="no recording has labels"):
        measured([PART], tmp_path, seed=0, limit=1)


def test_what_is_found_twice_or_half_counts_half() -> None:
    truth = [(1.0, 3.0)]
    assert _f1(_counts([(1.0, 2.0)], truth, 10.0, pause_s=0.2)) == pytest.approx(2 / 3)
    assert _f1(_counts([(1.0, 1.9), (2.0, 3.0)], truth, 10.0, pause_s=0.2)) == 1.0
    assert _f1(_counts([(1.0, 1.5), (2.0, 3.0)], truth, 10.0, pause_s=0.2)) == pytest.approx(300 / 350)
    assert _f1(_counts([], [], 10.0, pause_s=0.2)) is None
