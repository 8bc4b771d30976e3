"""The ground that a border and a bar are searched around is the median of the first row."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake.media.picture_borders import bars, content


@pytest.mark.parametrize("width", [200, 201])
def test_a_border_is_found_around_the_median_of_its_row(width: int) -> None:
    # half of the row is 20, half 41: the median is 30 of an even row, so both lie within 12 levels of it
    plane = np.random.default_rng(1).integers(60, 255, (100, width)).astype(np.uint8)
    plane[:20, : width // 2], plane[:20, width // 2 :] = 20, 41
    if width % 2:
        plane[:20, width // 2] = 30
    assert content(plane)[0] == 0.2
    assert bars(plane)[0] == 0.2
