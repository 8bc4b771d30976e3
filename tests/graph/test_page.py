"""The pictures on the pages of assets."""

from __future__ import annotations

import base64
import re
from collections import Counter

import pytest

from mmlake_assets.page import histogram


def drawn(markdown: str) -> str:
    return base64.b64decode(re.search(r"svg\+xml;base64,([^)]+)\)", markdown)[1]).decode()


def bars(svg: str) -> list[int]:
    """The heights of the bars, from the left."""
    return [44 - int(top) for top in re.findall(r"V(\d+)H", svg)]


def test_the_bars_of_a_histogram_are_as_tall_as_their_rows_are_many() -> None:
    rows = Counter({0.0: 4, 11.5: 1, 23.0: 2, 24.0: 1})  # a bar is one wide; the last has both its ends
    markdown = histogram([*rows.elements()], label="cluster size")
    assert bars(drawn(markdown)) == [44, *[0] * 10, 11, *[0] * 11, 33]
    assert re.findall(r">([^<>]+)</text>", drawn(markdown)) == ["0", "cluster size", "24"]
    assert markdown.endswith("at most 4 of 8 rows")


def test_a_single_row_among_thousands_is_seen() -> None:
    assert bars(drawn(histogram([0.0] * 9_999 + [1.0], label="score")))[-1] == 1


@pytest.mark.parametrize("label", ["score", "chinese-clip-vit-base-patch16: items per cluster"])
def test_the_ui_draws_a_histogram_in_place(label: str) -> None:
    """It does so up to 700 characters."""
    values = [1234.5678 + at % 97 * (at % 89) for at in range(10_000)]
    assert len(histogram(values, label=label).partition(")")[0]) < 700


def test_a_label_is_no_markup() -> None:
    assert ">a&lt;b&gt;<" in drawn(histogram([1.0], label="a<b>"))


def test_a_histogram_of_nothing_has_no_bars() -> None:
    assert histogram([], label="score").endswith("at most 0 of 0 rows")
