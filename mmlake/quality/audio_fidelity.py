"""How much of the original a recording still is: what was lost in codecs, resampling, requantization and trimming.

Enters: the source's own samples in blocks. Leaves: measures that no rule judges; they decide which of several copies of
one recording stays (mmlake.dedup.fidelity). Each is blind to what a container claims: 8 bits in a 24-bit file are 8.
Legend: T frames of 46 ms, B bands of 500 Hz.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmlake.media.decoders import sound_containers, sound_stream
from mmlake.media.ogg_pages import is_chained
from mmlake.quality.measurement import Measures

if TYPE_CHECKING:
    from av import AudioStream
    from av.container import InputContainer
    from av.packet import Packet

FIDELITY_MEASURES = (
    "is_lossless",
    "coded_kbps",
    "bit_depth",
    "num_true_channels",
    "bandwidth_hz",
    "filled_hz",
    "sound_s",
    "floor_db",
    "padding_s",
)
_LOSSLESS_SUBTYPES = ("PCM_", "FLOAT", "DOUBLE", "ALAC_")
_LOSSLESS_CODECS = ("pcm_", "flac", "alac", "wavpack", "ape", "tta", "truehd", "mlp", "shorten")
# what a kilobit of a codec is worth in those of MP3, at rates where both differ from the original (listening tests)
_WORTH = {"opus": 1.5, "aac": 1.25, "vorbis": 1.25, "mp2": 0.7}
_CODED_PACKETS = 4_096  # that the rate is taken of: 80 s and more
_COMPANDED_CODECS = ("pcm_mulaw", "pcm_alaw", "pcm_vidc")
_FULL = 1 << 23  # of 24 bits, all that float32 holds exactly
_LEAST_SAMPLES, _STEPS, _CLEAR_GAP = 1_500, 1 << 16, 1.5
# what 16 bits were made louder or quieter and saved in 24 leaves equal steps that no converter has: as many samples as
# are asked, the values around zero, the steps sought, and how far they stand out (of six recordings scaled by .1 to
# 1.4, with dither and without, the least is .8)
_FINE_SAMPLES, _FINE_REACH, _FINE_STEPS, _STANDS_OUT = 1 << 20, 1 << 14, (8, 1_024), 0.75
_NATIVE_STEPS, _SAME_STEP = (16.0, 256.0), 0.01  # of 20 and of 16 bits
_SCALED_BITS = 15.4  # of such a copy: less than the 16 that it was made of by more than the criterion overlooks
_FRAME_S, _LEAST_STEP_S, _BAND_HZ = 0.046, 0.1, 500.0
_MAX_FRAMES = 4_096  # of a recording; of a longer one every second, fourth ... is measured
_MOVES_DB, _FAINT_DB = 10.0, -75.0  # a band has sound where loud frames stand so far above its floor and full level
_WINDOW_POWER, _ABOVE_ROUNDING = 0.375, 3.0  # mean square of a Hann window
_LOUD_DB = 20.0  # below the loud parts: what comes before and after it is padding
_LEVEL_S, _LOWEST_DB = 0.02, -60.0
_DIGITAL_SILENCE = 1e-10  # mean square: below what rounding to 16 bits leaves of any sound


def is_lossless(path: Path) -> bool:
    """Whether the file's codec keeps every sample. Raises UnreadableItem."""
    import soundfile

    with path.open("rb") as file:
        is_in_part = is_chained(file)  # of which libsndfile reads the first stream
    if path.suffix != ".mp3" and not is_in_part:
        try:
            return str(soundfile.info(path).subtype).startswith(_LOSSLESS_SUBTYPES)
        except soundfile.LibsndfileError:
            pass
    names = []
    for container in sound_containers(path):
        stream = sound_stream(container)
        names.append(stream.codec_context.name if stream is not None else "")
    return all(map(_keeps_all, names))


def _keeps_all(codec: str) -> bool:
    return codec.startswith(_LOSSLESS_CODECS) and not codec.startswith(_COMPANDED_CODECS)


def coded_kbps(path: Path) -> float | None:
    """The rate of the sound of a lossy file in kbit/s, in those of MP3; None of a lossless one, and where packets have
    no times. Nothing is decoded, and pictures and tags do not count. Raises UnreadableItem."""
    worth_bytes = duration_s = 0.0
    for container in sound_containers(path):
        stream = sound_stream(container)
        if stream is None or _keeps_all(stream.codec_context.name):
            continue
        num_bytes, start_s, end_s = 0, math.inf, 0.0
        for packet in itertools.islice(_whole_packets(container, stream), _CODED_PACKETS):
            if packet.pts is None or packet.time_base is None or not packet.size:
                continue
            time_s = float(packet.pts * packet.time_base)
            start_s = min(start_s, time_s)
            end_s = max(end_s, time_s + float((packet.duration or 0) * packet.time_base))
            num_bytes += packet.size
        worth = _WORTH.get(stream.codec_context.name.removesuffix("float").removeprefix("lib"), 1.0)
        if end_s > start_s:
            worth_bytes += worth * num_bytes
            duration_s += end_s - start_s
    return worth_bytes * 8 / 1_000 / duration_s if duration_s else None


def _whole_packets(container: InputContainer, stream: AudioStream) -> Iterator[Packet[AudioStream]]:
    """Those before a damage that no demuxer gets past."""
    import av.error

    with contextlib.suppress(av.error.FFmpegError):
        yield from container.demux(stream)


@dataclass(slots=True)
class Fidelity:
    """What is known of the blocks so far."""

    rate_hz: int = 0
    used_bits: int = 0  # of all samples together, as 24-bit integers
    steps: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_STEPS, np.int64))  # samples per 16-bit value
    # samples per 24-bit value around zero
    fine: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2 * _FINE_REACH + 1, np.int64))
    num_fine: int = 0
    num_samples: int = 0
    is_one_channel: bool = True
    frames: list[NDArray[np.float32]] = field(default_factory=list)  # powers of bands
    every: int = 1
    num_seen: int = 0
    levels: list[NDArray[np.float32]] = field(default_factory=list)  # powers of 20 ms
    tail: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))  # not in `frames` yet
    rest: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))  # not in `levels` yet

    def add(self, block: NDArray[np.float32], rate_hz: int) -> None:
        """Take the next block, shape (num_samples, num_channels)."""
        self.rate_hz = rate_hz
        whole = np.rint(block * _FULL).astype(np.int64)
        self.used_bits |= int(np.bitwise_or.reduce(np.abs(whole), axis=None)) if whole.size else 0
        self.steps += np.bincount(np.clip((whole.ravel() >> 8) + _STEPS // 2, 0, _STEPS - 1), minlength=_STEPS)
        self.num_samples += block.size
        self._add_fine(whole.ravel())
        if block.shape[1] > 1 and self.is_one_channel:
            self.is_one_channel = bool((np.abs(block - block[:, :1]) < 2 / (1 << 15)).all())
        mono = block.mean(axis=1) if block.shape[1] > 1 else block[:, 0]
        self._add_levels(np.concatenate([self.rest, mono]), max(1, round(_LEVEL_S * rate_hz)))
        self._add_frames(np.concatenate([self.tail, mono]), rate_hz)

    def found(self, *, is_lossless: bool, kbps: float | None = None) -> Measures:
        """The measures of all blocks. kbps: what `coded_kbps` says of the file."""
        depth = self._bit_depth() if is_lossless else None
        return {
            "is_lossless": float(is_lossless),
            "coded_kbps": kbps,
            "bit_depth": depth,
            "num_true_channels": None if not self.num_samples else 1.0 if self.is_one_channel else 2.0,
            "bandwidth_hz": self._bandwidth_hz(),
            "filled_hz": self._filled_hz(),
            **self._audible(),
        }

    def _add_fine(self, whole: NDArray[np.int64]) -> None:
        """Count the values around zero of what uses more than 16 bits."""
        if not self.used_bits & 255 or self.num_fine >= _FINE_SAMPLES:
            return
        taken = whole[: _FINE_SAMPLES - self.num_fine]
        self.num_fine += len(taken)
        near = taken[np.abs(taken) <= _FINE_REACH]
        self.fine += np.bincount(near + _FINE_REACH, minlength=len(self.fine))

    def _add_levels(self, mono: NDArray[np.float32], size: int) -> None:
        whole = mono[: len(mono) // size * size].reshape(-1, size)
        self.levels.append((np.einsum("ij,ij->i", whole, whole) / size).astype(np.float32))
        self.rest = mono[whole.size :]

    def _add_frames(self, mono: NDArray[np.float32], rate_hz: int) -> None:
        size = 1 << max(6, round(np.log2(_FRAME_S * rate_hz)))
        step = max(size, round(_LEAST_STEP_S * rate_hz))
        num = max(0, (len(mono) - size) // step + 1)
        self.tail = mono[num * step :]
        wanted = [at for at in range(num) if (self.num_seen + at) % self.every == 0]
        self.num_seen += num
        if not wanted:
            return
        taken = np.stack([mono[at * step : at * step + size] for at in wanted])
        power = np.abs(np.fft.rfft(taken * np.hanning(size).astype(np.float32), axis=1)) ** 2 / size**2
        edges = np.arange(0, rate_hz / 2 + 1e-6, _BAND_HZ) * size / rate_hz
        cuts = np.unique(np.round(edges).astype(int))
        self.frames.append(np.add.reduceat(power[:, : cuts[-1]], cuts[:-1], axis=1).astype(np.float32))
        if sum(map(len, self.frames)) > _MAX_FRAMES:
            self.frames = [np.concatenate(self.frames)[::2]]
            self.every *= 2

    def _bit_depth(self) -> float | None:
        """Bits that say something: not those below the lowest one in use, nor those lost to gaps between the steps."""
        if not self.used_bits or self.num_samples < _LEAST_SAMPLES:
            return None
        unused = (self.used_bits & -self.used_bits).bit_length() - 1
        step = self._fine_step()
        if step is not None:
            near = min(_NATIVE_STEPS, key=lambda native: abs(np.log(step / native)))
            return 24.0 - float(np.log2(near)) if abs(step / near - 1) < _SAME_STEP else _SCALED_BITS
        gap = self._gap()
        return 24.0 - unused if gap < _CLEAR_GAP else min(24.0 - unused, 16.0 - float(np.log2(gap)))

    def _fine_step(self) -> float | None:
        """The equal steps, in those of 24 bits, on which samples lie that use more than 16, or near to which with
        dither; None where there are none. Digital silence says nothing."""
        held = self.fine.astype(np.float64)
        held[_FINE_REACH] = 0
        if held.sum() < _LEAST_SAMPLES:
            return None
        spectrum = np.abs(np.fft.rfft(held)) / held.sum()
        first = int(np.argmax(spectrum < 0.5))  # below it is what all values together have, of quiet ones more
        low, high = (len(held) // step for step in _FINE_STEPS[::-1])
        found = np.flatnonzero(spectrum[: high + 1] >= _STANDS_OUT)
        found = found[found >= max(low, first)]
        if not len(found):
            return None
        top = int(found[0] + spectrum[found[0] : found[0] + 3].argmax())
        return len(held) / top

    def _gap(self) -> float:
        """Distance of the 16-bit steps in use around zero: 2 of a recording made twice as loud, 256 of one that had 8
        bits. As many of them occur as of so many samples would if each step were as likely."""
        held = self.steps.copy()
        held[_STEPS // 2] = 0  # digital silence
        distance = np.abs(np.arange(_STEPS) - _STEPS // 2)
        order = np.argsort(distance, kind="stable")
        reach = int(distance[order[np.searchsorted(np.cumsum(held[order]), 0.3 * held.sum())]])
        near = held[_STEPS // 2 - reach : _STEPS // 2 + reach + 1]
        if reach < 1 or not near.sum():
            return 1.0
        gaps = 2.0 ** np.arange(0, 10, 0.25)
        usable = np.maximum(2 * reach / gaps, 1.0)
        expected = usable * (1 - np.exp(-near.sum() / usable))
        return float(gaps[np.argmin(np.abs(np.log(expected) - np.log(np.count_nonzero(near))))])

    def _bandwidth_hz(self) -> float | None:
        """Upper end of the highest band whose loud moments stand out of its own floor: steady noise does not, however
        high it reaches."""
        if not self.frames:
            return None
        power_TB = np.concatenate(self.frames)
        loud_B, floor_B = np.percentile(power_TB, 97, axis=0), np.percentile(power_TB, 20, axis=0)
        faint = loud_B.max() * 10 ** (_FAINT_DB / 10)
        sounds_B = (loud_B > faint) & (loud_B > 10 ** (_MOVES_DB / 10) * floor_B)
        return float((np.flatnonzero(sounds_B)[-1] + 1) * _BAND_HZ) if sounds_B.any() else None

    def _filled_hz(self) -> float | None:
        """Upper end of the highest band that holds more than rounding leaves there: above it something was cut off,
        whatever sample rate the container has."""
        if not self.frames:
            return None
        usual_B = np.percentile(np.concatenate(self.frames), 70, axis=0)
        unused = (self.used_bits & -self.used_bits).bit_length() - 1 if self.used_bits else 0
        rounding = (2.0 ** max(unused, 8) / _FULL) ** 2 / 12 * _WINDOW_POWER * _BAND_HZ / (self.rate_hz / 2) / 2
        filled = np.flatnonzero(usual_B > _ABOVE_ROUNDING * rounding)
        return float((filled[-1] + 1) * _BAND_HZ) if len(filled) else None

    def _audible(self) -> Measures:
        """sound_s: seconds from the first to the last moment that is audible next to the loud ones; floor_db: the quiet
        moments between them below the loud ones; padding_s: of digital silence before and behind everything else."""
        power = np.concatenate(self.levels) if self.levels else np.empty(0, np.float32)
        if not len(power) or not power.max():
            return {"sound_s": None, "floor_db": None, "padding_s": None}
        loud = float(np.percentile(power[power > 0], 95))
        audible_part = np.flatnonzero(power > loud * 10 ** (-_LOUD_DB / 10))
        quiet = float(np.percentile(power[audible_part[0] : audible_part[-1] + 1], 10))
        floor_db = max(10 * np.log10(quiet / loud), _LOWEST_DB) if quiet else _LOWEST_DB
        held = np.flatnonzero(power > min(_DIGITAL_SILENCE, loud))
        return {
            "sound_s": (audible_part[-1] - audible_part[0] + 1) * _LEVEL_S,
            "floor_db": floor_db,
            "padding_s": (len(power) - (held[-1] - held[0] + 1)) * _LEVEL_S if len(held) else 0.0,
        }
