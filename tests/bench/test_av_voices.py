"""The part `voices` of `mmlake bench av` on labelled folders."""

from __future__ import annotations

import pytest

from mmlake.bench.av import voices
from mmlake.bench.av.rows import Run
from mmlake.errors import SettingsError
from tests import make


def test_a_folder_without_turns_and_a_damaged_file_are_named(tmp_path):
    run = Run(seed=0, limit=3, scratch=tmp_path)
    (tmp_path / "one.wav").write_bytes(make.sound(1))
    with pytest.raises(SettingsError, match="NAME.rttm"):
        list(voices.labelled(tmp_path, run))
    (tmp_path / "one.rttm").write_text("SPEAKER one 1 0.5\n")
    with pytest.raises(SettingsError, match="line 1 is no line of RTTM"):
        list(voices.labelled(tmp_path, run))


def test_turns_of_rttm_are_starts_and_ends(tmp_path):
    (tmp_path / "a.rttm").write_text("SPEAKER a 1 2.5 0.5 <NA> <NA> FEO066 <NA> <NA>\n\n;; a comment\n")
    assert voices._turns_in(tmp_path) == {"a": [(2.5, 3.0, "FEO066")]}


def test_rttm_of_several_recordings_has_the_turns_of_each(tmp_path):
    """Only a file called like a recording was read, and all of its lines were of that one."""
    lines = [
        f"SPEAKER {name} 1 {start_s} 1.0 <NA> <NA> one <NA> <NA>\n" for name, start_s in [("a", 0), ("b", 2), ("a", 4)]
    ]
    (tmp_path / "all.rttm").write_text("".join(lines))
    (tmp_path / "c.rttm").write_text("")
    (tmp_path / "d.rttm").write_text("SPEAKER session-d 1 7 1 <NA> <NA> one <NA> <NA>\n")
    found = {name: [start_s for start_s, _, _ in turns] for name, turns in voices._turns_in(tmp_path).items()}
    assert found == {"a": [0, 4], "b": [2], "c": [], "d": [7], "session-d": [7]}
