"""The directions of edges, from half a turn on, count as those of the other half."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from mmlake.embed.classical import picture

_EDGES = slice(120, 376)  # of the descriptor: two scales of 16 cells, 8 directions each


def _described(plane: np.ndarray) -> np.ndarray:
    buffer = io.BytesIO()
    Image.fromarray(plane.astype(np.uint8)).save(buffer, "PNG")
    return picture(buffer.getvalue())[_EDGES]


@pytest.mark.parametrize("direction", np.linspace(0, np.pi, 17))
def test_a_slope_and_its_opposite_have_one_direction(direction: float) -> None:
    down, across = np.mgrid[:128, :128] - 63.5
    slope = np.rint((across * np.cos(direction) + down * np.sin(direction)) * 1.2)
    np.testing.assert_allclose(_described(127 + slope), _described(127 - slope), atol=1e-6)


@pytest.mark.parametrize("at", range(8))
def test_a_slope_is_counted_at_its_own_direction(at: int) -> None:
    down, across = np.mgrid[:128, :128] - 63.5
    turned = at * np.pi / 8
    slope = 127 + (across * np.cos(turned) + down * np.sin(turned)) * 1.3
    energies = _described(np.rint(slope)).reshape(2, 16, 8)[1]
    assert (energies.argmax(axis=1) == at).all()
