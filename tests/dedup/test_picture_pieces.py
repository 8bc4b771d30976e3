"""Pieces of a large picture are made of the part of it that they show."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from mmlake.media.picture_pieces import DETAIL_PX, PIECE_PX, pieces


def of_whole_picture(plane_HW):
    """The four pieces of all of the picture at 1,024 px."""
    height, width = plane_HW.shape
    scale = 2 * DETAIL_PX / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return pieces(cv2.resize(plane_HW, size, interpolation=cv2.INTER_AREA))


@pytest.mark.parametrize(
    "size", [(1080, 1920), (720, 1280), (800, 1920), (1920, 1080), (768, 1366), (2160, 3840), (1025, 1025), (3, 2000)]
)
def test_pieces_of_a_part_are_those_of_the_whole_picture_that_is_shrunk(size):
    plane_HW = np.random.default_rng(5).integers(0, 256, size, np.uint8)
    expected = of_whole_picture(plane_HW)
    assert np.array_equal(pieces(plane_HW), expected)
    first, last = expected[:PIECE_PX], expected[-PIECE_PX:]
    assert np.array_equal(pieces(plane_HW, (0, 3)), np.concatenate([first, last]))


def test_of_a_large_picture_no_more_is_shrunk_than_its_pieces_show(monkeypatch):
    read, resize = [], cv2.resize
    monkeypatch.setattr(
        cv2, "resize", lambda plane, *rest, **more: read.append(plane.size) or resize(plane, *rest, **more)
    )
    pieces(np.random.default_rng(5).integers(0, 256, (1080, 1920), np.uint8), (0, 3))
    assert sum(read) < 0.05 * 1080 * 1920
