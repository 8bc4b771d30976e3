"""One picture, made ready to be compared with others.

Legend: S side of a thumbnail, G side of a grid, R regions, W windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.image import colours, cutouts, ink, tones
from mmlake.dedup.image.fingerprints import SIDE
from mmlake.dedup.image.marks import Mask
from mmlake.dedup.image.tints import NEIGHBOURHOOD_PX, flat_fraction
from mmlake.dedup.image.windows import WINDOWS, Floats, box_grid, units, window_grids
from mmlake.media.picture_borders import WHOLE, Box


@dataclass(frozen=True)
class View:
    """One picture, made ready for comparisons."""

    thumbnail: Floats  # S x S
    content: Box  # inside borders of one level
    bars: Box  # inside caption bars
    side_px: int
    tints: NDArray[np.uint8] | None = None  # chroma, but of JPEGs that are no drawings
    is_sign: bool = False
    is_ink: bool = False  # a sign of a few strokes of one tone, as letters are
    is_drawing: bool = False  # few tones, or much of a ground
    close: NDArray[np.uint8] | None = None  # of drawings: what a thumbnail is too small for (`closer`)

    @cached_property
    def regions(self) -> list[Box]:
        """What another picture may show wholly."""
        return list(dict.fromkeys([WHOLE, self.content, self.bars]))

    @property
    def barred_region(self) -> slice:
        """Where the regions have what lies inside caption bars; nowhere where there are none."""
        at = self.regions.index(self.bars)
        return slice(at, at + 1) if self.bars not in (WHOLE, self.content) else slice(0, 0)

    @property
    def barred_box(self) -> slice:
        """The same of the boxes."""
        at = self.barred_region
        return slice(at.start + len(WINDOWS) - 1, at.stop + len(WINDOWS) - 1) if at.stop else at

    @cached_property
    def boxes(self) -> list[Box]:
        """What a copy of it may show."""
        return [*WINDOWS, *self.regions[1:]]

    @cached_property
    def region_units(self) -> Floats:
        """Grids of the regions in all 8 orientations, of mean 0 and length 1: (8, R, G * G)."""
        grids = np.stack([box_grid(self.thumbnail, box) for box in self.regions])
        return np.stack([units(oriented(grids, orientation)) for orientation in range(8)])

    @cached_property
    def box_units(self) -> Floats:
        """Grids of the boxes, of mean 0 and length 1: (W, G * G)."""
        inner = [box_grid(self.thumbnail, box)[None] for box in self.regions[1:]]
        return units(np.concatenate((window_grids(self.thumbnail), *inner)))

    @cached_property
    def unlit(self) -> Floats:
        """Its grid without what a smooth light adds, of length 1: (G * G,)."""
        return tones.unlit(box_grid(self.thumbnail, WHOLE))

    @cached_property
    def detail(self) -> float:
        """Grey levels by which it varies around the means of its neighbourhoods."""
        import cv2

        around = cv2.blur(self.thumbnail, (NEIGHBOURHOOD_PX, NEIGHBOURHOOD_PX))
        return float((self.thumbnail - around).std())

    @cached_property
    def flat(self) -> float:
        """The share of its neighbourhoods that show nothing, 0..1."""
        return flat_fraction(self.thumbnail)

    @cached_property
    def inside(self) -> Mask | None:
        """What lies within a thing on a plain ground."""
        return cutouts.inside_of(self.thumbnail)

    @cached_property
    def chroma(self) -> Floats:
        """Its tints on the pixels of the thumbnail."""
        assert self.tints is not None
        return colours.planes(self.tints, SIDE)

    @cached_property
    def ink(self) -> tuple[complex, float]:
        """Chroma and grey level of its strokes."""
        return ink.colour_of(self.thumbnail, self.chroma)

    @cached_property
    def identity(self) -> bytes:
        """What puts any two pictures in one order."""
        tints = self.tints.tobytes() if self.tints is not None else b""
        close = self.close.tobytes() if self.close is not None else b""
        return self.thumbnail.tobytes() + tints + close + repr((self.content, self.bars, self.side_px)).encode()


def oriented(planes: Floats, orientation: int) -> Floats:
    """Planes of shape (..., side, side), turned by quarters, then mirrored from 4 on."""
    turned = np.rot90(planes, orientation % 4, (-2, -1))
    return turned[..., ::-1] if orientation >= 4 else turned
