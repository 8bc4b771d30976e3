"""The figures of `mmlake bench av`: what counts as met, and how they are written and shown."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mmlake.bench.av import PARTS, AvRow, Part, Run, measured, written
from mmlake.errors import SettingsError


def _made(run: Run) -> Iterator[AvRow]:
    assert run.scratch.is_dir() and not list(run.scratch.iterdir())
    run.advance(run.limit)
    yield AvRow("made", "cut", "F1", 0.5, ">= 0.99", run.limit)
    yield AvRow("made", "fade", "error", 2.0, "<= 2", run.limit, "note")
    yield AvRow("made", "wipe", "F1", None, ">= 0.9", 0)


def _read(folder: Path, run: Run) -> Iterator[AvRow]:
    yield AvRow("made", "file", "number", float(len(list(folder.iterdir()))), "", 1)


MADE = Part(name="made", what="a part of the test", generated=_made, labelled=_read, truth="none")


def test_a_figure_below_its_floor_is_missed_and_one_that_was_not_met_is_neither() -> None:
    found = measured([MADE], None, seed=1, limit=4)
    assert [row["is_met"] for row in found["rows"]] == [False, True, None]
    assert found["num_missed"] == 1


def test_a_floor_of_another_form_is_an_error() -> None:
    with pytest.raises(ValueError, match="neither"):
        _ = AvRow("made", "cut", "F1", 0.5, "about 1", 1).is_met


def test_a_labelled_folder_is_read_and_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "film.mp4").touch()
    assert measured([MADE], tmp_path, seed=0, limit=1)["rows"][0]["value"] == 1
    with pytest.raises(SettingsError, match="nowhere"):
        measured([MADE], tmp_path / "nowhere", seed=0, limit=1)


def test_a_part_without_labels_says_so(tmp_path: Path) -> None:
    part = Part(name="blind", what="", generated=_made, labelled=None, truth="")
    with pytest.raises(SettingsError, match="blind"):
        measured([part], tmp_path, seed=0, limit=1)


def test_the_files_hold_every_row(tmp_path: Path) -> None:
    found = measured([MADE], None, seed=1, limit=4)
    files = written(found, tmp_path / "out")
    assert json.loads(Path(files["json"]).read_text())["rows"] == found["rows"]
    with Path(files["csv"]).open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["case"] for row in rows] == ["cut", "fade", "wipe"]
    assert [row["is_met"] for row in rows] == ["False", "True", ""]


def test_every_part_has_its_own_name_and_says_what_truth_it_reads() -> None:
    assert all(name == part.name and part.what for name, part in PARTS.items())
    assert all(part.truth for part in PARTS.values() if part.labelled is not None)
