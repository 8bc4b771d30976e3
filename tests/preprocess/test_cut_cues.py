"""Cues that run over a border of their item: each word is in the transcript of the span in which it is said."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mmlake import schemas
from mmlake.preprocess import unit_tracks
from mmlake.preprocess.tiling.cut_cues import CUTS, cue_cuts
from mmlake.publish.unit_facts import words_within
from mmlake.store import BlobStore
from tests.preprocess.test_unit_tracks import FILM, tracks, units
from tests.preprocess.test_units import bursts, cue, track, words
from tests.preprocess.test_units import units as cut_to_units


def said(text: str, start_s: float, *, word_s: float = 0.5) -> list[dict[str, object]]:
    """The words of the text, one after the other."""
    parts = [(part, start_s + at * word_s) for at, part in enumerate(text.split())]
    return [{"word": part, "start_s": at_s, "end_s": at_s + word_s, "score": 0.9} for part, at_s in parts]


def with_cuts(table: pa.Table, values: list) -> pa.Table:
    """The units with these cuts of cues."""
    field = table.schema.field(CUTS)
    return table.set_column(table.column_names.index(CUTS), field, pa.array(values, field.type))


@pytest.mark.parametrize(
    ("text", "border_s", "left", "right"),
    [
        ("He left. Then she came home", 11.0, "He left.", "Then she came home"),
        ("He left. - Then she came home", 11.0, "He left.", "- Then she came home"),
        ("He left\nThen she came home", 10.5, "He", "left\nThen she came home"),
        ("He left. Then she came home", 12.99, "He left. Then she came home", ""),
        ("He left. Then she came home", 10.01, "", "He left. Then she came home"),
    ],
)
def test_a_cue_is_cut_behind_the_last_word_that_is_said_before_the_border(text, border_s, left, right) -> None:
    spoken = said("He left Then she came home", 10.0)
    (cut,) = cue_cuts([cue(text, 10.0, 13.0)], spoken, [border_s])
    assert (cut["cue"], cut["time_s"]) == (0, border_s)
    assert (text[: cut["at"]].strip(), text[cut["at"] :].strip()) == (left, right)


def test_a_cue_over_two_borders_is_cut_at_both() -> None:
    text = "one two three four five six"
    cuts = cue_cuts([cue(text, 10.0, 13.0)], said(text, 10.0), [11.0, 12.0])
    assert [text[: cut["at"]] for cut in cuts] == ["one two", "one two three four"]


@pytest.mark.parametrize(
    ("text", "spoken", "borders_s"),
    [
        ("He left. Then she came", [], [11.0]),  # nothing was laid on the sound
        ("He left. Then she came", said("He left and she came", 10.0), [11.0]),  # other words
        ("He left. Then she came", said("He left Then she came", 40.0), [11.0]),  # said elsewhere
        ("He left. Then she came", said("He left Then she came", 10.0), [10.0, 13.0]),  # borders at its edges
        ("...", said("He left", 10.0), [11.0]),  # no words
    ],
)
def test_a_cue_whose_words_are_not_known_stays_whole(text, spoken, borders_s) -> None:
    assert cue_cuts([cue(text, 10.0, 13.0)], spoken, borders_s) == []


def test_of_equal_lines_each_is_cut_by_its_own_words() -> None:
    cues = [cue("no no no no", 0.0, 2.0), cue("no no no no", 20.0, 22.0)]
    spoken = said("no no no no", 0.0) + said("no no no no", 20.0)
    assert [(cut["cue"], cut["at"]) for cut in cue_cuts(cues, spoken, [21.5])] == [(1, 8)]


def test_no_character_and_no_word_is_lost_wherever_the_borders_are() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        names = [f"w{number}" for number in rng.integers(0, 6, 40)]
        spoken = said(" ".join(names), 0.0)
        edges = np.unique([0, *rng.integers(1, 40, 8), 40]).tolist()
        cues = [cue(" ".join(names[a:b]), a / 2, b / 2) for a, b in zip(edges, edges[1:], strict=False)]
        borders_s = np.unique(rng.uniform(0, 20, 3)).tolist()
        cuts = cue_cuts(cues, spoken, borders_s)
        for number, one in enumerate(cues):
            inside = [border_s for border_s in borders_s if one["start_s"] < border_s < one["end_s"]]
            mine = [cut for cut in cuts if cut["cue"] == number]
            assert [cut["time_s"] for cut in mine] == inside
            for cut in mine:
                before = words_within(spoken, one["start_s"], cut["time_s"])
                assert one["text"][: cut["at"]].split() == [word["word"] for word in before]


def test_the_transcript_of_a_segment_is_the_words_that_are_said_in_it(tmp_path) -> None:
    """A line went whole to the segment of its middle; the other had words of it that its transcript lacked."""
    store = BlobStore(tmp_path)
    sound = bursts((0, 18), (18.6, 40), until_s=40)
    text = "He left. Then she came back home again"
    spoken = [("He", 17.0, 17.5), ("left", 17.5, 18.0)]
    spoken += [(word, 18.6 + at * 0.5, 19.1 + at * 0.5) for at, word in enumerate(text.split()[2:])]
    given = track(store, sound, cues=[cue("Listen.", 2, 3), cue(text, 17, 22)], transcript=f"Listen. {text}")
    aligned = words(("Listen", 2, 3), *spoken)
    rows = cut_to_units(given, store, alignments=aligned)
    found = schemas.from_rows(schemas.UNITS, rows)
    first, second = unit_tracks(given, found).to_pylist()
    assert [first["transcript"], second["transcript"]] == ["Listen. He left.", "Then she came back home again"]
    border_s = rows[0]["end"] / 1e6
    assert first["cues"][-1] == {"text": "He left.", "start_s": 17.0, "end_s": border_s, "score": None}
    assert second["cues"][0]["start_s"] == 0.0
    assert [row[CUTS] is None for row in rows] == [False, True]
    without = cut_to_units(given, store, alignments=words(*spoken, status="flagged", code=3201))
    assert all(row[CUTS] is None for row in without)


def test_words_of_a_gap_are_in_no_transcript_and_are_counted() -> None:
    cut = units(0, 20, 22, 60, gaps={1: "too_short"})
    text = "one two three four five six seven eight"
    cuts = cue_cuts([cue(text, 19.0, 23.0)], said(text, 19.0), [20.0, 22.0])
    column = with_cuts(cut, [cuts, *[None] * (cut.num_rows - 1)])
    rows = unit_tracks(tracks(cues=[cue(text, 19.0, 23.0)]), column).to_pylist()
    assert {row["parent_digest"] for row in rows} == {FILM}
    assert [row["transcript"] for row in rows] == ["one two", "seven eight"]
    assert sum(row["num_stray_cues"] for row in rows) == 1
