"""Ink on a ground of one level, as letters, signs, arrows and icons are: each stroke says what it is.

Enters: two thumbnails, laid on each other. Leaves: whether one has ink that the other one lacks. An accent resembles
a mark that somebody added, and a letter without it a crop; of a photograph both would be copies.
Legend: S side of a thumbnail.
"""

from __future__ import annotations

import numpy as np

from mmlake.dedup.image.marks import Mask
from mmlake.dedup.image.windows import Floats
from mmlake.media.picture_borders import WHOLE, Box

_TONES = 5  # grey levels that are one ground
_INK_LEVELS = 40.0  # off the ground: less may be the ringing of a codec
_FRAME_PX = 2  # of the thumbnail, at its sides
_NEAR_PX = 3  # of the thumbnail, next to what is compared: a stroke may reach so far beyond it
_OF_ITS_OWN = 1.15  # times as far from the ground as the strong ink elsewhere: a mark of another tone
_ABOVE = 0.5  # share of the columns of an accent that have other ink
_STRONG = 95  # per cent of the ink are paler
# levels of chroma: ink of more is coloured, of less grey; the cosine of one hue, what two differ by in colour, and what
# a coloured one and its grey copy differ by in tone (as in `colours`, where the ground counts too)
_COLOURED, _GREY, _ONE_HUE, _OTHER_COLOUR, _OTHER_TONE = 20.0, 8.0, 0.9, 28.0, 16.0
_BORDER_LEVELS = 24.0  # that a border of one level varies by


def ground_of(thumbnail_SS: Floats) -> int:
    """The most frequent grey level."""
    counts = np.bincount(thumbnail_SS.clip(0, 255).astype(np.int64).ravel(), minlength=256)
    return int(np.convolve(counts, np.ones(_TONES), "same").argmax())


def reaches_frame(thumbnail_SS: Floats) -> bool:
    """Whether there is ink at the sides of a picture, as a crop leaves it that cuts strokes."""
    inner = np.zeros(thumbnail_SS.shape, np.bool_)
    inner[_FRAME_PX:-_FRAME_PX, _FRAME_PX:-_FRAME_PX] = True
    return bool((np.abs(thumbnail_SS - ground_of(thumbnail_SS)) > _INK_LEVELS)[~inner].any())


def is_left_out(thumbnail_SS: Floats, seen: Mask, content: Box, *, is_cut: bool) -> bool:
    """Whether there is ink beyond what is compared. content: inside borders; a border of one level is none of the
    drawing. is_cut: whether the other one may be a crop: then what is left of a stroke that it shows may be missing."""
    import cv2

    rest = cv2.dilate(seen.astype(np.uint8), np.ones((2 * _NEAR_PX + 1,) * 2, np.uint8)) == 0
    if not rest.any():
        return False
    if content != WHOLE and float(np.ptp(thumbnail_SS[rest])) <= _BORDER_LEVELS:
        return False
    strokes = np.abs(thumbnail_SS - ground_of(thumbnail_SS)) > _INK_LEVELS
    if not is_cut:
        return bool(strokes[rest].any())
    labels = cv2.connectedComponents(strokes.astype(np.uint8), connectivity=8)[1]
    lost = np.setdiff1d(labels[rest], labels[seen])  # a crop cuts strokes, it does not leave out whole ones
    return bool(lost.any())


def is_of_it(marked: Mask, view_SS: Floats, template_SS: Floats, seen: Mask) -> bool:
    """Whether what one of two aligned thumbnails has more in these places is as the ink is that both have, and above or
    below it, so that it is a part of the drawing and no mark that was put into a corner of it."""
    below = np.abs(template_SS - ground_of(template_SS)) > _INK_LEVELS
    if (below & seen & ~marked).any(axis=0)[marked.any(axis=0)].mean() < _ABOVE:
        return False
    strongest = []
    for thumbnail in (view_SS, template_SS):
        off = (thumbnail - ground_of(template_SS)) * _sign(template_SS)
        ink = off[seen & ~marked]
        ink = ink[ink > _INK_LEVELS]
        if not len(ink):
            return False
        strongest.append((float(np.percentile(ink, _STRONG)), off[marked]))
    (own, here), (its, there) = strongest
    added = np.where(np.abs(here) > np.abs(there), here / own, there / its)
    return bool(added.max() <= _OF_ITS_OWN and added.min() >= -(_OF_ITS_OWN - 1))


def _sign(thumbnail_SS: Floats) -> int:
    """1 where ink is lighter than the ground, -1 where it is darker."""
    return 1 if float(thumbnail_SS.mean()) > ground_of(thumbnail_SS) else -1


def are_of_two_colours(one: tuple[complex, float], other: tuple[complex, float]) -> bool:
    """Whether no edit makes the ink of one of the other: two hues, or one and grey of another tone. one, other: what
    `colour_of` says of them."""
    (pale, its_tone), (strong, tone) = sorted((one, other), key=lambda side: abs(side[0]))
    if abs(strong) <= _COLOURED:
        return False
    if abs(pale) <= _GREY:
        return abs(tone - its_tone) >= _OTHER_TONE
    cosine = (pale * strong.conjugate()).real / (abs(pale) * abs(strong))
    return cosine < _ONE_HUE and abs(strong - pale) >= _OTHER_COLOUR


def colour_of(thumbnail_SS: Floats, chroma_2SS: Floats) -> tuple[complex, float]:
    """(chroma of the ink beyond that of the ground, as one number; its grey level). Both are sums over the strokes, as
    tints are coarser than thin ones."""
    ground = ground_of(thumbnail_SS)
    off = np.abs(thumbnail_SS - ground)
    tone = float(np.percentile(off[off > _INK_LEVELS], _STRONG)) if (off > _INK_LEVELS).any() else 255.0
    plane = chroma_2SS[0] + 1j * chroma_2SS[1]
    beyond = plane - np.median(chroma_2SS[0]) - 1j * np.median(chroma_2SS[1])
    found = complex(beyond.sum() / max(float(np.minimum(off / tone, 1).sum()), 1.0))
    return found, ground + _sign(thumbnail_SS) * tone
