"""Small planes of decoded video frames, without converting whole pictures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from mmlake.film_decoders import upright
from mmlake.preprocess.visual.plane_kernels import cells, kernels

if TYPE_CHECKING:
    from fractions import Fraction

    from av import VideoFrame
    from av.video.plane import VideoPlane

# H height, W width of a plane; Y luma, U and V chroma
SHOT_LUMA_HW = (27, 48)  # what boundaries are found on: a shake of a few pixels and sensor noise average out
SHOT_CHROMA_HW = (9, 16)
_NUM_CHROMA = SHOT_CHROMA_HW[0] * SHOT_CHROMA_HW[1]
NUM_LUMA = SHOT_LUMA_HW[0] * SHOT_LUMA_HW[1]  # leading entries of a shot vector
_PLANAR = frozenset({"yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "yuvj444p"})
_LUMA_LINES, _CHROMA_LINES = 6, 12  # of a large plane, in a cell of the small one: more are not read
_MAX_ASPECT = 4.0  # of a pixel; that of anamorphic film is 2, and beyond it a header is broken
_FULL_RANGE = 2  # AVCOL_RANGE_JPEG


def small_planes(frame: VideoFrame, side_px: int) -> tuple[np.ndarray, np.ndarray]:
    """(luma, shot vector): full-range luma uint8 with its longer side at most `side_px`, and the vector that shot
    boundaries are found on.

    The vector is uint8: 27 x 48 luma, then 2 x 9 x 16 chroma. Shrinking is by area, so noise averages out.
    """
    if (name := frame.format.name) not in _PLANAR:
        frame = frame.reformat(format=(name := "yuv420p"))
    y, u, v = frame.planes
    height, width, chroma_height, chroma_width = y.height, y.width, u.height, u.width
    scale = min(1.0, side_px / max(height, width))
    luma = np.empty((max(1, round(height * scale)), max(1, round(width * scale))), np.uint8)
    vector = np.empty(NUM_LUMA + 2 * _NUM_CHROMA, np.uint8)
    halved, num = _halved(lines_of(y), width, luma.shape)
    step = max(1, chroma_height // (_CHROMA_LINES * SHOT_CHROMA_HW[0]))
    kernels().small(
        halved, num, *_cells(len(halved), num, luma.shape),
        frame.color_range != _FULL_RANGE and not name.startswith("yuvj"),
        lines_of(u), lines_of(v), chroma_width, step, *_cells(-(-chroma_height // step), chroma_width, SHOT_CHROMA_HW),
        *_cells(*luma.shape, SHOT_LUMA_HW), luma, vector,
    )  # fmt: skip
    return luma, vector


def _cells(height: int, width: int, size_HW: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """How that many lines and columns become fewer."""
    return (*cells(height, size_HW[0]), *cells(width, size_HW[1]))


def _halved(lines_HW: np.ndarray, num: int, size_HW: tuple[int, ...]) -> tuple[np.ndarray, int]:
    """(lines, how many bytes of each are the picture) of a plane that is halved by area as long as it stays so large:
    what lies between the points that a linear step takes would leave noise in a still picture."""
    import cv2

    # of a plane that is much larger not all lines are read: what a cell averages is enough
    lines_HW = lines_HW[:: max(1, len(lines_HW) // (_LUMA_LINES * size_HW[0]))]
    while len(lines_HW) >= 2 * size_HW[0] and num >= 2 * size_HW[1]:
        half_H, num = len(lines_HW) // 2, num // 2
        lines_HW = cv2.resize(lines_HW[: 2 * half_H, : 2 * num], (num, half_H), interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(lines_HW), num


def lines_of(plane: VideoPlane) -> np.ndarray:
    """A view of one plane with the bytes behind each of its lines; valid while the frame lives."""
    lines: np.ndarray = np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)
    return lines[: plane.height]


def signal(luma_HW: np.ndarray, vector: np.ndarray, before: np.ndarray | None, *, time_s: float) -> dict[str, float]:
    """One row of the `signals` column. vector and before: shot vectors of this frame and of the one analysed before it.

    The change is taken on the coarse luma: each of its cells averages the sensor's noise away, so that what is left is
    motion.
    """
    import cv2

    mean, deviation = cv2.meanStdDev(luma_HW)
    change = 0.0 if before is None else cv2.norm(vector[:NUM_LUMA], before[:NUM_LUMA], cv2.NORM_L1) / NUM_LUMA
    _, edges = cv2.meanStdDev(cv2.Laplacian(luma_HW, cv2.CV_16S))
    return {
        "time_s": time_s,
        "luma": float(mean[0, 0]),
        "luma_std": float(deviation[0, 0]),
        "sharpness": float(edges[0, 0]) ** 2,
        "change": change,
    }


def pixel_aspect(ratio: Fraction | None) -> float:
    """Width of a pixel over its height; 1 where the film does not say, or says what no film has."""
    aspect = float(ratio) if ratio else 1.0
    return aspect if 1 / _MAX_ASPECT <= aspect <= _MAX_ASPECT else 1.0


def displayed_size(width_px: int, height_px: int, aspect: float) -> tuple[int, int]:
    """(width, height) in square pixels, of which there are no fewer rows."""
    return max(1, round(width_px * aspect)), height_px


def oriented_size(width_px: int, height_px: int, rotation: int) -> tuple[int, int]:
    """(width, height) after a rotation in degrees."""
    return (height_px, width_px) if rotation % 180 else (width_px, height_px)


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldFrame:
    """A frame that may be encoded later: upright and in square pixels as a JPEG with its longer side at most
    `side_px`."""

    frame: VideoFrame
    side_px: int
    aspect: float  # width of a pixel over its height
    rotation: int  # degrees counter-clockwise, as the film says
    is_mirrored: bool  # whether it is turned over before, as the film says
    quality: int

    @property
    def num_bytes(self) -> int:
        """What its planes take."""
        return sum(plane.buffer_size for plane in self.frame.planes)

    def shrunk(self) -> HeldFrame:
        """The same at the size of its JPEG. Colours stay as they are in the film: to convert them takes longer."""
        width_px, height_px = self._size()
        if self.frame.format.name not in _PLANAR or width_px * height_px >= self.frame.width * self.frame.height:
            return self
        # chroma at the size of luma: halved once more, edges would lose theirs
        name = "yuvj444p" if self.frame.format.name.startswith("yuvj") else "yuv444p"
        small = self.frame.reformat(width=width_px, height=height_px, format=name, interpolation="AREA")
        return replace(self, frame=small, aspect=1.0)

    def jpeg(self) -> bytes:
        """The JPEG."""
        import simplejpeg

        width_px, height_px = self._size()
        small = self.frame.reformat(width=width_px, height=height_px, format="rgb24", interpolation="AREA")
        pixels_HWC: np.ndarray = small.to_ndarray()
        pixels_HWC = np.ascontiguousarray(upright(pixels_HWC, self.rotation, self.is_mirrored))
        data: bytes = simplejpeg.encode_jpeg(pixels_HWC, quality=self.quality, colorspace="RGB")
        return data

    def _size(self) -> tuple[int, int]:
        width_px, height_px = displayed_size(self.frame.width, self.frame.height, self.aspect)
        scale = min(1.0, self.side_px / max(width_px, height_px))
        return max(1, round(width_px * scale)), max(1, round(height_px * scale))
