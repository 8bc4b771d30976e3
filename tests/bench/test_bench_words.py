"""The figures of words: the floors hold on another seed, and a bad transcript has a bad figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmlake.bench.av import PARTS, measured
from mmlake.errors import SettingsError
from mmlake.sample import voices
from tests import make


def test_no_time_moves_and_words_are_found_near_their_places() -> None:
    """Floors of word starts are not held here: ten words of a voice are too few for a percentile."""
    if voices.engine() != "espeak-ng":
        pytest.skip("espeakng-loader is not installed: there is no voice with words")
    found = {(row["case"], row["measure"]): row for row in measured([PARTS["words"]], None, seed=11, limit=2)["rows"]}
    missed = [key for key, row in found.items() if row["is_met"] is False]
    assert [key for key in missed if not key[0].startswith("word starts")] == []
    assert found["word starts, clean", "median error in ms"]["value"] < 100
    assert found["misheard terms, as they came", "word error rate"]["value"] > 0.1
    assert 0.3 < found["hostile answers", "fraction refused, in part or whole"]["value"] < 1
    assert found["word starts, clean", "median error in ms"]["num"] >= 10


def test_a_labelled_folder_is_compared_with_its_gold(tmp_path: Path) -> None:
    srt = b"1\n00:00:00,000 --> 00:00:01,000\none two\n\n2\n00:00:01,000 --> 00:00:02,000\ntree\n"
    make.land(
        tmp_path, {"a.txt": b"One two three.", "a.srt": srt, "b.txt": b"four", "b.hyp.txt": b"four", "c.txt": b"x"}
    )
    found = measured([PARTS["words"]], tmp_path, seed=0, limit=9)["rows"]
    assert [(row["measure"], row["value"], row["num"]) for row in found] == [
        ("word error rate", 1 / 4, 4),
        ("character error rate", 1 / 17, 4),
    ]


def test_a_folder_without_pairs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"no NAME\.txt"):
        measured([PARTS["words"]], make.land(tmp_path, {"a.txt": b"one"}), seed=0, limit=9)
