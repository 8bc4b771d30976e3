"""Generated clips as luma planes, and edits of them, for the tests of video duplicates: nothing is encoded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mmlake.dedup import DedupSettings
from mmlake.dedup.image.perceptual import pack_bytes
from mmlake.dedup.prints import Ragged
from mmlake.dedup.video import hashes, matcher

SIDE, RATE_HZ = 240, 40  # of the film before it is sampled; 8 frames a second are
SETTINGS = DedupSettings()


def scene(seed: int, length_s: float, *, side: int = SIDE) -> np.ndarray:
    """Two bright things that wander over a ground with structure, uint8 of shape (frames, side, side)."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:side, 0:side] / side
    ground = 90 + sum(
        rng.uniform(8, 25) * np.sin(2 * np.pi * (rng.normal(0, 2) * y + rng.normal(0, 2) * x) + rng.uniform(0, 6))
        for _ in range(8)
    )
    num = round(length_s * RATE_HZ)
    frames = np.repeat(ground.clip(0, 255).astype(np.uint8)[None], num, axis=0)
    corners, size = rng.uniform(0.1, 0.7, (2, 2, 2 + round(length_s))), side // 6
    for at in range(num):
        place = at / num * (corners.shape[2] - 1)
        for thing, level in enumerate((235, 20)):
            top, left = (int(side * np.interp(place, range(corners.shape[2]), axis)) for axis in corners[thing])
            frames[at, top : top + size, left : left + size + 10 * thing] = level
    return frames


def cuts(seed: int, length_s: float) -> np.ndarray:
    """Scenes of 2 s each, one after the other."""
    return np.concatenate([scene(1_000 * seed + at, 2.0) for at in range(round(length_s / 2))])


def resized(frames: np.ndarray, height: int, width: int) -> np.ndarray:
    """Every frame at another size."""
    import cv2

    return np.stack([cv2.resize(frame, (width, height), interpolation=cv2.INTER_AREA) for frame in frames])


def at_speed(frames: np.ndarray, speed: float) -> np.ndarray:
    """The film played faster or slower, at the same rate."""
    return frames[(np.arange(int(len(frames) / speed)) * speed).astype(int)]


def part(frames: np.ndarray, start: float, end: float) -> np.ndarray:
    """From one fraction of its length to another."""
    return frames[round(start * len(frames)) : round(end * len(frames))]


def noisy(frames: np.ndarray, *, seed: int = 0, std: float = 6.0) -> np.ndarray:
    """With the noise of a coarse codec: none of it is in the average of a cell."""
    rng = np.random.default_rng(seed)
    return (frames + rng.normal(0, std, frames.shape[1:])).clip(0, 255).astype(np.uint8)


def _padded(frames: np.ndarray, y: int, x: int, *, level: int = 16) -> np.ndarray:
    return np.pad(frames, ((0, 0), (y, y), (x, x)), constant_values=level)


def _cropped(frames: np.ndarray, top: float, bottom: float, left: float, right: float) -> np.ndarray:
    side = frames.shape[1]
    return frames[:, round(top * side) : round(bottom * side), round(left * side) : round(right * side)]


def _covered(frames: np.ndarray, rows: slice, columns: slice, level: int) -> np.ndarray:
    found = frames.copy()
    found[:, rows, columns] = level
    return found


def _captioned(frames: np.ndarray) -> np.ndarray:
    found = _covered(frames, slice(204, 240), slice(None), 16)
    found[:, 214:226, 40:200] = np.where(np.random.default_rng(5).random((12, 160)) < 0.4, 235, 16)
    return found


def _led(frames: np.ndarray) -> np.ndarray:
    black = np.full((RATE_HZ, *frames.shape[1:]), 16, np.uint8)
    return np.concatenate([black, frames, black])


EDITS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "noise": noisy,
    "half size": lambda frames: resized(frames, 120, 120),
    "letterbox": lambda frames: _padded(frames, 40, 0),
    "pillarbox": lambda frames: _padded(frames, 0, 50),
    "picture in a frame": lambda frames: _padded(frames, 40, 40, level=110),
    "5 % cropped from each side": lambda frames: _cropped(frames, 0.05, 0.95, 0.05, 0.95),
    "10 % cropped from each side": lambda frames: _cropped(frames, 0.1, 0.9, 0.1, 0.9),
    "10 % cropped from two sides": lambda frames: _cropped(frames, 0.0, 0.9, 0.0, 0.9),
    "logo": lambda frames: _covered(frames, slice(12, 40), slice(190, 228), 235),
    "caption bar": _captioned,
    "mirrored": lambda frames: frames[:, :, ::-1],
    "mirrored and letterboxed": lambda frames: _padded(frames[:, :, ::-1], 40, 0),
    "toned": lambda frames: (255 * (frames / 255) ** 0.7 * 0.8 + 20).astype(np.uint8),
    "12 frames a second": lambda frames: frames[::3].repeat(3, axis=0),
    "10 % trimmed": lambda frames: part(frames, 0.1, 1.0),
    "1.25x": lambda frames: at_speed(frames, 1.25),
    "0.8x": lambda frames: at_speed(frames, 0.8),
    "black before and behind": _led,
}


def prints_of(frames: np.ndarray) -> dict[str, np.ndarray]:
    """The fingerprint of a film of these frames, as if it had been decoded."""
    planes = resized(frames[:: RATE_HZ // 8], hashes.SIDE, hashes.SIDE)
    found = hashes.hashed(planes)
    windows = found.hashes_VNW.transpose(0, 2, 1).reshape(-1)
    names = (matcher.METHOD, matcher.WINDOWS_METHOD, matcher.LUMA_METHOD, matcher.KEYS_METHOD)
    values = (windows[: len(planes)], windows[len(planes) :], pack_bytes(found.luma_VN64), found.keys)
    return dict(zip(names, values, strict=True))


def table_of(prints: list[dict[str, np.ndarray]]) -> dict[str, Ragged]:
    """The fingerprints as a join sees them."""
    empty = np.empty(0, np.uint64)
    return {method: Ragged.of([one.get(method, empty) for one in prints]) for method in matcher.METHODS}


def matcher_of(*films: np.ndarray) -> matcher.FilmMatcher:
    """The matcher of these films."""
    return matcher.FilmMatcher(table_of([prints_of(frames) for frames in films]), SETTINGS)
