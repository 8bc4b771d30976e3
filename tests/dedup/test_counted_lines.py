"""A text whose lines are counted, or have times, is the text; the one without them stays."""

from __future__ import annotations

import time

import numpy as np
import pytest

from mmlake.line_counters import counted_line_fraction, without_counters
from tests.dedup.test_copies_of_texts import elected
from tests.dedup.test_spellings_of_texts import relation
from tests.dedup.text_edits import page

WIDTH = 6  # words


def rows_of(seed: int) -> list[str]:
    """Lines of six words of a text of 240."""
    words = page(np.random.default_rng(seed), 240).split()
    return [" ".join(words[at : at + WIDTH]) for at in range(0, len(words), WIDTH)]


def numbered(rows: list[str]) -> str:
    return "\n".join(f"{at:4d}  {row}" for at, row in enumerate(rows, 1))


def numbered_on_each_page(rows: list[str]) -> str:
    return "\n".join(f"{at % 25 + 1}: {row}" for at, row in enumerate(rows))


def timed(rows: list[str]) -> str:
    return "\n".join(f"[{at * 4 // 60:02d}:{at * 4 % 60:02d}] {row}" for at, row in enumerate(rows))


def times_alone(rows: list[str]) -> str:
    return "\n".join(
        f"{at * 97 // 3600}:{at * 97 % 3600 // 60:02d}:{at * 97 % 60:02d}\n{row}" for at, row in enumerate(rows)
    )


@pytest.mark.parametrize("counted", [numbered, numbered_on_each_page, timed, times_alone])
def test_a_text_with_counted_lines_is_the_same_and_goes(counted):
    """A number in each line is a word in each shingle: the two shared none, or the longer one stayed."""
    text, copy = "\n".join(rows_of(1)), counted(rows_of(1))
    assert relation(text, copy) == ["same"]
    assert counted_line_fraction(text) == 0
    for names in (("a", "b"), ("b", "a")):
        assert elected(dict(sorted(zip(names, (text, copy), strict=True)))) == names[0]


def test_the_numbers_make_no_markup_less():
    """The share of tags in the characters of a copy is smaller, by the digits in it."""
    rows = [f"<b>{row}</b>" for row in rows_of(4)]
    assert elected({"a": numbered(rows), "b": "\n".join(rows)}) == "b"


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"{at}. {row}" for at, row in enumerate(rows_of(2), 1)),  # a list
        "\n".join(f"{at * at % 31} {row}" for at, row in enumerate(rows_of(2), 1)),  # a table
        "\n".join(f"{at} {row}" for at, row in enumerate(rows_of(2)[:7], 1)),  # few lines
        "\n".join(f"{at} {row}" if at % 4 == 0 else row for at, row in enumerate(rows_of(2), 1)),
        "\n".join(f"12:{59 - at:02d} {row}" for at, row in enumerate(rows_of(2))),  # times that go down
        " ".join(f"{at} {row}" for at, row in enumerate(rows_of(2), 1)),
    ],
    ids="list table few quarter down line".split(),
)
def test_what_counts_no_lines_is_kept(text):
    assert without_counters(text) == text
    assert counted_line_fraction(text) == 0


def test_lines_without_counters_among_others_are_kept():
    rows = rows_of(3)
    head = "Chapter one\n\n"
    assert without_counters(head + numbered(rows)) == head + "\n".join(rows)
    assert counted_line_fraction("") is None
    assert counted_line_fraction(numbered(rows)) == 1


@pytest.mark.parametrize(
    "text", ["\n" * 200_000, "1\n" * 100_000, (" " * 1_000 + "\n") * 200, "[" * 200_000 + "\n" * 9]
)
def test_lines_without_end_take_no_long(text):
    began = time.process_time()
    without_counters(text)
    assert time.process_time() - began < 2
