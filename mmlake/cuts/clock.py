"""Whether what was cut lies where it claims to: its sound and its frames held against the item that it was cut from.

Enters: a local item with its 16 kHz track, and cuts of it with the times that they claim. Leaves: by how much each
lags, per step that may have shifted it, and how that grows from cut to cut. A lag of one reading offset per cut is a
bug that no single clip shows.
"""

from __future__ import annotations

import io
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmlake.errors import UnreadableItem
from mmlake.media.decoders import frames, open_media, picture_stream, placed_sound
from mmlake.media.sound_conversion import Block, mixed

MAX_LAG_S = 0.005  # of a sound that is where it claims to be; FLAC is exact, AAC was never more than 0.1 ms off
_SEARCHED_S = 1.0  # to either side
_COMPARED_S = 8.0  # of each cut: more makes no lag clearer
_ALIKE = 0.5  # correlation of what is the same sound, lossy copies included
_AS_GOOD = 0.995  # of the best correlation: a tone fits at every period, so where it claims to be counts
_CELLS_WH = (32, 18)
_LEVELS = 1.5  # mean difference of frames, in grey levels, that encoding explains; a claimed frame as good as the best
SEGMENT, TRACK, PICTURE, CLIP_SOUND, SOUND = "segment", "track", "picture of the clip", "sound of the clip", "sound"

Samples = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class CutPiece:
    """One cut of an item, as a sample has it."""

    key: str  # names the sample
    number: int  # of the cuts of the item, in order, from 0
    start_s: float  # in the item
    end_s: float
    media_start_s: float = 0.0  # of copied packets: how much earlier the medium begins
    clip: bytes | None = None  # film: its picture and sound
    sound: bytes | None = None  # film or recording: 16 kHz
    segment: bytes | None = None  # recording: at its own rate


@dataclass(frozen=True, kw_only=True, slots=True)
class Lag:
    """How much later than claimed something comes in a cut."""

    key: str
    number: int
    step: str  # the step that made what lags
    lag_s: float


def lags_of(item: Path, track: Path | None, pieces: Sequence[CutPiece]) -> list[Lag]:
    """The lags of what the cuts hold; nothing of what is silent or shows no difference. Raises UnreadableItem."""
    own = OwnSound(item)
    return [lag for piece in pieces for lag in lags_of_piece(item, track, piece, own.around(piece))]


def lags_of_piece(item: Path, track: Path | None, piece: CutPiece, own: Sound | None) -> list[Lag]:
    """The same of one cut. own: the item's sound around it, of `OwnSound`."""
    found = []
    whole = None if track is None else _read(track, piece.start_s, piece.end_s)
    for step, part, parent in _compared(piece, own, whole):
        if part is not None and parent is not None and (lag_s := sound_lag(part, parent)) is not None:
            found.append(Lag(key=piece.key, number=piece.number, step=step, lag_s=lag_s))
    if piece.clip is not None and (lag_s := _picture_lag(item, piece)) is not None:
        found.append(Lag(key=piece.key, number=piece.number, step=PICTURE, lag_s=lag_s))
    return found


def described(lags: Sequence[Lag]) -> list[str]:
    """A sentence for each step whose lags are too large: where they begin and how they grow. lags: of one item."""
    problems = []
    for step in dict.fromkeys(lag.step for lag in lags):
        own = sorted((lag for lag in lags if lag.step == step), key=lambda lag: lag.number)
        late = [lag for lag in own if abs(lag.lag_s) > MAX_LAG_S]
        if not late:
            continue
        worst = max(late, key=lambda lag: abs(lag.lag_s))
        grows = np.polyfit([lag.number for lag in own], [lag.lag_s for lag in own], 1)[0] if len(own) > 1 else 0.0
        problems.append(
            f"{step}: {len(late)} of {len(own)} cuts lag, first {late[0].key} (number {late[0].number}) by "
            f"{late[0].lag_s:+.4f} s, most {worst.key} by {worst.lag_s:+.4f} s, "
            + (f"growing by {grows:+.4f} s with each cut" if abs(grows) > MAX_LAG_S / 10 else "which does not grow")
        )
    return problems


def sound_lag(part: Sound, parent: Sound) -> float | None:
    """How much later than claimed the part's sound comes; None where it is silent or another sound. Positive: the part
    begins with what the parent has before. parent: from `_SEARCHED_S` before the claimed start on."""
    from scipy.fft import next_fast_len

    rate_hz = part.rate_hz
    short, long = part.samples[: round(_COMPARED_S * rate_hz)], parent.at(rate_hz)
    if len(long) <= len(short):
        short = short[: max(0, len(long) - rate_hz // 100)]
    size = next_fast_len(len(long), real=True)  # enough: only places where the part lies within the item are read
    product = np.fft.irfft(np.fft.rfft(long, size) * np.conj(np.fft.rfft(short, size)), size)
    places = len(long) - len(short) + 1
    energy = np.concatenate([[0.0], np.cumsum(np.square(long, dtype=np.float64))])
    norm = np.sqrt(np.maximum(energy[len(short) : len(short) + places] - energy[:places], 1e-9))
    own = float(np.sqrt(np.square(short, dtype=np.float64).sum()))
    if len(short) < rate_hz // 10 or own < 1e-3:
        return None
    alike = product[:places] / (norm * own)
    claimed = round(parent.before_s * rate_hz)
    best = int(np.argmax(alike))
    if alike[best] < _ALIKE:
        return None
    near = slice(max(0, claimed - 1), claimed + 2)
    if claimed < places and alike[near].max() >= _AS_GOOD * alike[best]:
        best = near.start + int(np.argmax(alike[near]))
    return (claimed - best) / rate_hz


@dataclass(frozen=True, slots=True)
class Sound:
    """A stretch of sound."""

    samples: Samples  # mono
    rate_hz: int
    before_s: float = 0.0  # how much of it lies before the claimed start

    def at(self, rate_hz: int) -> Samples:
        """The samples at another rate."""
        if rate_hz == self.rate_hz:
            return self.samples
        import soxr

        resampled: Samples = soxr.resample(self.samples, self.rate_hz, rate_hz)
        return resampled


_Pair = tuple[str, Sound | None, Sound | None]


def _compared(piece: CutPiece, own: Sound | None, whole: Sound | None) -> Iterator[_Pair]:
    """(step, what it made, what it was made from)."""
    if own is not None and whole is not None:
        length = round((piece.end_s - piece.start_s) * whole.rate_hz)
        first = round(whole.before_s * whole.rate_hz)
        yield TRACK, Sound(whole.samples[first : first + length], whole.rate_hz), own
    for step, data, parent in ((SEGMENT, piece.segment, own), (SOUND, piece.sound, whole)):
        yield step, None if data is None else _read(data, 0.0, None), parent
    if piece.clip is not None and whole is not None:
        yield CLIP_SOUND, _sound_of(piece.clip, piece), whole


def _read(flac: bytes | Path, start_s: float, end_s: float | None) -> Sound:
    """A stretch of a FLAC with what is searched around it."""
    import soundfile

    with soundfile.SoundFile(flac if isinstance(flac, Path) else io.BytesIO(flac)) as file:
        first = max(0, round((start_s - _SEARCHED_S) * file.samplerate)) if end_s is not None else 0
        last = file.frames if end_s is None else round((end_s + _SEARCHED_S) * file.samplerate)
        file.seek(min(first, file.frames))
        samples = file.read(max(0, last - first), dtype="float32", always_2d=True)
        return Sound(mixed(samples), file.samplerate, start_s - first / file.samplerate)


class OwnSound:
    """An item's own sound around pieces of it, each sample where its time stamp puts it. Pieces that come in order take
    one decode: MP3 and films are decoded from their start, wherever a piece lies."""

    def __init__(self, item: Path) -> None:
        self._item = item
        self._blocks: Iterator[Block] | None = None
        self._held: deque[tuple[int, Samples]] = deque()  # (number of the first sample, mono), in order
        self._rate_hz, self._from_s = 0, 0.0

    def around(self, piece: CutPiece) -> Sound | None:
        """The sound from `_SEARCHED_S` before the piece to as much behind it; None of a film without sound."""
        first_s, last_s = max(0.0, piece.start_s - _SEARCHED_S), piece.end_s + _SEARCHED_S
        if self._blocks is None or first_s < self._from_s:
            self._held.clear()
            self._blocks, self._rate_hz = placed_sound(self._item, from_s=first_s), 0
        self._from_s = first_s
        try:
            self._hold(first_s, last_s)
        except UnreadableItem:
            self._blocks = None
            return None
        if not self._rate_hz:
            return None
        samples, first = np.zeros(round((last_s - first_s) * self._rate_hz), np.float32), round(first_s * self._rate_hz)
        for position, block in self._held:
            at = position - first
            part = block[max(0, -at) : max(0, len(samples) - at)]
            samples[max(0, at) : max(0, at) + len(part)] = part
        return Sound(samples, self._rate_hz, piece.start_s - first_s)

    def _hold(self, first_s: float, last_s: float) -> None:
        """Let go what ends before the one time, and decode up to the other."""
        assert self._blocks is not None
        held = self._held
        while not held or held[-1][0] + len(held[-1][1]) < last_s * self._rate_hz:
            if (found := next(self._blocks, None)) is None:
                break
            self._rate_hz, position, block = found
            held.append((position, mixed(block)))
            while held and held[0][0] + len(held[0][1]) <= first_s * self._rate_hz and len(held) > 1:
                held.popleft()


def _sound_of(clip: bytes, piece: CutPiece) -> Sound | None:
    """The sound of a clip from the claimed start on."""
    ends_s = piece.media_start_s + piece.end_s - piece.start_s
    with tempfile.NamedTemporaryFile(suffix=".mp4") as file:
        file.write(clip)
        file.flush()
        sound = OwnSound(Path(file.name)).around(CutPiece(key="", number=0, start_s=0.0, end_s=ends_s))
    if sound is None:
        return None
    first, last = (round(time_s * sound.rate_hz) for time_s in (piece.media_start_s, ends_s))
    return Sound(sound.samples[first:last], sound.rate_hz)


def _picture_lag(item: Path, piece: CutPiece) -> float | None:
    """How much later than claimed the frames of a clip are shown; None where it shows none of the item's."""
    assert piece.clip is not None
    with tempfile.NamedTemporaryFile(suffix=".mp4") as file:
        file.write(piece.clip)
        file.flush()
        own_TC, own_s = _pictures(Path(file.name), 0.0, _COMPARED_S)
    begins_s = piece.start_s - piece.media_start_s
    item_TC, item_s = _pictures(item, max(0.0, begins_s - _SEARCHED_S), begins_s + _COMPARED_S + _SEARCHED_S)
    num = min(len(own_s), len(item_s))
    if num < 2:
        return None
    num = min(num, max(2, len(item_s) - 2)) if len(item_s) - len(own_s) < 2 else num
    places = range(len(item_s) - num + 1)
    apart = np.array([np.abs(item_TC[at : at + num] - own_TC[:num]).mean() for at in places])
    claimed = int(np.argmin(np.abs(item_s[: len(places)] - begins_s)))
    at = claimed if apart[claimed] <= apart.min() + _LEVELS / 10 else int(np.argmin(apart))
    if apart[at] > 10 * _LEVELS:
        return None
    return float(np.median(own_s[:num] - (item_s[at : at + num] - begins_s)))


def _pictures(path: Path, first_s: float, last_s: float) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """(small grey frames, their times from the file's start) that are shown in a stretch."""
    import av

    pictures, times_s = [], []
    with open_media(path) as container:
        stream, origin_s = picture_stream(container), (container.start_time or 0) / av.time_base
        if first_s > 0:
            container.seek(int((origin_s + first_s) * av.time_base))
        for frame in frames(container, stream):
            if frame.time is None or frame.time - origin_s < first_s - 1e-3:
                continue
            if frame.time - origin_s > last_s:
                break
            pictures.append(frame.reformat(*_CELLS_WH, format="gray", interpolation="AREA").to_ndarray().ravel())
            times_s.append(frame.time - origin_s)
    return np.array(pictures, np.float32).reshape(len(times_s), -1), np.array(times_s)
