"""Sound: decoded frames to one mono 16 kHz FLAC whose sample 0 is time 0 of the item.

Samples go where their time stamps say, so a lost packet becomes silence: laid end to end, everything after a gap would
come too early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from mmlake.errors import UnreadableItem
from mmlake.media.decoders import check_sample_rate
from mmlake.media.sound_conversion import channel_instead, is_quiet
from mmlake.preprocess.damage import Damages
from mmlake.preprocess.outputs import SOUND, Output, OutputFile, Outputs
from mmlake.preprocess.settings import SOUND_RATE_HZ, PreprocessSettings

if TYPE_CHECKING:
    from av import AudioFrame
    from av.audio.stream import AudioStream

_TOLERANCE_S = 0.02  # time stamps of a millisecond clock jitter; a lost MP3 frame is 0.026 s
_BLOCK_SAMPLES = (
    1 << 16
)  # that are resampled and encoded at once: frames of a few hundred cost more than their decoding
# type, and full scale, of the samples of a frame
_TYPES = {
    "u8": (np.uint8, 128.0),
    "s16": (np.int16, 32768.0),
    "s32": (np.int32, 2147483648.0),
    "s64": (np.int64, 9223372036854775808.0),
    "flt": (np.float32, 1.0),
    "dbl": (np.float64, 1.0),
}


class SoundWriter:
    """Takes decoded audio frames in order, within a `with`; holds one block of frames.

    Raises UnreadableItem 3006, 3007, 3009 before it does work that the settings do not allow.
    """

    def __init__(self, *, origin_s: float, settings: PreprocessSettings, outputs: Outputs | None = None) -> None:
        """outputs: where the FLAC goes; in memory where there are none."""
        self._origin_s, self._settings = origin_s, settings
        self._outputs = outputs or Outputs()
        self._rate_hz = 0
        self._position = 0  # samples at the source's rate that were placed so far
        self._before_s = 0.0  # how long the streams before this one last
        self.sample_rate_hz = self.num_channels = 0  # of the source, the most of its streams; 0 before the first frame
        self.num_dropped = 0  # frames that fit nowhere, as of a broken clock
        self._dropped_s = 0.0  # where the first of them was to go
        self._held: list[AudioFrame] = []  # placed, of one kind, and not yet written
        self._num_held = 0  # their samples
        self._sink: OutputFile | None = None
        self._num_written = 0
        self._file: Any = None
        self._open = ExitStack()  # closed also where an item is given up half-way

    def __enter__(self) -> SoundWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def add(self, frame: AudioFrame) -> None:
        """Place one frame, whose samples are not changed afterwards."""
        if not self._rate_hz:
            self._start(frame.sample_rate, frame.layout.nb_channels)
        elif frame.sample_rate != self._rate_hz:
            self._change_rate(frame)
        if (time_s := frame.time) is not None:
            gap = round((time_s - self._origin_s) * self._rate_hz) - self._position
            if abs(gap) > self._settings.max_gap_s * self._rate_hz:
                self._drop()
                return
            if gap > _TOLERANCE_S * self._rate_hz:
                self._check_length(gap)
                self._silence(gap)
            elif gap < -_TOLERANCE_S * self._rate_hz:
                self._write_held()
                self._write(mono([frame])[-gap:])  # already written: an overlap, or sound from before time 0
                return
        self._hold(frame)

    def add_samples(self, samples: np.ndarray, rate_hz: int, num_channels: int) -> None:
        """Place mono samples, float32, behind all others."""
        if not self._rate_hz:
            self._start(rate_hz, num_channels)
        self._write(samples)

    def next_stream(self, *, origin_s: float) -> float:
        """Where the sound so far ends, in seconds: frames of another stream, of any rate, follow it there."""
        self._end_stream()
        self._origin_s = origin_s
        return self._before_s

    def add_dropped(self, damages: Damages) -> None:
        """Note where the first frame was left out."""
        if self.num_dropped:
            damages.add(f"{self.num_dropped} frames of sound have a time that cannot be", at_s=self._dropped_s)

    def finish(self) -> tuple[Output, float] | None:
        """(FLAC, duration in seconds), or None where no sample came. Raises OSError where it could not be written."""
        self._end_stream()
        if not self._before_s:
            return None
        if not self._num_written:  # less than a sample of the track, which is a file for all that
            self._encode_ready(np.zeros(1, np.float32))
        assert self._sink is not None
        with self._writing():
            self._open.close()
        return self._sink.whole(), self._before_s

    def _end_stream(self) -> None:
        if not self._position:
            return
        self._write_held()
        is_later = self._before_s > 0
        self._before_s += self._position / self._rate_hz
        if self._resampler is not None:
            rest = self._resampler.resample_chunk(np.zeros(0, np.float32), last=True)
            if is_later:  # of many streams, what each is rounded by would add up
                left = max(0, round(self._before_s * SOUND_RATE_HZ) - self._num_written)
                rest = np.pad(rest, (0, max(0, left - len(rest))))[:left]
            self._encode_ready(rest)
        self._rate_hz = self._position = 0

    def _change_rate(self, frame: AudioFrame) -> None:
        """The stream goes on at the rate of that frame, as where files of MP3 or AAC were laid end to end."""
        self._origin_s += self._position / self._rate_hz
        self._end_stream()
        self._start(frame.sample_rate, frame.layout.nb_channels)

    def _drop(self) -> None:
        if not self.num_dropped:
            self._dropped_s = self._before_s + self._position / self._rate_hz
        self.num_dropped += 1

    def _start(self, rate_hz: int, num_channels: int) -> None:
        import soundfile
        import soxr

        check_rate(rate_hz, settings=self._settings)
        self._rate_hz = rate_hz
        self.sample_rate_hz = max(self.sample_rate_hz, rate_hz)
        self.num_channels = max(self.num_channels, num_channels)
        if self._file is None:
            self._sink = self._outputs.begin(SOUND)
            self._file = self._open.enter_context(
                soundfile.SoundFile(
                    self._sink, "w", samplerate=SOUND_RATE_HZ, channels=1, format="FLAC", subtype="PCM_16"
                )
            )
        self._resampler = (
            None
            if self._rate_hz == SOUND_RATE_HZ
            else soxr.ResampleStream(self._rate_hz, SOUND_RATE_HZ, 1, dtype="float32", quality="HQ")
        )

    def _silence(self, count: int) -> None:
        self._write_held()
        block = np.zeros(min(count, self._rate_hz), np.float32)
        while count > 0:
            self._write(block[:count])
            count -= len(block)

    def _hold(self, frame: AudioFrame) -> None:
        """Write the frame together with those that follow it."""
        if self._held and _kind(frame) != _kind(self._held[0]):
            self._write_held()
        self._place(frame.samples)
        self._held.append(frame)
        self._num_held += frame.samples
        if self._num_held >= _BLOCK_SAMPLES:
            self._write_held()

    def _write_held(self) -> None:
        held, self._held, self._num_held = self._held, [], 0
        if held:
            self._encode(mono(held))

    def _write(self, samples: np.ndarray) -> None:
        self._place(len(samples))
        self._encode(samples)

    def _place(self, num_samples: int) -> None:
        """Count so many more samples."""
        self._check_length(num_samples)
        num_resampled = num_samples * SOUND_RATE_HZ // self._rate_hz
        if num_resampled > self._settings.max_frame_samples:
            raise UnreadableItem(
                3009, f"num_frame_samples={num_resampled} not in [0, {self._settings.max_frame_samples}]"
            )
        self._position += num_samples

    def _encode(self, samples: np.ndarray) -> None:
        if self._resampler is not None:
            samples = self._resampler.resample_chunk(samples)
        self._encode_ready(samples)

    def _encode_ready(self, samples: np.ndarray) -> None:
        self._num_written += len(samples)
        with self._writing():
            self._file.write(_sixteen_bit(samples))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Raises the error of the disk in place of what libsndfile makes of it."""
        assert self._sink is not None
        try:
            yield
        finally:
            self._sink.check()

    def _check_length(self, num_more: int) -> None:
        """Raises UnreadableItem 3007 where so many more samples are too many."""
        check_duration(self._before_s + (self._position + num_more) / self._rate_hz, settings=self._settings)


def check_bounds(stream: AudioStream, duration_s: float | None, *, settings: PreprocessSettings) -> None:
    """Raises UnreadableItem 3006, 3007 where what the header claims is out of bounds; None, and a rate of 0, are
    unknown."""
    rate_hz = stream.codec_context.sample_rate if stream.codec_context is not None else 0
    if rate_hz:
        check_rate(rate_hz, settings=settings)
    if duration_s is not None:
        check_duration(duration_s, settings=settings)


def check_rate(rate_hz: int, *, settings: PreprocessSettings) -> None:
    """Raises UnreadableItem 3006 where sound of that rate is not to be resampled."""
    check_sample_rate(rate_hz, low_hz=settings.min_sample_rate_hz, high_hz=settings.max_sample_rate_hz)


def check_duration(duration_s: float, *, settings: PreprocessSettings) -> None:
    """Raises UnreadableItem 3007 where the sound is too long."""
    if duration_s > settings.max_decoded_s:
        raise UnreadableItem(3007, f"duration_s={duration_s:.6g} s not in [0, {settings.max_decoded_s:g}]")


def mono(frames: Sequence[AudioFrame]) -> np.ndarray:
    """The channels of frames of one kind as one, one behind the other, float32 in [-1, 1]: their mean, or where they
    cancel each other, one of them."""
    name, num_channels = _kind(frames[0])
    dtype, scale = _TYPES[name.rstrip("p")]
    per_plane = 1 if frames[0].format.is_planar else num_channels
    total, start = np.empty(sum(frame.samples for frame in frames), np.float32), 0
    for frame in frames:
        own = total[start : start + frame.samples]
        start += frame.samples
        # buffers are longer than their samples
        num_values = frame.samples * per_plane
        planes = [np.frombuffer(plane, dtype, num_values) for plane in frame.planes]  # type: ignore[call-overload]
        own[:] = planes[0][::per_plane]
        for channel in range(1, num_channels):  # one by one: numpy's mean over an axis costs as much as the decoder
            own += planes[channel] if per_plane == 1 else planes[0][channel::per_plane]
    if dtype is np.uint8:
        total -= 128.0 * num_channels
    total *= 1.0 / (scale * num_channels)
    if np.isfinite(total.sum()):
        if num_channels > 1 and is_quiet(total):
            chosen = channel_instead(total, [_channel(frames, at) for at in range(num_channels)])
            return total if chosen is None else _channel(frames, chosen)
        return total
    return np.nan_to_num(total, copy=False, nan=0.0, posinf=1.0, neginf=-1.0)  # float files can hold anything


def _channel(frames: Sequence[AudioFrame], channel: int) -> np.ndarray:
    """One channel of frames of one kind, float32 in [-1, 1]."""
    name, num_channels = _kind(frames[0])
    dtype, scale = _TYPES[name.rstrip("p")]
    is_planar = frames[0].format.is_planar
    parts = []
    for frame in frames:
        plane = frame.planes[channel if is_planar else 0]
        values = np.frombuffer(plane, dtype, frame.samples * (1 if is_planar else num_channels))  # type: ignore[call-overload]
        parts.append(values if is_planar else values[channel::num_channels])
    samples = np.concatenate(parts).astype(np.float32)
    samples -= 128.0 if dtype is np.uint8 else 0.0
    samples *= np.float32(1.0 / scale)
    return samples


def _kind(frame: AudioFrame) -> tuple[str, int]:
    return frame.format.name, frame.layout.nb_channels


def _sixteen_bit(samples: np.ndarray) -> np.ndarray:
    scaled = samples * np.float32(32768.0)
    np.rint(scaled, out=scaled)
    np.clip(scaled, -32768, 32767, out=scaled)
    return scaled.astype(np.int16)
