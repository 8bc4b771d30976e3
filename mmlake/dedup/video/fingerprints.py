"""Fingerprints of videos: hashes of frames on a fixed time grid.

Enters: a film, whole or as spans, which one decode serves. Leaves: what `video.matcher` joins: "frame-phash", a hash of
the active picture of each sampled frame, with its time; "frame-windows", hashes of its windows, and of the whole frame
where that has bars or a border; "frame-luma", 8x8 luma of the same frames; "frame-keys", the keys of the join;
"frame-blocks", pixels of the first keyframes.
Keyframes would not do: their positions move when a clip is encoded again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.criteria import Criterion, close_within, length_of
from mmlake.dedup.image import perceptual
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.video import hashes
from mmlake.dedup.video.detail import Moments
from mmlake.dedup.video.matcher import (
    BLOCKS_METHOD,
    DETAIL_METHOD,
    KEYS_METHOD,
    LUMA_METHOD,
    METHOD,
    RECODED,
    WINDOWS_METHOD,
)
from mmlake.errors import UnreadableItem
from mmlake.media.decoders import frames, open_media, picture_stream
from mmlake.media.film_frames import GridFrame, KeyframeBlocks, kept_frames, moment_of, plane_of
from mmlake.media.video_quantizer import EXPORT
from mmlake.spans import Span

if TYPE_CHECKING:
    from av import VideoFrame

F = TypeVar("F")
# What makes one copy truer than another, in this order (mmlake/quality/video_fidelity.py). Copies lose tones, frame,
# time and detail each in its own way, so the original is what is usual in all of them and closest to the others: that
# decides before measures of a film alone, which noise, sharpening and richer tones mislead. Two copies have no others.
FIDELITY = (
    Criterion(
        name="enlarged",
        column="resampled_at",
        frame=("resolution", "height"),
        has_say=False,  # the original stays more often (docs/decisions/0067); of pictures, less often
        says="the original of an enlargement",
    ),
    Criterion(name="height", column="height_px", table="tracks", best=""),
    Criterion(
        name="recoded",
        column="",
        best="",
        recoded=RECODED,
        says="what the other one was made of by coding it anew",
    ),
    Criterion(name="resolution", column="width_px", table="tracks", tolerance=0.6, says="no thumbnail"),
    Criterion(name="time", column="num_shown_frames", best="usual", tolerance=0.02, margin=1.5, says="usual length"),
    # both of keyframes, which each file has at moments of its own; contrast is compared at common ones, by closeness
    Criterion(name="light", column="luma_level", best="usual", tolerance=0.0, margin=5.0, says="usual light"),
    Criterion(name="tint", column="chroma_levels", best="usual", tolerance=0.25, margin=1.5, says="usual colours"),
    Criterion(name="colour", column="colourfulness", margin=0.5, tolerance=0.0, says="colour over grey"),
    Criterion(
        name="size", column="width_px", table="tracks", best="usual", tolerance=0.1, share=0.5, says="usual size"
    ),
    # of renditions for many screens none is usual, and the middle one is closest to the rest
    Criterion(
        name="real_size",
        column="detail_px",
        also="resolution",
        tolerance=0.3,
        says="larger, with more real resolution",
    ),
    Criterion(name="bars", column="bars_fraction", best="low", margin=0.03, tolerance=0.0, says="no bars burnt in"),
    close_within(2e-3),
    Criterion(name="real resolution", column="detail_px", tolerance=0.5, says="more real resolution"),
    Criterion(
        name="more", column="detail_px", also="resolution", tolerance=0.12, says="larger, with more real resolution"
    ),
    Criterion(name="quantizer", column="quantizer_step", best="low", tolerance=0.2, says="quantized more finely"),
    Criterion(name="blocks", column="blockiness", best="low", margin=0.8, tolerance=0.0, says="fewer codec blocks"),
    Criterion(name="keyframe size", column="keyframe_bytes", tolerance=0.15, says="keyframes of clearly more bytes"),
    Criterion(name="detail", column="detail_px", tolerance=0.15, says="more detail that is really there"),
    Criterion(name="frames", column="num_shown_frames", tolerance=0.05, says="more frames, longest uncut"),
    Criterion(name="keyframe bytes", column="keyframe_bytes", tolerance=0.05, says="keyframes of more bytes"),
    close_within(0.0),
    length_of("duration_s"),
)
_MAX_FRAMES = 40_000  # of a unit's grid: 83 minutes at an eighth of a second; what follows is not compared
_MOST_KEYFRAMES = 2  # of a unit, of which blocks are in its print: the first ones, which a copy has too
_CLOCK_S = 1e-4  # a border of a span is the time of a frame, rounded to microseconds
_NUM_BEHIND = 8  # frames in a row behind a span's end that end it: one wild time stamp must not
_SEEK_FROM_S, _SEEK_MARGIN_S = 60.0, 5.0  # what lies earlier costs less to decode than an index that is wrong


@dataclass(frozen=True, slots=True)
class KeptFilm:
    """The frames of a film on its own time grid, as they were kept when it was decoded (`mmlake.media.film_frames`)."""

    frames: bytes | Path


def fingerprint(film: Path | KeptFilm, *, settings: DedupSettings) -> dict[str, np.ndarray]:
    """Method -> hashes; "times_s" holds the sampling times. Raises UnreadableItem where no frame decodes."""
    if isinstance(film, Path):
        return _hashed(_sampled(film, step_s=settings.video_step_s), settings=settings)
    grid = _Grid(settings.video_step_s)
    for one in kept_frames(film.frames):
        grid.add_kept(one)
    return _hashed(grid, settings=settings)


def span_fingerprints(
    film: Path | KeptFilm, spans: Sequence[Span], *, settings: DedupSettings
) -> Iterable[dict[str, np.ndarray]]:
    """The fingerprint of each span of the film, in order, as that of a film of its own; it is decoded once, from the
    first span to the last. Raises UnreadableItem at the turn of a span of which no frame decodes, and goes on.

    Of frames that were kept, the grid is that of the film, of which the first in a span is up to a step behind its
    border."""
    if isinstance(film, Path):
        return map(partial(_hashed, settings=settings), _span_grids(film, spans, step_s=settings.video_step_s))
    times = ((one.time_s, one) for one in kept_frames(film.frames))
    grids = _shared_out(times, spans, _Grid.add_kept, step_s=settings.video_step_s)
    return map(partial(_hashed, settings=settings), grids)


def _hashed(grid: _Grid, *, settings: DedupSettings) -> dict[str, np.ndarray]:
    planes = grid.planes()
    if not len(planes):
        raise UnreadableItem(3001, "num_decoded_frames=0 not in [1, inf)")
    found = hashes.hashed(planes)
    windows = found.hashes_VNW.transpose(0, 2, 1).reshape(-1)
    return {
        METHOD: windows[: len(planes)],
        WINDOWS_METHOD: windows[len(planes) :],
        LUMA_METHOD: perceptual.pack_bytes(found.luma_VN64),
        KEYS_METHOD: found.keys,
        DETAIL_METHOD: grid.moments.packed(),
        BLOCKS_METHOD: np.frombuffer(b"".join(grid.blocks), np.uint64),
        "times_s": _times_s(len(planes), settings.video_step_s),
    }


def _times_s(num: int, step_s: float) -> np.ndarray:
    return (np.arange(num) * step_s).astype(np.float32)


def sampled_planes(path: Path, *, step_s: float) -> tuple[np.ndarray, np.ndarray]:
    """(64x64 luma planes, seconds from the first frame): the first frame shown at or after each point of the grid; a
    gap repeats the last."""
    planes = _sampled(path, step_s=step_s).planes()
    if not len(planes):
        raise UnreadableItem(3001, "num_decoded_frames=0 not in [1, inf)")
    return planes, _times_s(len(planes), step_s)


def _sampled(path: Path, *, step_s: float) -> _Grid:
    grid = _Grid(step_s)
    with open_media(path) as container:
        stream = picture_stream(container)
        stream.codec_context.options |= EXPORT
        for frame in frames(container, stream):
            if frame.time is not None:
                grid.add(frame)
    return grid


def span_planes(path: Path, spans: Sequence[Span], *, step_s: float) -> Iterator[np.ndarray]:
    """The planes of each span, in order, on a grid that begins with its own first frame; none where no frame of it
    decodes."""
    return (grid.planes() for grid in _span_grids(path, spans, step_s=step_s))


def _span_grids(path: Path, spans: Sequence[Span], *, step_s: float) -> Iterator[_Grid]:
    return _shared_out(_frames_from(path, spans[0][0]), spans, _Grid.add, step_s=step_s)


def _shared_out(
    frames: Iterable[tuple[float, F]], spans: Sequence[Span], add: Callable[[_Grid, F], None], *, step_s: float
) -> Iterator[_Grid]:
    """The grid of each span, of frames with their times."""
    starts, at, num_behind = [start - _CLOCK_S for start, _ in spans], 0, 0
    grids: dict[int, _Grid] = {}
    for time_s, frame in frames:
        place = bisect_right(starts, time_s) - 1
        is_inside = place >= 0 and time_s < spans[place][1] - _CLOCK_S
        if is_inside and place >= at:
            add(grids.setdefault(place, _Grid(step_s)), frame)
        num_behind = num_behind + 1 if time_s >= spans[at][1] - _CLOCK_S else 0
        if num_behind < _NUM_BEHIND:
            continue
        num_behind = 0
        for done in range(at, place if is_inside else place + 1):
            yield grids.pop(done, _Grid(step_s))
            at = done + 1
        if at == len(spans):
            return
    for done in range(at, len(spans)):
        yield grids.pop(done, _Grid(step_s))


def _frames_from(path: Path, start_s: float) -> Iterator[tuple[float, VideoFrame]]:
    """(seconds on the film's clock, frame) of every frame with a time, from that moment on or from before it."""
    import av
    import av.error

    with open_media(path) as container:
        stream = picture_stream(container)
        stream.codec_context.options |= EXPORT
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
    """The planes and moments of the frames that a time grid asks for; it begins with the first frame that comes."""

    def __init__(self, step_s: float) -> None:
        self._step_s, self._start_s, self._first = step_s, 0.0, 0
        self._num, self._planes = 0, bytearray()
        self._keyframes = KeyframeBlocks()
        self.moments, self.blocks = Moments(), list[bytes]()

    def add(self, frame: VideoFrame) -> None:
        """Take the next frame; it has a time."""
        assert frame.time is not None
        if not self._num:
            self._start_s = frame.time
        self._keyframes.see(frame)
        due = int((frame.time - self._start_s) / self._step_s + 1e-6) + 1 - self._num
        if due > 0:
            plane = plane_of(frame)
            end = self._put(due, plane)
            if self.moments.wants(self._num, end):
                self.moments.add(self._num, end, moment_of(frame, plane))
            self._take(self._keyframes.taken())
            self._num = end

    def add_kept(self, kept: GridFrame) -> None:
        """Take the next frame of those that were kept; its grid is the film's."""
        if not self._num:
            self._first = self.moments.first = kept.position
        due = kept.position - self._first + 1 - self._num
        self._take(kept.blocks)
        if due > 0:
            end = self._put(due, kept.plane)
            at, behind = self._first + self._num, self._first + end
            if kept.moment is not None and self.moments.wants(at, behind):
                self.moments.add(at, behind, kept.moment)
            self._num = end

    def _take(self, blocks: bytes | None) -> None:
        if blocks is not None and len(self.blocks) < _MOST_KEYFRAMES:
            self.blocks.append(blocks)

    def _put(self, due: int, plane: NDArray[np.uint8]) -> int:
        """Let the last plane last until this one; the number of positions then. No more than fit: one broken time
        stamp may claim years."""
        due = min(due, _MAX_FRAMES - self._num)
        if due > 0:
            last = self._planes[-(hashes.SIDE**2) :] if self._num else b""
            self._planes += last * (due - 1)
            self._planes += plane.tobytes()
        return self._num + due

    def planes(self) -> np.ndarray:
        """uint8 of shape (num_frames, 64, 64)."""
        return np.frombuffer(self._planes, np.uint8).reshape(-1, hashes.SIDE, hashes.SIDE)
