"""Sound of spans, exact to the sample.

Enters: a local sound file and spans of it. Leaves: FLAC. The mono 16 kHz track of an item is read from the sample on
at which a span begins. A recording's own samples come from one decode for all of its segments, placed by their time
stamps as those of the track are.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mmlake.cuts.runner import FAILED
from mmlake.cuts.video import Span
from mmlake.errors import UnreadableItem
from mmlake.media.decoders import open_media, placed_sound, sound_stream
from mmlake.media.sound_conversion import mixed

SOUND_RATE_HZ = 16_000
_BLOCK_SAMPLES = 1 << 16
_AHEAD_S = 1.0  # decoded before the first segment: rounding, and frames of lossy codecs that share samples
_MAX_CHANNELS = 8  # of FLAC
_MAX_RATE_HZ = 655_350  # of FLAC
_DEEP_CODECS = ("pcm_s24", "pcm_s32", "pcm_f32", "pcm_f64", "pcm_u24", "pcm_u32")  # more than 16 bit
_DEEP_FORMATS = ("s32", "s32p", "s64", "s64p")  # what lossless codecs of 24 bit decode to


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """What was cut."""

    sample_rate_hz: int
    num_channels: int
    num_samples: int
    is_denoised: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Cleaner:
    """Takes the noise out of what was cut of a track."""

    clean: Callable[[Path], bool]  # of a FLAC in place, which keeps its length; whether anything was done
    facts: Mapping[str, object] = field(default_factory=dict)  # what its results depend on


def cut_sound(track: Path, out: Path, span: Span | None, *, cleaner: Cleaner | None = None) -> Segment:
    """The span of an item's 16 kHz mono track as FLAC, written to `out`: samples round(start * 16,000) to
    round(end * 16,000) - 1, silence behind the track's end. span: None for the whole track. Raises what the cleaner
    raises."""
    segment = _copied(track, out) if span is None else _cut(track, out, span)
    return segment if cleaner is None else replace(segment, is_denoised=cleaner.clean(out))


def _copied(track: Path, out: Path) -> Segment:
    import soundfile

    shutil.copyfile(track, out)
    held = soundfile.info(track)
    return Segment(sample_rate_hz=held.samplerate, num_channels=held.channels, num_samples=held.frames)


def _cut(track: Path, out: Path, span: Span) -> Segment:
    import soundfile

    with soundfile.SoundFile(track) as source:
        rate_hz = source.samplerate
        first, last = _samples(span, rate_hz)
        with _flac(out, rate_hz, source.channels, source.subtype) as sink:
            source.seek(min(first, source.frames))
            left = last - first
            while left > 0:
                block = source.read(min(left, _BLOCK_SAMPLES), dtype="int32", always_2d=True)
                if not len(block):  # the film's picture goes on
                    block = np.zeros((min(left, _BLOCK_SAMPLES), source.channels), np.int32)
                sink.write(block)
                left -= len(block)
        return Segment(sample_rate_hz=rate_hz, num_channels=source.channels, num_samples=last - first)


def cut_recording(recording: Path, cuts: Sequence[tuple[Span, Path]]) -> list[Segment]:
    """The segments of a recording as FLAC at its own rate and channels, in the order of `cuts`, from one decode: 16
    bit, and 24 where the source has more. Raises UnreadableItem 3001, 3303.

    cuts: (span, where to write it). A segment that the sound does not reach to its end is filled with silence.
    """
    subtype, in_order = _subtype(recording), sorted(cuts, key=lambda cut: cut[0].start_us)
    writers: list[_Writer] = []
    with ExitStack() as stack:
        # the first block has the rate: what a header says may be another one, as that of Opus recorded at 16 kHz
        for rate_hz, position, block in placed_sound(recording, from_s=in_order[0][0].start_us / 1e6 - _AHEAD_S):
            if not writers:
                kind = _checked((rate_hz, block.shape[1], subtype))
                writers = waiting = [_Writer(stack, span, out, kind) for span, out in in_order]
            if rate_hz != kind[0]:
                continue  # a stream that changes its rate: what is left out becomes silence
            for writer in waiting:
                if writer.first >= position + len(block):
                    break  # they begin in order
                writer.write(block, position)
            waiting = [writer for writer in waiting if writer.position < writer.last]
            if not waiting:
                break
        if not writers:
            raise UnreadableItem(FAILED, f"num_samples=0 from {in_order[0][0].start_us / 1e6:g} s on, expected some")
        for writer in waiting:
            writer.finish()
    made = {writer.out: writer.segment for writer in writers}
    return [made[out] for _, out in cuts]


class _Writer:
    """One segment on its way."""

    def __init__(self, stack: ExitStack, span: Span, out: Path, kind: tuple[int, int, str]) -> None:
        self.rate_hz, self.num_channels, subtype = kind
        self.first, self.last = _samples(span, self.rate_hz)
        self.position = self.first  # the sample of the recording that comes next
        self.out = out
        self._stack, self._subtype = stack, subtype
        self._sink: Any = None
        self._bits = 16 if subtype == "PCM_16" else 24

    @property
    def segment(self) -> Segment:
        """What was made."""
        num_samples = self.last - self.first
        return Segment(sample_rate_hz=self.rate_hz, num_channels=self.num_channels, num_samples=num_samples)

    def write(self, block: np.ndarray, position: int) -> None:
        """Take what is within of a block that begins at that sample of the recording. A gap before it becomes silence,
        what was there before is left out."""
        part = block[max(0, self.position - position) : max(0, self.last - position)]
        if not len(part):
            return
        if part.shape[1] != self.num_channels:  # a stream that changes its layout
            part = np.repeat(mixed(part)[:, None], self.num_channels, axis=1)
        self._silence(position)
        self._put(_integers(part, self._bits))

    def finish(self) -> None:
        """Silence for what the recording does not have. Raises UnreadableItem 3303 where it has nothing of the
        segment."""
        if self.position == self.first:
            raise UnreadableItem(FAILED, f"num_samples=0 from sample {self.first} on, expected some")
        self._silence(self.last)

    def _silence(self, end: int) -> None:
        while self.position < end:
            count = min(_BLOCK_SAMPLES, end - self.position)
            self._put(np.zeros((count, self.num_channels), np.int32))

    def _put(self, samples: np.ndarray) -> None:
        """Write what comes next. The file is open from the first of its samples to the last: a day of recording has
        thousands of segments, and an encoder takes a third of a megabyte."""
        if self._sink is None:
            flac = _flac(self.out, self.rate_hz, self.num_channels, self._subtype)
            self._sink = self._stack.enter_context(flac)
        self._sink.write(samples)
        self.position += len(samples)
        if self.position >= self.last:
            self._sink.close()


def _integers(part: np.ndarray, bits: int) -> np.ndarray:
    """Float samples as the integers that they came from, in the upper bits of int32."""
    scale = float(1 << bits - 1)
    finite = np.nan_to_num(part, nan=0.0, posinf=1.0, neginf=-1.0)
    whole = np.clip(np.rint(finite.astype(np.float64) * scale), -scale, scale - 1).astype(np.int64)
    shifted: np.ndarray = (whole << 32 - bits).astype(np.int32)
    return shifted


def _samples(span: Span, rate_hz: int) -> tuple[int, int]:
    """(first, last + 1): neighbours share the bound, so that their samples tile the recording."""
    first, last = (round(time_us * rate_hz / 1_000_000) for time_us in (span.start_us, span.end_us))
    return first, max(last, first + 1)


def _subtype(recording: Path) -> str:
    """The subtype of FLAC that holds the recording's own samples. Raises UnreadableItem 3001, 3303."""
    with open_media(recording) as container:
        if (stream := sound_stream(container)) is None:
            raise UnreadableItem(FAILED, "num_audio_streams=0 not in [1, inf)")
        codec = stream.codec_context
        is_deep = codec.name.startswith(_DEEP_CODECS) or (
            codec.format is not None and codec.format.name in _DEEP_FORMATS
        )
    return "PCM_24" if is_deep else "PCM_16"


def _checked(kind: tuple[int, int, str]) -> tuple[int, int, str]:
    """The same (rate in Hz, channels, subtype). Raises UnreadableItem 3303 where FLAC cannot hold that."""
    rate_hz, num_channels, _ = kind
    if not 0 < num_channels <= _MAX_CHANNELS or not 0 < rate_hz <= _MAX_RATE_HZ:
        raise UnreadableItem(
            FAILED,
            f"sample_rate_hz={rate_hz} not in [1, {_MAX_RATE_HZ}] or num_channels={num_channels} not in [1, "
            f"{_MAX_CHANNELS}]",
        )
    return kind


def _flac(out: Path, rate_hz: int, num_channels: int, subtype: str) -> Any:
    import soundfile

    return soundfile.SoundFile(out, "w", samplerate=rate_hz, channels=num_channels, format="FLAC", subtype=subtype)
