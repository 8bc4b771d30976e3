"""Near duplicates of videos: pHashes of frames on a fixed time grid, aligned, and confirmed by what moves.

Enters: a film, whole or as spans, which one decode serves. Leaves: fingerprints "frame-phash" (one per sampled frame,
with its time) and "frame-luma" (8x8 luma of the same frames)
and pairs. Keyframes would not do: their positions move when a clip is encoded again. Frames alone would not do either:
two clips of one signer before one wall have frames within 8 bits of each other, but other movements. Mirrored and
cropped (over 4 %) copies are not found.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mmlake.decoders import frames, open_media, picture_stream
from mmlake.dedup import perceptual
from mmlake.dedup.joins import hamming_pairs
from mmlake.dedup.settings import DedupSettings
from mmlake.errors import UnreadableItem
from mmlake.progress import Advance, silent
from mmlake.spans import Span

if TYPE_CHECKING:
    from av import VideoFrame

METHOD = "frame-phash"
_MAX_FRAMES = 40_000  # of a unit's grid: 83 minutes at an eighth of a second; what follows is not compared
_CLOCK_S = 1e-4  # a border of a span is the time of a frame, rounded to microseconds
_NUM_BEHIND = 8  # frames in a row behind a span's end that end it: one wild time stamp must not
_SEEK_FROM_S, _SEEK_MARGIN_S = 60.0, 5.0  # what lies earlier costs less to decode than an index that is wrong
_STILL = 1.0  # luma levels: below it nothing moves that could distinguish two clips
_STILL_BITS = 4  # per frame then, instead of video_frame_bits
_BLANK_STD = 3.0  # luma levels; a black frame matches every black frame and says nothing
_MIN_MOVING_FRAMES = 6  # fewer samples correlate by chance
_CANDIDATE_BITS = 6


def fingerprint(path: Path, *, settings: DedupSettings) -> dict[str, np.ndarray]:
    """Method -> hashes; "times_s" holds the sampling times. Raises UnreadableItem where no frame decodes."""
    return _hashed(sampled_planes(path, step_s=settings.video_step_s)[0], settings=settings)


def span_fingerprints(path: Path, spans: Sequence[Span], *, settings: DedupSettings) -> Iterable[dict[str, np.ndarray]]:
    """The fingerprint of each span of the film, in order, as that of a film of its own; it is decoded once, from the
    first span to the last. Raises UnreadableItem at the turn of a span of which no frame decodes, and goes on."""
    return map(partial(_hashed, settings=settings), span_planes(path, spans, step_s=settings.video_step_s))


def _hashed(planes: np.ndarray, *, settings: DedupSettings) -> dict[str, np.ndarray]:
    if not len(planes):
        raise UnreadableItem(3001, "num_decoded_frames=0 not in [1, inf)")
    hashes, _ = perceptual.dct_hashes(planes)
    luma = perceptual.pack_bytes(perceptual.block_luma(planes))
    return {METHOD: hashes, "frame-luma": luma, "times_s": _times_s(len(planes), settings.video_step_s)}


def _times_s(num: int, step_s: float) -> np.ndarray:
    return (np.arange(num) * step_s).astype(np.float32)


def sampled_planes(path: Path, *, step_s: float) -> tuple[np.ndarray, np.ndarray]:
    """(32x32 luma planes, seconds from the first frame): the first frame shown at or after each point of the grid; a
    gap repeats the last."""
    grid = _Grid(step_s)
    with open_media(path) as container:
        for frame in frames(container, picture_stream(container)):
            if frame.time is not None:
                grid.add(frame)
    planes = grid.planes()
    if not len(planes):
        raise UnreadableItem(3001, "num_decoded_frames=0 not in [1, inf)")
    return planes, _times_s(len(planes), step_s)


def span_planes(path: Path, spans: Sequence[Span], *, step_s: float) -> Iterator[np.ndarray]:
    """The planes of each span, in order, on a grid that begins with its own first frame; none where no frame of it
    decodes."""
    starts, at, num_behind = [start - _CLOCK_S for start, _ in spans], 0, 0
    grids: dict[int, _Grid] = {}
    for time_s, frame in _frames_from(path, spans[0][0]):
        place = bisect_right(starts, time_s) - 1
        is_inside = place >= 0 and time_s < spans[place][1] - _CLOCK_S
        if is_inside and place >= at:
            grids.setdefault(place, _Grid(step_s)).add(frame)
        num_behind = num_behind + 1 if time_s >= spans[at][1] - _CLOCK_S else 0
        if num_behind < _NUM_BEHIND:
            continue
        num_behind = 0
        for done in range(at, place if is_inside else place + 1):
            yield grids.pop(done, _Grid(step_s)).planes()
            at = done + 1
        if at == len(spans):
            return
    for done in range(at, len(spans)):
        yield grids.pop(done, _Grid(step_s)).planes()


def _frames_from(path: Path, start_s: float) -> Iterator[tuple[float, VideoFrame]]:
    """(seconds on the film's clock, frame) of every frame with a time, from that moment on or from before it."""
    import av
    import av.error

    with open_media(path) as container:
        stream = picture_stream(container)
        origin_s = (container.start_time or 0) / av.time_base
        is_sought = start_s >= _SEEK_FROM_S
        if is_sought:
            try:
                container.seek(int((origin_s + start_s - _SEEK_MARGIN_S) * av.time_base))
            except av.error.FFmpegError:
                is_sought = False  # a format without an index is decoded from its beginning
        for frame in frames(container, stream):
            if frame.time is None:
                continue
            time_s = frame.time - origin_s
            if is_sought and time_s > start_s:
                break  # the index is wrong
            is_sought = False
            yield time_s, frame
    if is_sought:
        yield from _frames_from(path, 0.0)


class _Grid:
    """The planes of the frames that a time grid asks for; it begins with the first frame that comes."""

    def __init__(self, step_s: float) -> None:
        self._step_s, self._start_s = step_s, 0.0
        self._planes: list[np.ndarray] = []

    def add(self, frame: VideoFrame) -> None:
        """Take the next frame; it has a time."""
        assert frame.time is not None
        if not self._planes:
            self._start_s = frame.time
        due = int((frame.time - self._start_s) / self._step_s + 1e-6) + 1 - len(self._planes)
        if due > 0 and len(self._planes) < _MAX_FRAMES:
            plane = frame.reformat(perceptual.SIDE, perceptual.SIDE, "gray", interpolation="AREA").to_ndarray()
            # no more than fit: one broken time stamp may claim years
            gap = [self._planes[-1]] * min(due - 1, _MAX_FRAMES) if self._planes else []
            self._planes += [*gap, plane][: _MAX_FRAMES - len(self._planes)]

    def planes(self) -> np.ndarray:
        """uint8 of shape (num_frames, 32, 32)."""
        return np.stack(self._planes) if self._planes else np.empty((0, perceptual.SIDE, perceptual.SIDE), np.uint8)


def pairs(
    prints: list[dict[str, np.ndarray]], *, settings: DedupSettings, advance: Advance = silent
) -> list[tuple[int, int, str, float]]:
    """(i, j, method, score) of the videos that align; score is the smaller of the matching share and the correlation
    of movement."""
    luma = [
        perceptual.unpack_bytes(one["frame-luma"]).reshape(-1, 64)
        if len(one.get(METHOD, ()))
        else np.empty((0, 64), np.uint8)
        for one in prints
    ]
    found = []
    for i, j in _candidates(prints, luma):
        score = similarity((prints[i][METHOD], luma[i]), (prints[j][METHOD], luma[j]), settings=settings)
        if score >= settings.video_match:
            found.append((i, j, METHOD, score))
    advance(len(prints))
    return found


def _candidates(prints: list[dict[str, np.ndarray]], luma: list[np.ndarray]) -> list[tuple[int, int]]:
    """Videos that have one frame with structure nearly in common. Each video gives a distinct frame once, however long
    it stands still."""
    owners, frames = [], []
    for at, one in enumerate(prints):
        structured = (
            np.unique(one[METHOD][luma[at].std(axis=1) >= _BLANK_STD]) if len(luma[at]) else np.empty(0, np.uint64)
        )
        owners.append(np.full(len(structured), at, np.int64))
        frames.append(structured)
    if not frames or not (owner := np.concatenate(owners)).size:
        return []
    i, j, _ = hamming_pairs(np.concatenate(frames), radius=_CANDIDATE_BITS)
    low, high = np.minimum(owner[i], owner[j]), np.maximum(owner[i], owner[j])
    codes = np.unique((low * len(prints) + high)[low != high])
    return [(int(code) // len(prints), int(code) % len(prints)) for code in codes]


def similarity(
    left: tuple[np.ndarray, np.ndarray], right: tuple[np.ndarray, np.ndarray], *, settings: DedupSettings
) -> float:
    """0..1 at the best shift between two (hashes, luma) sequences; 0.0 where no shift covers enough of both."""
    (hashes_a, luma_a), (hashes_b, luma_b) = left, right
    shorter, longer = sorted((len(hashes_a), len(hashes_b)))
    if not shorter or shorter < settings.min_length_fraction * longer:
        return 0.0
    most, best = round(settings.video_offset_s / settings.video_step_s), 0.0
    for shift in sorted(range(-most, most + 1), key=abs):
        a, b = max(0, shift), max(0, -shift)
        num = min(len(hashes_a) - a, len(hashes_b) - b)
        if num < settings.min_coverage_fraction * shorter:
            continue
        bits = np.bitwise_count(hashes_a[a : a + num] ^ hashes_b[b : b + num])
        if (bits <= settings.video_frame_bits).mean() > best:
            best = max(best, _aligned(bits, luma_a[a : a + num], luma_b[b : b + num], settings=settings))
    return round(best, 6)


def _aligned(bits: np.ndarray, luma_a: np.ndarray, luma_b: np.ndarray, *, settings: DedupSettings) -> float:
    structured = (luma_a.std(axis=1) >= _BLANK_STD) | (luma_b.std(axis=1) >= _BLANK_STD)
    if not structured.any():
        return 0.0
    stage = perceptual.correlations(luma_a[structured].mean(axis=0), luma_b[structured].mean(axis=0))
    if float(stage) < settings.image_luma_correlation:  # the same movement before another background
        return 0.0
    moving_a, moving_b = _movement(luma_a[structured]), _movement(luma_b[structured])
    strength = max(float(np.sqrt((moving**2).mean())) for moving in (moving_a, moving_b))
    if strength < _STILL or structured.sum() < _MIN_MOVING_FRAMES:
        return float((bits[structured] <= _STILL_BITS).mean())
    matching = float((bits[structured] <= settings.video_frame_bits).mean())
    return max(0.0, min(matching, float(perceptual.correlations(moving_a.ravel(), moving_b.ravel()))))


def _movement(luma: np.ndarray) -> np.ndarray:
    """What differs from the clip's mean frame, brightness changes of the whole frame taken out."""
    values = luma.astype(np.float64)
    values -= values.mean(axis=1, keepdims=True)
    movement: np.ndarray = values - values.mean(axis=0)
    return movement
