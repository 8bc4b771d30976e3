"""How true a film is to what was filmed: what distinguishes its copies. No rule judges these numbers.

Enters: the file. Leaves: measures of a few keyframes at full size, which the decoder reaches by the index, so that the
cost does not grow with the film. They compare copies of one film only: what they say of two films is what is in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmlake.errors import UnreadableItem
from mmlake.media.decoders import frames, open_media, picture_stream
from mmlake.media.video_quantizer import EXPORT, quantizer_step
from mmlake.quality.measurement import Measurement, Measures, Subject
from mmlake.quality.resampling import Profiles, profiles, resampled_at
from mmlake.spans import Span

if TYPE_CHECKING:
    from av import VideoFrame
    from av.container import InputContainer
    from av.video.stream import VideoStream

# H height, W width of a plane
_NUM_FRAMES = 4  # evenly chosen; copies are compared by their medians
_MAX_SKIPPED = 300  # frames decoded to reach a clip that begins behind a keyframe
_MAX_LINES = 256  # lines that blocks are sought along, of each direction
_STEP_FLOOR = 0.5  # grey levels: where nothing happens, rounding is no grid
_NUM_TILES, _TILE_PX = 12, 64  # of each direction; pixels of each that are measured
_STRUCTURE = 0.3  # grey levels between neighbours, below which a tile has no detail to measure
# So that a copy of twice the size has less detail than its original: sharpness falls to .7 (.8 at most) of it, and a
# copy of half the size has 1.04 (1.2) of it. 648 edits of 27 clips.
_SHARPNESS_POWER = 3
_BEHIND_S = 1.0  # packets come in the order of decoding: one behind the end of a span may be followed by one before it
_BLOCK_PX = 8  # of the codecs whose blocks remain visible
_MACROBLOCK_PX = 16  # whose edges show where each is predicted by itself
_BLANK_STD = 3.0  # grey levels; a black frame says nothing
_FULL_COLOUR = 4.0  # mean distance of the chroma planes from grey, in levels; more is as colourful
_BLACK_LUMA = 24.0  # of bars; 16 is black in the range of broadcasts
_BAR_LEVELS, _BAR_FRACTION = 6.0, 0.95  # how far a bar may leave its colour; of the pixels of a line
_MIN_LEFT_FRACTION = 0.2  # of the picture; where less is left, what was found is no border
_EIGHT_BIT = frozenset({"yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "yuvj444p", "gray"})

_FULL_RANGE, _BLACK_LEVEL, _BROADCAST_LEVELS = 2, 16, 219  # AVCOL_RANGE_JPEG; levels of luma in the other range
_OF_TONES = ("luma_level", "contrast_levels", "chroma_levels")
_OF_FRAMES = ("colourfulness", "bars_fraction", "blockiness", "detail_px", *_OF_TONES)
FIDELITY_MEASURES = (*_OF_FRAMES, "resampled_at", "num_shown_frames", "keyframe_bytes", "quantizer_step")


def video_fidelity(subject: Subject) -> Measures:
    """The measures of one film or clip; None where no frame with structure is reached."""
    measures: Measures = dict.fromkeys(FIDELITY_MEASURES)
    if subject.path is None:
        return measures
    some = _some_frames(subject.path, subject.span_s)
    seen = [one for frame in some if (one := _of_frame(frame)) is not None]
    if seen:
        measures |= {name: float(np.median([one[at] for one, _ in seen])) for at, name in enumerate(_OF_FRAMES)}
        shapes = [tuple(map(len, one)) for _, one in seen]
        of_one_size = [one for (_, one), shape in zip(seen, shapes, strict=True) if shape == shapes[0]]
        measures["resampled_at"] = resampled_at(of_one_size, block_px=_MACROBLOCK_PX)
    steps = [step for frame in some if (step := quantizer_step(frame)) is not None]
    measures["quantizer_step"] = float(np.median(steps)) if steps else None
    packets = _packets(subject.path, subject.span_s)
    if packets:
        measures["num_shown_frames"] = float(len(packets))
        # the rate of the whole would say how often there is a keyframe, and how much happens
        keyframes = [size for size, is_keyframe in packets if is_keyframe]
        measures["keyframe_bytes"] = float(np.median(keyframes)) if keyframes else None
    return measures


def _packets(path: Path, span_s: Span | None) -> list[tuple[int, bool]]:
    """(bytes, whether it is a keyframe) of each packet that is shown in the span: nothing is decoded."""
    import av
    import av.error

    found: list[tuple[int, bool]] = []
    try:
        with open_media(path) as container:
            stream = picture_stream(container)
            origin_s = (container.start_time or 0) / av.time_base
            start_s, end_s = span_s or (-np.inf, np.inf)
            if span_s is not None:
                container.seek(int((origin_s + start_s) * av.time_base))
            for packet in container.demux(stream):
                if packet.pts is None or packet.time_base is None:
                    continue
                time_s = float(packet.pts * packet.time_base) - origin_s
                if start_s <= time_s < end_s:
                    found.append((packet.size, packet.is_keyframe))
                elif time_s > end_s + _BEHIND_S:
                    break
    except (UnreadableItem, av.error.FFmpegError):
        pass  # what came before the damage counts
    return found


def _some_frames(path: Path, span_s: Span | None) -> list[VideoFrame]:
    """Keyframes evenly spread over the span, as far as the file allows."""
    import av.error

    try:
        with open_media(path) as container:
            stream = picture_stream(container)
            stream.codec_context.options |= EXPORT
            return list(_sought(container, stream, span_s))
    except (UnreadableItem, av.error.FFmpegError):
        return []


def _sought(container: InputContainer, stream: VideoStream, span_s: Span | None) -> Iterator[VideoFrame]:
    import av

    origin_s = (container.start_time or 0) / av.time_base
    start_s, end_s = span_s or (0.0, (container.duration or 0) / av.time_base)
    seen: set[float] = set()
    for part in range(_NUM_FRAMES):
        place_s = origin_s + start_s + (end_s - start_s) * (part + 0.5) / _NUM_FRAMES
        container.seek(int(place_s * av.time_base))
        for num, frame in enumerate(frames(container, stream)):
            if frame.time is None or num > _MAX_SKIPPED:
                break
            if frame.time >= origin_s + start_s - 1e-3 or num == _MAX_SKIPPED:
                if frame.time not in seen:
                    seen.add(frame.time)
                    yield frame
                break


def _of_frame(frame: VideoFrame) -> tuple[tuple[float, ...], Profiles] | None:
    """(the values of one frame, in the order of the measures; its second differences); None of a blank one."""
    if frame.format.name not in _EIGHT_BIT:
        frame = frame.reformat(format="yuv420p")
    planes = [_plane(frame, at) for at in range(len(frame.planes))]
    luma_HW = planes[0].astype(np.int16)
    if luma_HW.std() < _BLANK_STD:
        return None
    top, bottom, left, right = _border(luma_HW)
    inner_HW = luma_HW[top:bottom, left:right]
    colour = 0.0
    for plane in planes[1:3]:
        by_y, by_x = plane.shape[0] / luma_HW.shape[0], plane.shape[1] / luma_HW.shape[1]
        inner = plane[int(top * by_y) : int(bottom * by_y), int(left * by_x) : int(right * by_x)]
        colour += float(np.abs(inner.astype(np.int16) - 128).mean()) / 2
    is_full = frame.format.name.startswith("yuvj") or frame.color_range == _FULL_RANGE
    scale = _BROADCAST_LEVELS / 255 if is_full else 1.0
    is_black = min(float(np.median(luma_HW[0])), float(np.median(luma_HW[:, 0]))) <= _BLACK_LUMA
    bars = 1 - inner_HW.size / luma_HW.size if is_black else 0.0  # the margin of a slide is no bar
    return (
        min(1.0, colour / _FULL_COLOUR), bars, _blockiness(inner_HW), _detail_px(luma_HW),
        scale * float(inner_HW.mean()) + (_BLACK_LEVEL if is_full else 0), scale * float(inner_HW.std()), colour,
    ), profiles(luma_HW)  # fmt: skip


def _plane(frame: VideoFrame, at: int) -> NDArray[np.uint8]:
    plane = frame.planes[at]
    return np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)[: plane.height, : plane.width]


def _border(luma_HW: NDArray[np.int16]) -> tuple[int, int, int, int]:
    """Top, bottom, left and right of the picture without the lines of one colour at its sides; a small thing on one
    ground is no picture in a frame."""
    height, width = luma_HW.shape
    top, below = _bars(luma_HW)
    left, beyond = _bars(luma_HW[top : height - below].T)
    is_small = (height - top - below) * (width - left - beyond) < _MIN_LEFT_FRACTION * luma_HW.size
    return (0, height, 0, width) if is_small else (top, height - below, left, width - beyond)


def _bars(luma_LK: NDArray[np.int16]) -> tuple[int, int]:
    """How many lines at the beginning and at the end have one colour."""
    found = []
    for lines in (luma_LK, luma_LK[::-1]):
        is_bar = (np.abs(lines - np.median(lines[0])) <= _BAR_LEVELS).mean(axis=1) >= _BAR_FRACTION
        found.append(0 if is_bar.all() else int(np.argmin(is_bar)))
    return found[0], found[1]


def _detail_px(luma_HW: NDArray[np.int16]) -> float:
    """The side of the picture that is really there: of its tiles with structure, times how sharp they are.

    Sharpness is how large second differences of neighbours are against first ones, whatever the contrast is: 0 for what
    is smooth, 1 for noise; the median over tiles, since one hard edge of a logo outweighs a picture.
    """
    found, area = [], 0
    for rows in np.array_split(luma_HW, _NUM_TILES):
        for whole in np.array_split(rows, _NUM_TILES, axis=1):
            tile = whole[:_TILE_PX, :_TILE_PX]
            down, across = tile[1:] - tile[:-1], tile[:, 1:] - tile[:, :-1]
            if len(down) < 2 or across.shape[1] < 2:
                continue
            first = float(np.abs(down).mean() + np.abs(across).mean())
            if first > _STRUCTURE:
                second = np.abs(down[1:] - down[:-1]).mean() + np.abs(across[:, 1:] - across[:, :-1]).mean()
                found.append(float(second) / first / 2)
                area += whole.size
    return area**0.5 * float(np.median(found)) ** _SHARPNESS_POWER if found else 0.0


def _blockiness(luma_HW: NDArray[np.int16]) -> float:
    """How much larger the steps at the edges of 8x8 blocks are than those within, as a share of them; wherever the
    blocks begin, since a picture may have been cropped."""
    worst = 0.0
    for plane in (luma_HW, luma_HW.T):
        lines = plane[:: max(1, len(plane) // _MAX_LINES)]
        steps = np.abs(lines[:, 1:] - lines[:, :-1]).mean(axis=0)
        # the median over blocks: one edge in the picture is no grid
        phases = np.median(steps[: len(steps) // _BLOCK_PX * _BLOCK_PX].reshape(-1, _BLOCK_PX), axis=0)
        if len(steps) >= _BLOCK_PX:
            worst = max(worst, float((phases.max() + _STEP_FLOOR) / (np.median(phases) + _STEP_FLOOR) - 1))
    return worst


FIDELITY_MEASUREMENT = Measurement(
    name="video-fidelity",
    modalities=("video",),
    measures=FIDELITY_MEASURES,
    columns=(),
    take=video_fidelity,
    needs_file=True,
    revision="4",
)
