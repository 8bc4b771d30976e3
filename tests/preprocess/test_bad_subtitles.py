"""Subtitles that overlap, run backwards or belong elsewhere: what is shown is the transcript, the rest is counted."""

from __future__ import annotations

from pathlib import Path

import pytest
from preprocess_media import items

from mmlake.modalities import MODALITIES
from mmlake.preprocess import tracks, unit_tracks, units
from mmlake.store import BlobStore
from tests import make

SUBTITLES = {
    "overlap": ([(0.1, 0.7, "one two"), (0.2, 0.9, "three")], "one two three", 0),
    "come in any order": ([(0.6, 0.9, "second"), (0.0, 0.5, "first")], "first second", 0),
    "run backwards": ([(0.9, 0.1, "never"), (0.2, 0.6, "shown")], "shown", 1),
    "have no length": ([(0.3, 0.3, "never"), (0.2, 0.6, "shown")], "shown", 1),
    "go on behind the end": (
        [(0.1, 0.5, "inside"), (4_000.0, 4_002.0, "of another film")],
        "inside of another film",
        1,
    ),
}


@pytest.mark.parametrize("name", SUBTITLES)
def test_subtitles_that(name: str, tmp_path: Path) -> None:
    """What is shown is the transcript; what is in no clip is counted, which the rule `stray_cues` flags."""
    lines, transcript, num_stray = SUBTITLES[name]
    clock = lambda at_s: f"{int(at_s // 3600):02d}:{int(at_s // 60 % 60):02d}:{at_s % 60:06.3f}"
    text = "WEBVTT\n\n" + "\n\n".join(f"{clock(start)} --> {clock(end)}\n{words}" for start, end, words in lines)
    store = BlobStore(tmp_path / "blobs")
    given = items(store, [make.film(1)], "video", sample_text=text)
    found = tracks(given, "video", decoder=MODALITIES["video"].decoder, store=store)
    row = found.to_pylist()[0]
    assert (row["status"], row["transcript"], len(row["cues"])) == ("ok", transcript, 2)
    cut = units(found, splitter=MODALITIES["video"].splitter, store=store)
    assert unit_tracks(found, cut)["num_stray_cues"].to_pylist() == [num_stray]
