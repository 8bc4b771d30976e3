"""How two thumbnails may lie on each other: the boxes and orientations that fit best, and the alignment from there.

A copy shows all of a picture or a part of it, turned or not. Source: Evangelidis and Psarakis 2008 (ECC alignment, here
of OpenCV).
Legend: G side of a grid, W windows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mmlake.dedup.image.fingerprints import SIDE, SMALL_PX
from mmlake.dedup.image.marks import MARKABLE_PX, Mask
from mmlake.dedup.image.views import View, oriented
from mmlake.dedup.image.windows import NUM_CLOSE, WINDOWS, Floats, turned
from mmlake.media.picture_borders import Box

LEAST_PLACED = 0.7  # correlation of the grids; copies reach .77 and more (docs/dedup.md)
_DRAWN_FLAT = 0.35  # a drawing on a flat ground (a digit, a letter, a chart) is where so much shows nothing
_NUM_PLACES = 2  # alignments that are tried, besides frame on frame
_PULLED_PX, _TINY_PULLED_PX = 12.0, 9.0  # of the thumbnail: an alignment that was pulled further shows another thing
_TURNED_BACK = [0, 3, 2, 1, 4, 5, 6, 7]  # of orientations; a mirrored one is its own inverse


class Place(NamedTuple):
    """How two thumbnails may lie on each other."""

    correlation: float
    view: Floats  # the picture that shows all that the template shows, in the template's orientation
    content: Box  # of the view, in that orientation
    box: Box  # of the view: what the template's region shows
    template: View
    region: Box  # of the template
    orientation: int
    viewed: View
    side_px: int  # of the smaller picture
    is_drawn: bool  # both are drawings on a flat ground
    are_tinted: bool  # the colours of both are known
    are_ink: bool  # both are a few strokes of one tone

    @property
    def are_drawings(self) -> bool:
        """Whether both are, on a ground or not."""
        return self.viewed.is_drawing and self.template.is_drawing

    @property
    def are_edited(self) -> bool:
        """Whether they have enough of their own that one tone over it all, or a curve of its tones, is an edit and no
        other thing: two flowers of a game differ by no more."""
        return not self.are_drawings and self.side_px >= MARKABLE_PX


def places(one: View, other: View) -> list[Place]:
    """The best ways to lay them on each other, the best first; last, frame on frame, as most copies lie: a logo may
    make a part of the one fit a little better, and another light all of it worse."""
    found, frame, are_signs = [], (0.0, one, other, 0, 0, 0), one.is_sign and other.is_sign
    # a drawing that is too small to bear a mark bears no two captions either: what both have below is their own
    side_px = min(one.side_px, other.side_px)
    are_small = one.is_drawing and other.is_drawing and side_px < MARKABLE_PX
    for view, template in ((one, other), (other, one)):
        # to turn the view's boxes there is to turn the template's few regions back
        correlations = view.box_units @ template.region_units[_TURNED_BACK].transpose(0, 2, 1)
        if are_signs:
            correlations = correlations[:1]
        if side_px < SMALL_PX:  # half of so few pixels says nothing
            correlations[:, NUM_CLOSE : len(WINDOWS)] = -1
        if are_small:
            correlations[:, view.barred_box, template.barred_region] = -1
        if view is one:
            frame = (float(correlations[0, 0, 0]), view, template, 0, 0, 0)
        for at in np.argsort(-correlations.round(5), axis=None, kind="stable")[:_NUM_PLACES]:  # ties: as it is
            orientation, box, region = (int(k) for k in np.unravel_index(at, correlations.shape))
            found.append((float(correlations.flat[at]), view, template, orientation, box, region))
    found.sort(key=lambda one: -one[0])
    found = found[:_NUM_PLACES]
    at = next((at for at, place in enumerate(found) if place[3:] == (0, 0, 0)), len(found))
    if frame[0] < LEAST_PLACED:
        frame = (max(frame[0], float(one.unlit @ other.unlit)), *frame[1:])
        found[at : at + 1] = [frame]
    elif at == len(found):
        found.append(frame)
    return [
        Place(
            correlation=correlation,
            view=np.ascontiguousarray(oriented(view.thumbnail, orientation)),
            content=turned(view.content, orientation),
            box=turned(view.boxes[box], orientation),
            template=template,
            region=template.regions[region],
            orientation=orientation,
            viewed=view,
            side_px=min(view.side_px, template.side_px),
            is_drawn=(view.is_ink and template.is_ink) or _is_drawn(view, template),
            are_tinted=view.tints is not None and template.tints is not None,
            are_ink=view.is_ink and template.is_ink,
        )
        for correlation, view, template, orientation, box, region in found
    ]


def _is_drawn(one: View, other: View) -> bool:
    """Whether both are drawings on a flat ground; of tiny pictures, where a silhouette before the sky is no more than
    that, whether they are so together."""
    if min(one.side_px, other.side_px) < SMALL_PX:
        return one.flat + other.flat >= 2 * _DRAWN_FLAT
    return min(one.flat, other.flat) >= _DRAWN_FLAT


def box_mask(box: Box) -> Mask:
    top, bottom, left, right = box
    inside = np.zeros((SIDE, SIDE), np.bool_)
    rows = slice(int(np.ceil(top * SIDE - 0.1)), int(bottom * SIDE + 0.1))
    inside[rows, int(np.ceil(left * SIDE - 0.1)) : int(right * SIDE + 0.1)] = True
    return inside


def said_of(place: Place) -> Floats:
    """The map from the template's pixels to the view's that the boxes say."""
    top, bottom, left, right = place.box
    above, below, before, behind = place.region
    down, across = (bottom - top) / (below - above), (right - left) / (behind - before)
    return np.array(
        [
            [across, 0, (left - before * across) * SIDE + across / 2 - 0.5],
            [0, down, (top - above * down) * SIDE + down / 2 - 0.5],
        ],
        np.float32,
    )


def aligned(place: Place) -> Floats:
    """The affine map from the template's pixels to the view's; the one that the boxes say where none is better."""
    import cv2

    said = said_of(place)
    mask = (box_mask(place.region) * 255).astype(np.uint8)
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 25, 1e-4)
    try:
        _, found = cv2.findTransformECC(
            place.template.thumbnail, place.view, said.copy(), cv2.MOTION_AFFINE, criteria, mask, 3
        )
    except cv2.error:  # does not converge: nothing in common, or nothing to hold on to
        return said
    sizes = [np.linalg.det(one[:, :2].astype(np.float64)) for one in (found, said)]
    most_px = _TINY_PULLED_PX if place.side_px < SMALL_PX else _PULLED_PX
    is_near = np.abs(found - said).max() <= most_px and abs(sizes[0] / sizes[1] - 1) <= 0.3
    return found if is_near else said
