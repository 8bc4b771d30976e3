"""Small grey pictures of a film on a time grid, gathered in the decode that makes its track and kept in the store: who
compares films reads them there, and decodes nothing.

Enters: decoded frames, in order. Leaves: an Arrow stream in a file or in memory, and from it the frames again. What
they are compared by is the business of stages.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmlake.media.keyframe_blocks import NUM_BYTES, packed_blocks
from mmlake.media.picture_pieces import PIECE_PX, pieces
from mmlake.media.video_quantizer import quantizer_step

if TYPE_CHECKING:
    from av import VideoFrame

STEP_S = 0.125  # of the grid that is kept
SIDE = 64  # px of a plane: a border is then known to 1.6 % of the picture
MOMENT_EVERY = 8  # positions of the grid
THUMBNAIL_PX = 32
_PIECES = (0, 3)  # of the four that a picture has: the first and the last
NUM_PIECES = len(_PIECES)
_MOMENT_BYTES = THUMBNAIL_PX**2 + NUM_PIECES * PIECE_PX**2
_BLOCKS_EVERY_S = 2.0  # a keyframe whose blocks are kept, where there are so many
_MOST_FRAMES = 1_000_000  # of one film: a day and a half; what follows is not compared
_BATCH = 64  # frames that are compressed together, each as what is new in it
_FULL_RANGE, _BLACK_LEVEL, _BROADCAST_LEVELS = 2, 16, 219  # AVCOL_RANGE_JPEG; levels of luma in the other range
# 8-bit formats whose first plane is luma
_LUMA_FIRST = frozenset({"yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "yuvj444p", "nv12", "gray"})
# larger frames are shrunk in two steps: by area alone costs as much as to decode
_SMALL_PX, _MIDDLE_SIDE = 1 << 17, 256
_SCHEMA = pa.schema(
    [
        pa.field("time_s", pa.float64(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("plane", pa.binary(SIDE * SIDE), nullable=False),
        pa.field("moment", pa.binary(_MOMENT_BYTES)),
        pa.field("blocks", pa.binary(NUM_BYTES)),
    ]
)


class GridFrame(NamedTuple):
    """One frame that a point of the grid asks for."""

    time_s: float  # on the clock of the film
    position: int  # on the grid that begins with the film's first frame; it is shown there, and from there on
    plane: NDArray[np.uint8]  # (64, 64) luma
    moment: NDArray[np.uint8] | None  # thumbnail and pieces, where it is the next frame behind a moment
    blocks: bytes | None = None  # `mmlake.media.keyframe_blocks` of a keyframe since the frame before, or of this one


class KeyframeBlocks:
    """Takes all frames of a film or a span, and holds the blocks of some keyframes until a frame of the grid is kept.

    Frames are decoded with `mmlake.media.video_quantizer.EXPORT`; otherwise nobody knows how coarse they are."""

    def __init__(self) -> None:
        self._next_s = -np.inf
        self._held: bytes | None = None

    def see(self, frame: VideoFrame) -> None:
        """Take the next frame; it has a time."""
        assert frame.time is not None
        if frame.time < self._next_s or not frame.key_frame or frame.format.name not in _LUMA_FIRST:
            return
        found = packed_blocks(_luma(frame), quantizer_step(frame))
        if found is not None:
            self._next_s, self._held = frame.time + _BLOCKS_EVERY_S, found

    def taken(self) -> bytes | None:
        """The blocks that are held, once."""
        held, self._held = self._held, None
        return held


class FrameKeeper:
    """Takes all frames of a film, and packs those that the grid asks for, compressed, into a file."""

    def __init__(self, file: IO[bytes] | None = None) -> None:
        """file: None for memory."""
        self._start_s, self._last, self._num = 0.0, -1, 0
        self._waiting: list[GridFrame] = []
        self._blocks = KeyframeBlocks()
        self._file = io.BytesIO() if file is None else file
        options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
        self._writer = pa.ipc.new_stream(self._file, _SCHEMA, options=options)

    def add(self, frame: VideoFrame, time_s: float) -> None:
        """Take the next frame; one without a time stamp says nothing about when."""
        stamp_s = frame.time
        if stamp_s is None or self._num >= _MOST_FRAMES:
            return
        if self._last < 0:
            self._start_s = stamp_s
        self._blocks.see(frame)
        position = int((stamp_s - self._start_s) / STEP_S + 1e-6)
        # behind a jump of the clock the grid goes on where that is
        if self._last - 1 <= position <= self._last:
            return
        is_moment = -(-(self._last + 1) // MOMENT_EVERY) * MOMENT_EVERY <= position or position < self._last
        plane = plane_of(frame)
        moment = moment_of(frame, plane) if is_moment else None
        self._waiting.append(GridFrame(time_s, position, plane, moment, self._blocks.taken()))
        self._last, self._num = position, self._num + 1
        if len(self._waiting) == _BATCH:
            self._pack()

    def finish(self) -> bool:
        """Whether a frame came; then all that is kept has been written."""
        if not self._num:
            return False
        self._pack()
        self._writer.close()
        return True

    def packed(self) -> bytes | None:
        """All that was kept in memory; None where no frame came."""
        return self._file.getvalue() if self.finish() and isinstance(self._file, io.BytesIO) else None

    def _pack(self) -> None:
        if not self._waiting:
            return
        planes = np.stack([one.plane for one in self._waiting])
        planes[1:] -= planes[:-1].copy()  # modulo 256: most of a picture is as it was
        columns = [  # of buffers: pyarrow imports pandas, in every worker, to see whether a list is one of its columns
            _column(pa.float64(), np.array([one.time_s for one in self._waiting], np.float64)),
            _column(pa.int64(), np.array([one.position for one in self._waiting], np.int64)),
            _column(pa.binary(SIDE * SIDE), planes),
            _sparse(_MOMENT_BYTES, [None if one.moment is None else one.moment.tobytes() for one in self._waiting]),
            _sparse(NUM_BYTES, [one.blocks for one in self._waiting]),
        ]
        self._writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
        self._waiting.clear()


def _column(kind: pa.DataType, values: NDArray[Any], is_there: NDArray[np.bool_] | None = None) -> pa.Array:
    """The values as a column. values: a row each, as wide as the type. is_there: which are not null; None: all."""
    valid = None if is_there is None else pa.py_buffer(np.packbits(is_there, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(np.ascontiguousarray(values))])


def _sparse(width: int, values: list[bytes | None]) -> pa.Array:
    """Values of so many bytes as a column, most of which may be null."""
    is_there = np.array([value is not None for value in values])
    packed = b"".join(bytes(width) if value is None else value for value in values)
    held = np.frombuffer(packed, np.uint8).reshape(-1, width)
    return _column(pa.binary(width), held, None if is_there.all() else is_there)


def kept_frames(kept: bytes | Path) -> Iterator[GridFrame]:
    """What a FrameKeeper packed, as bytes or as a file, in order; a batch is held at a time."""
    source = pa.OSFile(os.fspath(kept)) if isinstance(kept, Path) else pa.BufferReader(kept)
    with source, pa.ipc.open_stream(source) as reader:
        for batch in reader:
            times_s, positions = batch["time_s"].to_pylist(), batch["position"].to_pylist()
            held = np.frombuffer(batch["plane"].buffers()[1], np.uint8).reshape(-1, SIDE, SIDE)
            planes = held[batch["plane"].offset :][: len(batch)].copy()
            for before, plane in pairwise(planes):  # a fortieth of what numpy's accumulate takes along this axis
                plane += before
            moments, blocks = batch["moment"].to_pylist(), batch["blocks"].to_pylist()
            for time_s, position, plane, moment, some in zip(times_s, positions, planes, moments, blocks, strict=True):
                shown = None if moment is None else np.frombuffer(moment, np.uint8)
                yield GridFrame(time_s, position, plane, shown, some)


def plane_of(frame: VideoFrame) -> NDArray[np.uint8]:
    """The luma of a frame, 64x64."""
    import cv2

    side = (SIDE, SIDE)
    if frame.format.name not in _LUMA_FIRST:
        return frame.reformat(*side, "gray", interpolation="AREA").to_ndarray().astype(np.uint8, copy=False)
    luma = _luma(frame)
    if luma.size > _SMALL_PX:
        middle = (_MIDDLE_SIDE, _MIDDLE_SIDE)
        luma = cv2.resize(luma, middle, interpolation=cv2.INTER_LINEAR).astype(np.uint8, copy=False)
    return cv2.resize(luma, side, interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)


def moment_of(frame: VideoFrame, plane_64: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Thumbnail and pieces of a frame, one after the other; the same tones whether the file keeps all levels or those
    of broadcasts."""
    small = plane_64.reshape(THUMBNAIL_PX, SIDE // THUMBNAIL_PX, THUMBNAIL_PX, -1).mean(axis=(1, 3))
    is_full = frame.format.name.startswith("yuvj") or frame.color_range == _FULL_RANGE or frame.format.name == "gray"
    if is_full and frame.format.name in _LUMA_FIRST:
        small = _BLACK_LEVEL + small * _BROADCAST_LEVELS / 255
    two = pieces(_luma(frame), _PIECES)
    return np.concatenate([np.rint(small).astype(np.uint8).ravel(), two.ravel()])


def _luma(frame: VideoFrame) -> NDArray[np.uint8]:
    """All of it."""
    if frame.format.name not in _LUMA_FIRST:
        return frame.reformat(format="gray").to_ndarray().astype(np.uint8, copy=False)
    plane = frame.planes[0]
    luma: NDArray[np.uint8] = np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)
    return luma[: plane.height, : plane.width]
