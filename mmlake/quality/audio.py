"""Audio: measures and rules. Levels and clipping on the source's own samples; silence and noise on the mono 16 kHz
track. The source is decoded once for all spans of a recording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mmlake.decoders import placed_sound
from mmlake.quality.audio_fidelity import FIDELITY_MEASURES, Fidelity, is_lossless
from mmlake.quality.damage import DAMAGE_MEASUREMENT, DAMAGED
from mmlake.quality.measurement import Measurement, Measures, Subject
from mmlake.quality.rule import Rule, unmeasured
from mmlake.quality.transcript import STRAY_LINES, TRANSCRIPT_MEASUREMENT, WRONG_TRANSCRIPT
from mmlake.spans import Span

# T analysis frames, B bands, F frequency bins
_CLIP_RUN = 3  # consecutive samples at the extreme; one or two are a peak that happened to touch it
_CLIP_MIN_PEAK = 0.1  # of full scale; in a quieter file a run at the extreme is only coarse quantization
_CLIP_NEAR = 0.9995  # of the extreme; lossy codecs blur a flat top by a little
_SILENT_DBFS = -60.0
_FRAME_S = 0.02
_FFT, _HOP, _BAND_BINS = 512, 256, 16  # 32 ms at 16 kHz, bands of 500 Hz
_SMOOTH_FRAMES = 5
_FLOOR_PERCENTILE = 15
_BAND_PERCENTILE = 30
_FIRST_BIN = 3  # 94 Hz: rumble below speech would count as noise or as signal by chance
_MIN_AUDIBLE_S = 1.0  # a single syllable has no pause, so its noise floor is not distinct from its signal
_MIN_SNR_DB, _MAX_SNR_DB = -20.0, 100.0


def audio_measures(subject: Subject) -> Measures:
    """The measures of one recording; both its own samples and its mono track are decoded."""
    assert subject.path is not None
    source = _Source()
    for rate_hz, _, block in placed_sound(subject.path):
        source.add(block, rate_hz)
    return _measures(subject, source.found(is_lossless(subject.path)))


def audio_span_measures(subjects: Sequence[Subject]) -> Iterable[Measures]:
    """The measures of spans of one recording, in order. Its own samples are decoded once, and of its mono track those
    of one span at a time."""
    path, spans = subjects[0].path, [subject.span_s for subject in subjects if subject.span_s is not None]
    assert path is not None and len(spans) == len(subjects)
    return map(_measures, subjects, _of_spans(path, spans))


def _of_spans(path: Path, spans: Sequence[Span]) -> Iterator[Measures]:
    is_kept = is_lossless(path)
    return (source.found(is_kept) for source in _sources(path, spans))


def _measures(subject: Subject, of_source: Measures) -> Measures:
    assert subject.sound is not None
    samples, rate_hz = subject.sound.samples()
    return {
        "duration_s": subject.track["duration_s"],
        **of_source,
        "silent_fraction": silent_fraction(samples, rate_hz),
        "snr_db": snr_db(samples),
    }


def blocks(path: Path) -> Iterator[np.ndarray]:
    """The recording in blocks of float32 samples, shape (num_samples, num_channels), full scale 1, at its own rate."""
    return (block for _, _, block in placed_sound(path))


def span_levels(path: Path, spans: Sequence[Span]) -> Iterator[Measures]:
    """`levels` of each span of the recording, in order; their sound is decoded once. Those of a span that lies behind
    the sound are null."""
    return (source.level.found() for source in _sources(path, spans))


def _sources(path: Path, spans: Sequence[Span]) -> Iterator[_Source]:
    """What is known of each span, in order, from one decode."""
    at, source = 0, _Source()
    for rate_hz, position, block in placed_sound(path, from_s=spans[0][0]):
        while at < len(spans):
            start, end = (round(border * rate_hz) - position for border in spans[at])
            if max(start, 0) < min(end, len(block)):
                source.add(block[max(start, 0) : end], rate_hz)
            if end > len(block):
                break  # goes on in the next block, or begins there
            yield source
            at, source = at + 1, _Source()
        if at == len(spans):
            return
    for _ in spans[at:]:
        yield source
        source = _Source()


def levels(parts: Iterable[np.ndarray]) -> Measures:
    """rms_dbfs, peak_dbfs, dc_offset and clipped_fraction of the blocks; levels of digital silence are null.

    clipped_fraction: share of samples in runs of at least three at the file's own extreme, per channel. The extreme is
    known only at the end, so the count starts again whenever a louder block comes.
    """
    level = _Levels()
    for block in parts:
        level.add(block)
    return level.found()


@dataclass(slots=True)
class _Levels:
    """What `levels` knows of the blocks so far."""

    power: float = 0.0
    total: float = 0.0
    peak: float = 0.0
    count: int = 0
    clipped: int = 0
    tail: np.ndarray | None = None

    def add(self, block: np.ndarray) -> None:
        """Take the next block."""
        self.power += float(np.einsum("ij,ij->", block, block, dtype=np.float64))
        self.total += float(block.sum(dtype=np.float64))
        self.count += block.size
        highest, tail = float(np.abs(block).max(initial=0.0)), self.tail
        joined = block if tail is None or tail.shape[1] != block.shape[1] else np.concatenate([tail, block])
        if highest > self.peak:
            if self.peak < highest * _CLIP_NEAR:
                self.clipped = 0
            self.peak = highest
        if highest >= self.peak * _CLIP_NEAR:
            self.clipped += _clipped(joined, self.peak, len(joined) - len(block))
        self.tail = joined[-(_CLIP_RUN - 1) :]

    def found(self) -> Measures:
        """The measures of all blocks."""
        if not self.count:
            return {"rms_dbfs": None, "peak_dbfs": None, "dc_offset": None, "clipped_fraction": None}
        return {
            "rms_dbfs": 10 * np.log10(self.power / self.count) if self.power else None,
            "peak_dbfs": 20 * np.log10(self.peak) if self.peak else None,
            "dc_offset": self.total / self.count,
            "clipped_fraction": self.clipped / self.count if self.peak >= _CLIP_MIN_PEAK else 0.0,
        }


@dataclass(slots=True)
class _Source:
    """What is known of the source's own samples so far."""

    level: _Levels = field(default_factory=_Levels)
    fidelity: Fidelity = field(default_factory=Fidelity)

    def add(self, block: np.ndarray, rate_hz: int) -> None:
        """Take the next block."""
        self.level.add(block)
        self.fidelity.add(block, rate_hz)

    def found(self, is_kept: bool) -> Measures:
        """The measures of all blocks."""
        return {**self.level.found(), **self.fidelity.found(is_lossless=is_kept)}


def _clipped(block: np.ndarray, peak: float, overlap: int) -> int:
    """Samples of the block after its first `overlap` that lie in runs at the extreme; the few of a run that
    straddles a border count once."""
    found = 0
    for sign in (1, -1):
        at_top = (sign * block) >= peak * _CLIP_NEAR
        runs = at_top[:-2] & at_top[1:-1] & at_top[2:]
        inside = np.zeros_like(at_top)
        inside[:-2] |= runs
        inside[1:-1] |= runs
        inside[2:] |= runs
        found += int(inside[overlap:].sum())
    return found


def silent_fraction(samples: np.ndarray, rate_hz: int) -> float | None:
    """Share of 20 ms frames below -60 dBFS."""
    size = max(1, round(_FRAME_S * rate_hz))
    whole = samples[: len(samples) // size * size].reshape(-1, size)
    if not len(whole):
        return None
    power = np.einsum("ij,ij->i", whole, whole) / size
    return float((power < 10 ** (_SILENT_DBFS / 10)).mean())


def snr_db(samples: np.ndarray) -> float | None:
    """Signal-to-noise ratio in dB, -20 to 100; None where less than a second is audible.

    samples: float32 mono at 16 kHz. Method: the noise is what stays in every band (15th percentile over time, after
    Martin 2001) and has no peaks within it (30th percentile over 500 Hz, so that tones and harmonics count as signal);
    both are scaled by what white noise gives. Steady broad-band noise is found; babble is not.
    """
    if len(samples) < _MIN_AUDIBLE_S * 16_000:
        return None
    powers: list[np.ndarray] = []
    floors: list[np.ndarray] = []
    window = np.hanning(_FFT).astype(np.float32)
    num_frames = (len(samples) - _FFT) // _HOP + 1
    for start in range(0, num_frames, 4096):  # a minute at a time
        stop = min(num_frames, start + 4096)
        part = np.lib.stride_tricks.sliding_window_view(samples[start * _HOP : (stop - 1) * _HOP + _FFT], _FFT)[::_HOP]
        spectrum_TF = np.abs(np.fft.rfft(part * window, axis=1)[:, _FIRST_BIN:]) ** 2
        bands_TBK = spectrum_TF[:, : spectrum_TF.shape[1] // _BAND_BINS * _BAND_BINS].reshape(len(part), -1, _BAND_BINS)
        powers.append(bands_TBK.sum(axis=(1, 2)))
        floors.append(np.percentile(bands_TBK, _BAND_PERCENTILE, axis=2) * bands_TBK.shape[2])
    power_T, floor_TB = np.concatenate(powers), np.concatenate(floors)
    audible_T = power_T > 1e-9 * _FFT  # gaps that were filled with silence say nothing about the noise
    if audible_T.sum() * _HOP < 0.9 * _MIN_AUDIBLE_S * 16_000:
        return None
    power_T, floor_TB = power_T[audible_T], floor_TB[audible_T]
    smooth_TB = np.cumsum(np.vstack([np.zeros_like(floor_TB[:1]), floor_TB]), axis=0)
    smooth_TB = (smooth_TB[_SMOOTH_FRAMES:] - smooth_TB[:-_SMOOTH_FRAMES]) / _SMOOTH_FRAMES
    noise = float(np.percentile(smooth_TB, _FLOOR_PERCENTILE, axis=0).sum()) / _FLOOR_BIAS
    signal = float(power_T.mean()) - noise
    if noise <= 0:
        return _MAX_SNR_DB
    return float(np.clip(10 * np.log10(max(signal, 1e-12 * noise) / noise), _MIN_SNR_DB, _MAX_SNR_DB))


AUDIO_MEASUREMENTS = (
    Measurement(
        name="audio",
        modalities=("audio",),
        measures=(
            *("duration_s", "rms_dbfs", "peak_dbfs", "dc_offset", "clipped_fraction", "silent_fraction", "snr_db"),
            *FIDELITY_MEASURES,
        ),
        columns=("duration_s",),
        take=audio_measures,
        take_spans=audio_span_measures,
        needs_file=True,
        needs_sound=True,
        revision="2",
    ),
    DAMAGE_MEASUREMENT,
    TRANSCRIPT_MEASUREMENT,
)

# noise estimate over noise power on white noise (10 seeds of 20 s, spread 0.001): what both percentiles take away
# together
_FLOOR_BIAS = 0.331

AUDIO_RULES = (
    unmeasured("audio"),
    Rule(
        name="silent",
        error_code=4401,
        severity="P1",
        measure="silent_fraction",
        high=0.98,
        what="Nearly all of the recording is below -60 dBFS.",
        fix="Check the microphone or the channel at the source.",
    ),
    Rule(
        name="clipped",
        error_code=4402,
        severity="P1",
        measure="clipped_fraction",
        high=0.001,
        what="The wave's tops are cut off flat.",
        fix="Record at a lower gain; cut tops cannot be brought back.",
    ),
    Rule(
        name="noisy",
        error_code=4403,
        severity="P2",
        measure="snr_db",
        unit="dB",
        low=5,
        what="Steady noise nearly masks the signal.",
        fix="Denoise it, or leave it at its smaller weight.",
    ),
    Rule(
        name="too_short_audio",
        error_code=4404,
        severity="P1",
        measure="duration_s",
        unit="s",
        low=0.1,
        what="The recording is shorter than a syllable.",
        fix="Join it with its neighbours, or drop it.",
    ),
    WRONG_TRANSCRIPT,
    STRAY_LINES,
    DAMAGED,
)
