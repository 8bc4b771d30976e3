"""Is this picture a copy of that one: thumbnails are aligned, then compared in detail and place by place.

A copy shows the same detail after a change of place (crop, border, small turn) and of tone; another picture of the same
scene differs in detail, or in one place: another ship, another letter, another curve. A mark in a corner or a banner
differs in one place as well, so such places are left out above and below in pictures large enough to bear a mark.
Source: Wang et al. 2004 (local correlation).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mmlake.dedup.image import closer, colours, cutouts, ink, repainting
from mmlake.dedup.image import tones as image_tones
from mmlake.dedup.image.detail import detail_correlation, differences
from mmlake.dedup.image.fingerprints import SIDE, SMALL_PX
from mmlake.dedup.image.marks import MARKABLE_PX, Mask, marked_places, veiled_places
from mmlake.dedup.image.places import LEAST_PLACED, Place, aligned, box_mask, places, said_of
from mmlake.dedup.image.views import View, oriented
from mmlake.dedup.image.windows import Floats, turned
from mmlake.media.picture_borders import WHOLE

LEAST_DETAIL = 1.2  # grey levels; what varies less than that around its own mean shows no detail to compare
_FAINT_LEVEL, _FAINT_SPOT = 4.0, 12.0  # grey levels, mean and in one place: how far pictures without detail may differ
# of the blur before that: resampling changes what is finer; a small picture's pixels are two of the thumbnail's
_SIGMA_PX, _SMALL_SIGMA_PX = 1.0, 1.7
_MOST_UNLIKE = 0.1  # neighbourhoods that show detail, and not the same
_SEEN = 0.75  # share of the smaller view that the other one shows
_LEAST_AREA = 0.2  # of the thumbnail that is compared
_SPOT, _SPOT_LEVEL = 0.42, 10.0  # of the contrast, and grey levels: a larger difference in one place is another thing
_PULLED = 0.5  # pixels of the thumbnail, or change of scale: an alignment that has left that of the boxes
_PLAIN_DIMENSIONS = 40.0  # independent numbers in the detail; fewer, as of a digit, fit others by chance
# how far copies are from each other, of which the one stays that is closest to the rest: 1 is what no copy loses
_LOSS, _OTHER_FRAME = 5.0, 0.1
_SAME_FRAME = 0.02  # change of scale, and shift by the side
_SAME_DETAIL, _SAME_LEVELS = 0.04, 4.0  # what recompression changes at this size counts nothing
_PLAIN_CORRELATION, _PLAIN_SPOT, _PLAIN_LEVELS = 0.945, 0.2, 10.0
# a photograph of 32 px has a quarter of the pixels of its thumbnail, so few numbers say less against it
_FEW_DIMENSIONS, _TINY_CORRELATION = 16.0, 0.98
_LIT_CORRELATION = 0.955  # of copies under another light
_CLIPPED = 250.0  # grey level from which on light is lost
# correlations of the detail below which nothing finds a copy: of 31 edits of photographs the lowest is .77, as with a
# logo in a quarter; of those under another light .91
_HOPELESS, _HOPELESSLY_LIT = 0.65, 0.85
_LONE = 20.0  # over the mean difference: what is larger than that is in one place
# how far the alignment of a drawing on a flat ground may be from the one that the boxes say: bend and scale, pixels of
# the thumbnail
_DRAWN_BEND, _DRAWN_SHIFT_PX = 0.06, 2.6
# of drawings, and of what shows nothing in so much of it on the whole: 32 edits of 90 have it but for some in a border
_PLAIN_FLAT, _PLAIN_GROUND = 0.3, 0.97
# of those in another tone, which a fitted curve can bring near to what they are not
_TONED_CORRELATION, _TONED_SPOT = 0.985, 0.12


class Likeness(NamedTuple):
    """What the comparison of two pictures says."""

    is_copy: bool
    score: float  # of copies from the bound to 1, less for another tone, frame or mark; else the detail's correlation
    orientation: int  # 0: as it is; 1 to 3: quarter turns; 4 and more: mirrored, then turned
    is_whole: bool  # both show the same frame


UNLIKE = Likeness(False, 0.0, 0, True)


def compare(one: View, other: View, *, correlation: float) -> Likeness:
    """Whether one is a copy of the other, whichever comes first. correlation: of the detail of copies, at least."""
    if one.identity == other.identity:
        return Likeness(True, 1.0, 0, True)
    if one.identity > other.identity:
        one, other = other, one
    if min(one.detail, other.detail) < LEAST_DETAIL:
        return _faint(one, other, correlation)
    best = UNLIKE
    for place in places(one, other):
        if place.correlation < LEAST_PLACED:
            best = max(best, Likeness(False, max(0.0, place.correlation) * LEAST_PLACED, 0, True), key=_rank)
            continue
        best = max(best, _verified(place, correlation), key=_rank)
        if best.is_copy:
            break
    return best


def _rank(likeness: Likeness) -> tuple[bool, float]:
    return likeness.is_copy, likeness.score


def _faint(one: View, other: View, correlation: float) -> Likeness:
    """Pictures with next to no detail are copies where they are equal but for noise, as they are or mirrored."""
    import cv2

    for orientation in (0, 4):
        differing = np.abs(oriented(one.thumbnail, orientation) - other.thumbnail)
        spot = float(cv2.blur(differing, (3, 3)).max())
        if differing.mean() <= _FAINT_LEVEL and spot <= _FAINT_SPOT:
            return Likeness(True, max(correlation, 1 - float(differing.mean()) / 64), orientation, True)
    return UNLIKE


def _verified(place: Place, correlation: float) -> Likeness:
    """What the best alignment says; where that was pulled away from the boxes, as by a logo that stands out more than
    the picture, also what theirs does. A drawing has no second try: it fits others of its kind too easily."""
    warp = aligned(place)
    best = _judged(place, warp, correlation)
    if best.is_copy or place.is_drawn or np.abs(warp - said_of(place)).max() < _PULLED:
        return best
    return max(best, _judged(place, said_of(place), correlation), key=_rank)


def _judged(place: Place, warp: Floats, correlation: float) -> Likeness:
    """What the two show where they are laid on each other by this map."""
    import cv2

    is_tiny = place.side_px < SMALL_PX
    # what surrounds a drawing is its ground, and no border: a square, cut at its sides, is like any other plane
    is_on_ground = place.is_drawn and (not is_tiny or place.are_ink)
    contents = (WHOLE, WHOLE) if is_on_ground else (place.template.content, place.content)
    expected = box_mask(place.region) & box_mask(contents[0])
    if is_on_ground and (place.region, place.box) != (WHOLE, WHOLE):
        expected = cv2.erode(expected.astype(np.uint8), np.ones((3, 3), np.uint8), borderValue=0).astype(np.bool_)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    template = place.template.thumbnail
    view = cv2.warpAffine(place.view, warp, (SIDE, SIDE), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    shown = cv2.warpAffine(box_mask(contents[1]).astype(np.float32), warp, (SIDE, SIDE), flags=flags) > 0.99
    seen = expected & shown
    orientation = place.orientation
    scaled = np.abs(warp - np.eye(2, 3))
    moved = max(float(scaled[:, :2].max()), float(scaled[:, 2].max()) / SIDE)
    is_whole = moved < _SAME_FRAME
    if seen.sum() < max(_SEEN * expected.sum(), _LEAST_AREA * seen.size):
        return Likeness(False, 0.0, orientation, is_whole)
    sigma_px = _SMALL_SIGMA_PX if is_tiny else _SIGMA_PX
    toned = image_tones.toned(view, template, seen)
    found, dimensions, unlike = detail_correlation(toned, template, seen, sigma_px=sigma_px)
    if found < _HOPELESS:
        return Likeness(False, min(max(0.0, found), correlation * 0.99), orientation, is_whole)
    differing, contrast = differences(toned, template, seen)
    if (place.is_drawn and not _lies_as_said(warp, place)) or (place.are_ink and _loses_ink(place, warp, seen)):
        return Likeness(False, min(max(0.0, found), correlation) * 0.99, orientation, is_whole)
    is_toned = float(np.abs(view - template)[seen].mean()) > _PLAIN_LEVELS
    (bound, spot), alike, veil = _bounds(place, dimensions, is_toned, correlation), seen, None
    spots = differing > max(spot * contrast, _SPOT_LEVEL)
    # what sharpened or coded all of a tiny picture moves each of its pixels a little; another mouth, one place
    if is_tiny and not place.is_drawn and spots.any() and differing.max() <= _LONE * differing[seen].mean():
        spots = differences(toned, template, seen, pixel=2)[0] > max(spot * contrast, _SPOT_LEVEL)
    if spots.any():
        marked = marked_places(spots, seen, place.side_px)
        if marked is None and dimensions >= _PLAIN_DIMENSIONS and place.side_px >= MARKABLE_PX:
            marked = veil = veiled_places(spots, seen, toned, template)
        if marked is None and dimensions >= _PLAIN_DIMENSIONS and not place.is_drawn and found >= _HOPELESSLY_LIT:
            toned, spots = _edited_otherwise(place, view, seen, max(spot * contrast, _SPOT_LEVEL))
            bound = max(bound, _LIT_CORRELATION)
            marked = None if spots.any() else spots
        if marked is None or (place.are_ink and ink.is_of_it(marked, toned, template, seen)):
            return Likeness(False, min(found, correlation) * 0.99, orientation, is_whole)
        alike = seen & ~marked
        found, _, unlike = detail_correlation(toned, template, alike, sigma_px=sigma_px)
    differs = found < bound or unlike > _MOST_UNLIKE or _is_another_inside(place, view, toned, alike, veil)
    differs = differs or (place.are_tinted and _is_recoloured(place, warp, view, alike))
    if differs or _is_another_closely(place, warp, np.ones_like(seen) if is_whole else seen, veil):
        return Likeness(False, min(max(0.0, found), correlation * 0.99), orientation, is_whole)
    loss = max(0.0, 1 - found - _SAME_DETAIL) + float(spots.mean())
    loss += max(0.0, float(np.abs(view - template)[seen].mean()) - _SAME_LEVELS) / 128
    # grows with the shift, so that no threshold between two copies decides who is closest to a third
    loss += _OTHER_FRAME * min(1.0, max(0.0, moved / _SAME_FRAME - 0.5)) + _OTHER_FRAME * (orientation > 0)
    return Likeness(True, correlation + (1 - correlation) * math.exp(-_LOSS * loss), orientation, is_whole)


def _edited_otherwise(place: Place, view: Floats, seen: Mask, most_off: float) -> tuple[Floats, Mask]:
    """(the view in the tones of the template, where it is off by more than that) under another light, or of photographs
    by a curve of tones that no cubic follows, as of an equalized histogram."""
    template = place.template.thumbnail
    for edit in (image_tones.lit, image_tones.by_rank) if place.are_edited else (image_tones.lit,):
        toned = image_tones.toned(edit(view, template, seen), template, seen)
        spots = differences(toned, template, seen)[0] > most_off
        if not spots.any():
            break
    return toned, spots


def _bounds(place: Place, dimensions: float, is_toned: bool, correlation: float) -> tuple[float, float]:
    """(correlation of the detail that a copy has at least, share of the contrast that one place differs by at most).
    dimensions: independent numbers in the detail. correlation: what any copy has at least."""
    is_tiny, bound, spot = place.side_px < SMALL_PX, correlation, _SPOT
    if place.are_tinted and (place.is_drawn if is_tiny else _is_plain(place)):
        bound = max(bound, _PLAIN_GROUND)
    if is_tiny and not place.is_drawn and _FEW_DIMENSIONS <= dimensions < _PLAIN_DIMENSIONS:
        bound = max(bound, _TINY_CORRELATION)
    elif dimensions < _PLAIN_DIMENSIONS or (place.is_drawn and place.side_px < MARKABLE_PX):
        least, spot = (_TONED_CORRELATION, _TONED_SPOT) if is_toned else (_PLAIN_CORRELATION, _PLAIN_SPOT)
        bound = max(bound, least)
    return bound, spot


def _is_another_inside(place: Place, view: Floats, toned: Floats, seen: Mask, veil: Mask | None) -> bool:
    """Whether the two are things of one outline, on a plain ground, that differ within it; not asked of tiny ones.

    view: as it is aligned; toned: in the tones of the template. veil: what a line of see-through letters covers."""
    template, inside = place.template.thumbnail, place.template.inside
    if inside is None or place.side_px < SMALL_PX:
        return False
    lost = ~seen | (np.maximum(view, template) >= _CLIPPED)
    if veil is not None:
        lost |= veil.any(axis=1, keepdims=True)
    return not cutouts.are_alike(toned, template, inside & cutouts.clear_of(lost))


def _loses_ink(place: Place, warp: Floats, seen: Mask) -> bool:
    """Whether one of two drawings in ink has some beyond what both show."""
    import cv2

    shown = cv2.warpAffine(seen.astype(np.float32), warp, (SIDE, SIDE), flags=cv2.INTER_LINEAR) > 0.5
    content, template = turned(place.viewed.content, place.orientation), place.template
    if ink.is_left_out(template.thumbnail, seen, template.content, is_cut=ink.reaches_frame(place.view)):
        return True
    return ink.is_left_out(place.view, shown, content, is_cut=ink.reaches_frame(template.thumbnail))


def _is_another_closely(place: Place, warp: Floats, seen: Mask, veil: Mask | None) -> bool:
    """Whether two drawings that this map lays on each other differ in what a thumbnail does not show. veil: what a line
    of see-through letters covers."""
    view, template = place.viewed.close, place.template.close
    if view is None or template is None:
        return False
    if veil is not None:
        seen = seen & ~veil.any(axis=1, keepdims=True)
    upright = np.ascontiguousarray(oriented(view.astype(np.float32), place.orientation))
    return closer.differ(upright, template.astype(np.float32), warp, seen)


def _is_plain(place: Place) -> bool:
    return place.viewed.flat + place.template.flat >= 2 * _PLAIN_FLAT


def _is_recoloured(place: Place, warp: Floats, view: Floats, seen: Mask) -> bool:
    """Whether the two have colours that no edit gives a copy. view: its thumbnail, aligned. seen: what is compared."""
    import cv2

    if place.are_ink and ink.are_of_two_colours(place.viewed.ink, place.template.ink):
        return True
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    upright = np.ascontiguousarray(oriented(place.viewed.chroma, place.orientation))
    chroma = [cv2.warpAffine(one, warp, (SIDE, SIDE), flags=flags, borderMode=cv2.BORDER_REPLICATE) for one in upright]
    tones = view, place.template.thumbnail
    planes = np.stack(chroma), place.template.chroma
    if colours.differ(*planes, tones, seen, on_ground=_is_plain(place), is_toned=place.are_edited):
        return not place.are_edited or not repainting.are_levelled(*planes, tones, seen, side_px=place.side_px)
    return place.are_drawings and repainting.differ(
        *planes, tones, seen, side_px=place.side_px, fills_frame=not place.is_drawn
    )


def _lies_as_said(warp: Floats, place: Place) -> bool:
    """Whether the alignment is the one that the boxes say. A drawing on a flat ground can be bent to fit another one of
    its kind: two handwritten digits, two letters; and a small one can be cut to fit as well."""
    said, is_small = said_of(place), place.side_px < MARKABLE_PX
    off, most_bent = np.abs(warp - said), _DRAWN_BEND / 2 if is_small else _DRAWN_BEND
    is_near = bool(off[:, :2].max() <= most_bent and off[:, 2].max() <= _DRAWN_SHIFT_PX)
    return is_near and not (is_small and np.abs(said[:, :2] - np.eye(2)).max() > _DRAWN_BEND)
