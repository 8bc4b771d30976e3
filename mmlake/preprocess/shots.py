"""Shot boundaries: cuts, fades and dissolves from small frames, as they stream by.

Method: twin comparison (Zhang, Kankanhalli, Smoliar 1993) with three tests that its thresholds lack: a cut must stand
out of the changes around it, both sides must stay unlike after the best shift and beyond the length of a flash, and a
dissolve must be a straight blend of its two ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mmlake.preprocess.planes import NUM_LUMA, SHOT_CHROMA_HW, SHOT_LUMA_HW
from mmlake.preprocess.settings import PreprocessSettings

# T frames, H W height and width of the small luma, C both chroma planes in a row
_SHAPE = (SHOT_LUMA_HW[0], SHOT_LUMA_HW[1])
_SHIFT_HW = (4, 6)  # largest shift that counts as the same picture: an eighth of the frame
_NEIGHBOURS = 12  # frames on each side that a cut must stand out of
_BLEND_RATE_HZ = 10.0  # at which dissolves are searched for
# |end - start| over the sum of steps: 1 for a blend of still pictures, less the more they move; the residual then
# distinguishes a blend from motion
_MIN_STRAIGHTNESS = 0.45
_MAX_RESIDUAL = 0.2  # of the energy between both ends that a blend may leave unexplained
_MAX_UNEVENNESS = 0.15  # spread over the picture of how far the blend has gone
_PARTS = 3  # the picture is compared in 3 x 3 parts; divides 27 and 48
_MIN_BLEND_CHANGE = 12.0  # grey levels between both ends
_MAX_BLEND_SIMILARITY = 0.75
_MIN_BLEND_AREA_FRACTION = 0.5  # of the frame that must change: an object that leaves is no dissolve
_BLEND_AREA_CHANGE = 6.0  # grey levels
_MARGIN_S = 4.0  # context kept on both sides of what is decided: a dissolve and its surroundings
_WINDOW_S = 30.0
_MIN_SPACING_FRAMES = 3  # a cut with a blended frame in between is one cut


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where one shot gives way to the next."""

    time_s: float  # of the first frame of the new shot; for gradual ones the middle
    settled_s: float  # from when on only the new shot is seen
    transition: str  # cut, fade or dissolve


class ShotFinder:
    """Finds boundaries in frames that are pushed in order; holds about 40 s of small frames."""

    def __init__(self, settings: PreprocessSettings) -> None:
        self._settings = settings
        self._times: list[float] = []
        self._vectors: list[np.ndarray] = []
        self._decided_s = -np.inf
        self._found: list[Boundary] = []

    def push(self, time_s: float, vector: np.ndarray) -> None:
        """Take the next frame: its time and its shot vector."""
        if self._times and time_s <= self._times[-1]:
            return  # a broken clock: the frame says nothing about when
        self._times.append(time_s)
        self._vectors.append(vector)
        if (
            self._times[-1] - max(self._times[0], self._decided_s) > _WINDOW_S + _MARGIN_S
            and len(self._times) > 2 * _NEIGHBOURS
        ):
            self._decide(self._times[-1] - _MARGIN_S)
            keep = int(np.searchsorted(self._times, self._decided_s - _MARGIN_S))
            del self._times[:keep], self._vectors[:keep]

    def finish(self) -> list[Boundary]:
        """All boundaries in order of time."""
        self._decide(np.inf)
        return self._found

    def _decide(self, until_s: float) -> None:
        if len(self._times) >= 2:
            found = boundaries(np.array(self._times), np.stack(self._vectors), settings=self._settings)
            self._found += [boundary for boundary in found if self._decided_s <= boundary.time_s < until_s]
        self._decided_s = until_s


def boundaries(times_T: np.ndarray, vectors_TN: np.ndarray, *, settings: PreprocessSettings) -> list[Boundary]:
    """The boundaries within these frames, in order of time."""
    luma_THW = vectors_TN[:, :NUM_LUMA].reshape(-1, *_SHAPE).astype(np.float32)
    chroma_TC = vectors_TN[:, NUM_LUMA:].astype(np.float32)
    change_T = _changes(luma_THW, chroma_TC)
    contrast_T = luma_THW.std(axis=(1, 2)) + chroma_TC.reshape(-1, 2, SHOT_CHROMA_HW[0] * SHOT_CHROMA_HW[1]).std(
        axis=2
    ).sum(axis=1)
    cuts = list(_cuts(times_T, luma_THW, chroma_TC, change_T, settings))
    fades = list(_fades(times_T, contrast_T, cuts, settings))
    cuts = [index for index in cuts if not any(start <= index <= stop for start, stop, _ in fades)]
    found = [Boundary(float(times_T[index]), float(times_T[index]), "cut") for index in cuts]
    found += [
        Boundary(float(times_T[at]), float(times_T[min(stop + 1, len(times_T) - 1)]), "fade") for _, stop, at in fades
    ]
    borders = sorted([*cuts, *(edge for start, stop, _ in fades for edge in (start, stop))])
    found += _dissolves(times_T, luma_THW, contrast_T, borders, settings)
    return sorted(found, key=lambda boundary: boundary.time_s)


def _changes(luma_THW: np.ndarray, chroma_TC: np.ndarray) -> np.ndarray:
    """Mean absolute change to the frame before, in grey levels; 0 for the first."""
    change_T = np.zeros(len(luma_THW), np.float32)
    change_T[1:] = np.abs(np.diff(luma_THW, axis=0)).mean(axis=(1, 2)) + np.abs(np.diff(chroma_TC, axis=0)).mean(axis=1)
    return change_T


def _cuts(
    times_T: np.ndarray, luma_THW: np.ndarray, chroma_TC: np.ndarray, change_T: np.ndarray, settings: PreprocessSettings
) -> Iterator[int]:
    """Indices of the first frames after hard cuts."""
    last = -_MIN_SPACING_FRAMES
    for index in np.flatnonzero(change_T > settings.cut_min_change):
        nearby = np.concatenate(
            [change_T[max(1, index - _NEIGHBOURS) : index], change_T[index + 1 : index + 1 + _NEIGHBOURS]]
        )
        moving = nearby[nearby > 0.05]  # repeated frames say nothing about how fast the picture moves
        usual = float(np.percentile(moving, 75)) if len(moving) >= 3 else 0.0
        near = change_T[max(0, index - _MIN_SPACING_FRAMES + 1) : index + _MIN_SPACING_FRAMES]
        if (
            change_T[index] <= settings.cut_change_ratio * usual
            or change_T[index] < near.max()
            or index - last < _MIN_SPACING_FRAMES
        ):
            continue
        if not _comes_back(times_T, luma_THW, chroma_TC, int(index), settings):
            last = int(index)
            yield last


def _comes_back(
    times_T: np.ndarray, luma_THW: np.ndarray, chroma_TC: np.ndarray, index: int, settings: PreprocessSettings
) -> bool:
    """Whether any picture shortly before resembles one shortly after: a flash, a shake or a change of light."""
    first = int(np.searchsorted(times_T, times_T[index] - settings.flash_s))
    last = int(np.searchsorted(times_T, times_T[index] + settings.flash_s, side="right"))
    befores = sorted({max(0, min(first, index - 1)), max(0, index - 2), index - 1})
    afters = sorted(
        {index, min(index + 1, len(times_T) - 1), min(max(last - 1, index), len(times_T) - 1)}
        | set(range(index, last, 2))
    )
    for before in befores:
        for after in afters:
            tint = np.abs(
                chroma_TC[before].reshape(2, -1).mean(axis=1) - chroma_TC[after].reshape(2, -1).mean(axis=1)
            ).max()
            if tint < 12 and similarity(luma_THW[before], luma_THW[after]) > settings.cut_max_similarity:
                return True
    return False


def similarity(left_HW: np.ndarray, right_HW: np.ndarray) -> float:
    """Correlation -1..1 of two small frames after the best shift of at most an eighth of the frame; 1 for two empty
    frames of one brightness."""
    import cv2

    if left_HW.std() < 2 or right_HW.std() < 2:
        both_empty = left_HW.std() < 2 and right_HW.std() < 2
        return 1.0 if both_empty and abs(float(left_HW.mean() - right_HW.mean())) < 6 else 0.0
    rows, columns = _SHIFT_HW
    inner = np.ascontiguousarray(right_HW[rows:-rows, columns:-columns])
    if inner.std() < 2:
        return 0.0
    return float(cv2.matchTemplate(left_HW, inner, cv2.TM_CCOEFF_NORMED).max())


def _fades(
    times_T: np.ndarray, contrast_T: np.ndarray, cuts: list[int], settings: PreprocessSettings
) -> Iterator[tuple[int, int, int]]:
    """(first empty frame, last empty frame, boundary) of every run of empty frames between two pictures that is
    entered or left gradually."""
    empty_T = np.concatenate([[False], contrast_T < settings.fade_max_contrast, [False]])
    edges = np.flatnonzero(np.diff(empty_T.astype(np.int8)))
    for start, stop in zip(edges[::2].tolist(), (edges[1::2] - 1).tolist(), strict=True):
        if start == 0 or stop == len(contrast_T) - 1:
            continue  # the item begins or ends dark: no second shot
        hard_in = any(abs(cut - start) <= 1 for cut in cuts)
        hard_out = any(abs(cut - stop - 1) <= 1 for cut in cuts)
        if hard_in and hard_out:
            continue
        at = stop + 1 if hard_out else start if hard_in else (start + stop) // 2
        yield start - 1, stop + 1, at


def _dissolves(
    times_T: np.ndarray, luma_THW: np.ndarray, contrast_T: np.ndarray, borders: list[int], settings: PreprocessSettings
) -> list[Boundary]:
    """Stretches in which one picture turns into another along a straight line."""
    span_s = times_T[-1] - times_T[0]
    step = max(1, round((len(times_T) - 1) / span_s / _BLEND_RATE_HZ))
    if (len(times_T) - 1) / span_s < _BLEND_RATE_HZ / 2:
        return []  # too few frames per second to see a blend
    picks_S = np.arange(0, len(times_T), step)
    frames_SN = luma_THW[picks_S].reshape(len(picks_S), -1)
    path_S = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(frames_SN, axis=0)).mean(axis=1))])
    candidates: list[tuple[float, int, int]] = []
    for lag in sorted(
        {max(3, round(length_s * _BLEND_RATE_HZ)) for length_s in (0.3, 0.5, 0.8, 1.2, 1.8, settings.dissolve_max_s)}
    ):
        if lag >= len(picks_S):
            break
        distance_S = np.abs(frames_SN[lag:] - frames_SN[:-lag]).mean(axis=1)
        walked_S = path_S[lag:] - path_S[:-lag]
        for begin in np.flatnonzero(
            (distance_S > _MIN_BLEND_CHANGE) & (distance_S > _MIN_STRAIGHTNESS * walked_S)
        ).tolist():
            candidates.append((-float(distance_S[begin] * distance_S[begin] / walked_S[begin]), begin, begin + lag))
    found: list[tuple[int, int, Boundary]] = []
    for _, start, stop in sorted(candidates):
        lo, hi = int(picks_S[start]), int(picks_S[stop])
        if any(lo - step <= border <= hi + step for border in borders) or any(
            start <= other_stop and stop >= other_start for other_start, other_stop, _ in found
        ):
            continue
        if min(contrast_T[lo], contrast_T[hi]) < 2 * settings.fade_max_contrast:
            continue  # to or from an empty picture: a fade or a change of light
        if (np.abs(frames_SN[stop] - frames_SN[start]) > _BLEND_AREA_CHANGE).mean() < _MIN_BLEND_AREA_FRACTION:
            continue
        if (blend := _blend(frames_SN[start : stop + 1])) is not None and similarity(
            luma_THW[lo], luma_THW[hi]
        ) < _MAX_BLEND_SIMILARITY:
            middle, settled = (picks_S[start + offset] for offset in blend)
            found.append((start, stop, Boundary(float(times_T[middle]), float(times_T[settled]), "dissolve")))
    return [boundary for _, _, boundary in found]


def _blend(frames_SN: np.ndarray) -> tuple[int, int] | None:
    """(middle, end) of the blend as offsets, where every frame lies near the line from the first to the last and
    moves along it in more than two steps; else None."""
    way_N = frames_SN[-1] - frames_SN[0]
    way_N = way_N - way_N.mean()
    energy = float(way_N @ way_N)
    if energy == 0:
        return None
    offsets_SN = frames_SN - frames_SN[0]
    offsets_SN = offsets_SN - offsets_SN.mean(axis=1, keepdims=True)
    share_S = offsets_SN @ way_N / energy
    rest_S = ((offsets_SN - share_S[:, None] * way_N) ** 2).sum(axis=1) / energy
    steps_S = np.diff(share_S)
    if rest_S.max() > _MAX_RESIDUAL or steps_S.max() > 0.6 or steps_S.min() < -0.1:
        return None
    if _unevenness(frames_SN) > _MAX_UNEVENNESS:
        return None
    return int(np.argmax(share_S >= 0.5)), int(np.argmax(share_S >= 0.95))


def _unevenness(frames_SN: np.ndarray) -> float:
    """How far the parts of the picture differ in how much of the way they have gone, 0..1: a dissolve goes
    everywhere at once, an object that leaves does not."""
    rows, columns = _SHAPE[0] // _PARTS, _SHAPE[1] // _PARTS
    parts_SPK = (
        frames_SN.reshape(-1, _PARTS, rows, _PARTS, columns)
        .transpose(0, 1, 3, 2, 4)
        .reshape(len(frames_SN), _PARTS * _PARTS, rows * columns)
    )
    way_PK = parts_SPK[-1] - parts_SPK[0]
    energy_P = (way_PK**2).sum(axis=1)
    share_SP = ((parts_SPK - parts_SPK[0]) * way_PK).sum(axis=2) / np.maximum(energy_P, 1e-6)
    weight_P = np.sqrt(energy_P) / np.sqrt(energy_P).sum()
    mean_S = share_SP @ weight_P
    return float(np.sqrt(((share_SP - mean_S[:, None]) ** 2) @ weight_P).max())
