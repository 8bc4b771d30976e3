"""Compiled loops over small frames give what the formulas of numpy give."""

from __future__ import annotations

import cv2
import numpy as np

from mmlake.preprocess.visual.gradual import colours
from mmlake.preprocess.visual.plane_kernels import kernels
from mmlake.preprocess.visual.planes import NUM_LUMA


def test_histograms_of_colours_are_counts_of_hue_saturation_and_value():
    rng = np.random.default_rng(5)
    vectors_TN = np.clip(rng.normal(128, 30, (5, NUM_LUMA + 2 * 9 * 16)), 0, 255).astype(np.uint8)
    found = colours(vectors_TN)
    for vector, histogram in zip(vectors_TN, found, strict=True):
        u, v = (plane.repeat(3, axis=0).repeat(3, axis=1) for plane in vector[NUM_LUMA:].reshape(2, 9, 16))
        yuv = np.ascontiguousarray(np.dstack([vector[:NUM_LUMA].reshape(27, 48), u, v]))
        hsv = cv2.cvtColor(cv2.cvtColor(yuv, cv2.COLOR_YUV2BGR), cv2.COLOR_BGR2HSV).reshape(-1, 3).astype(int)
        hue = np.where((hsv[:, 1] < 25) | (hsv[:, 2] < 25), 12, hsv[:, 0] * 12 // 180)
        tints = np.bincount(hue * 4 + hsv[:, 1] // 64, minlength=52)
        values = np.bincount(hsv[:, 2] // 16, minlength=16)
        assert np.array_equal(histogram, (np.concatenate([tints, values]) / (2 * NUM_LUMA)).astype(np.float32))


def test_a_cell_is_odd_where_both_neighbours_are_far_and_alike():
    before = np.array([100, 100, 100, 100, 0, 250], np.uint8)
    here = np.array([116, 115, 120, 120, 255, 234], np.uint8)
    behind = np.array([100, 100, 105, 106, 0, 250], np.uint8)
    is_odd = np.empty(6, np.bool_)
    # the third is 15 levels from the nearer one, three times as far as both are apart, the fourth 14, and these are 6
    assert kernels().odd(before, here, behind, 14, 3, is_odd) == 5
    assert is_odd.tolist() == [True, True, True, False, True, True]
    assert kernels().odd(before, here, behind, 16, 4, is_odd) == 3
    assert is_odd.tolist() == [True, False, False, False, True, True]
