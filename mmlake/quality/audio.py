"""Audio: measures and rules. Levels, clipping and loudness on the source's own samples; silence, speech and noise on
the mono 16 kHz track. The source is decoded once for all spans of a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from mmlake.media.decoders import placed_sound
from mmlake.media.sound_conversion import Block
from mmlake.quality.audio_fidelity import FIDELITY_MEASURES, Fidelity, coded_kbps, is_lossless
from mmlake.quality.damage import DAMAGE_MEASUREMENT, DAMAGED
from mmlake.quality.loudness import Loudness
from mmlake.quality.measurement import Measurement, Measures, Subject, Track
from mmlake.quality.mos import MOS_MEASUREMENT, POOR_SPEECH
from mmlake.quality.music import MUSIC_MEASUREMENT
from mmlake.quality.noise import snr_db
from mmlake.quality.quantization import quantization_step
from mmlake.quality.rule import Rule, unmeasured
from mmlake.quality.silence import Silence
from mmlake.quality.transcript import STRAY_LINES, TRANSCRIPT_MEASUREMENT, WRONG_TRANSCRIPT
from mmlake.spans import Span

_CLIP_RUN = 3  # consecutive samples at the extreme; one or two are a peak that happened to touch it
_CLIP_MIN_PEAK = 0.2  # of full scale, -14 dBFS; quieter peaks touch no limit
_CORNER = 6.0  # step at an end of a flat top over what the top swings by; the peak of a low voice has 3 at most
_CHUNK_SAMPLES = 1 << 16  # that runs are sought in, so that they do not depend on the blocks of a decoder
_CLIP_NEAR = 0.9995  # of the extreme; lossy codecs blur a flat top by a little
_MOST_DBFS = 20.0  # of a peak: mixes of floats go beyond full scale by the level of a few voices, not tenfold
# share of a recording from which on its bandwidth is that of a voice, and what it needs above the noise, which would
# cover its upper bands
_MIN_SPOKEN, _CLEAR_DB = 0.2, 10.0


def audio_measures(subject: Subject) -> Measures:
    """The measures of one recording; both its own samples and its mono track are decoded."""
    assert subject.path is not None
    source = _Source()
    for rate_hz, _, block in placed_sound(subject.path):
        source.add(block, rate_hz)
    return _measures(subject, source, is_lossless(subject.path), coded_kbps(subject.path))


def audio_span_measures(subjects: Sequence[Subject]) -> Iterable[Measures]:
    """The measures of spans of one recording, in order. Its own samples are decoded once, and of its mono track those
    of one span at a time."""
    path, spans = subjects[0].path, [subject.span_s for subject in subjects if subject.span_s is not None]
    assert path is not None and len(spans) == len(subjects)
    is_kept, kbps = is_lossless(path), coded_kbps(path)
    return (_measures(*found, is_kept, kbps) for found in zip(subjects, _sources(path, spans), strict=True))


def _measures(subject: Subject, source: _Source, is_kept: bool, kbps: float | None) -> Measures:
    """is_kept, kbps: what is known of the file's codec."""
    assert subject.sound is not None
    of_source = source.found(is_kept, kbps)
    samples, rate_hz = subject.sound.samples()
    spoken, ratio_db = speech_fraction(subject.track), snr_db(samples, subject.track["speech"])
    is_clear = (spoken or 0.0) >= _MIN_SPOKEN and ratio_db is not None and ratio_db >= _CLEAR_DB
    return {
        "duration_s": subject.track["duration_s"],
        **of_source,
        "silent_fraction": source.silence.fraction(len(samples) / rate_hz),
        "snr_db": ratio_db,
        "speech_fraction": spoken,
        "voice_bandwidth_hz": of_source["bandwidth_hz"] if is_clear else None,
    }


def speech_fraction(track: Track) -> float | None:
    """Share of the unit in which somebody speaks; None where no voice detector ran."""
    speech, duration_s = track["speech"], track["duration_s"]
    if speech is None or not duration_s:
        return None
    return min(1.0, float(sum(one["end_s"] - one["start_s"] for one in speech) / duration_s))


def blocks(path: Path) -> Iterator[np.ndarray]:
    """The recording in blocks of float32 samples, shape (num_samples, num_channels), full scale 1, at its own rate."""
    return (block for _, _, block in placed_sound(path))


def span_levels(path: Path, spans: Sequence[Span]) -> Iterator[Measures]:
    """`levels` of each span of the recording, in order; their sound is decoded once. Those of a span that lies behind
    the sound are null."""
    return (source.level.found() for source in _sources(path, spans))


def _sources(path: Path, spans: Sequence[Span]) -> Iterator[_Source]:
    """What is known of each span, in order, from one decode."""
    return of_spans(placed_sound(path, from_s=spans[0][0]), spans, _Source)


class Taker(Protocol):
    """What takes sound block by block."""

    def add(self, block: np.ndarray, rate_hz: int) -> None:
        """Take the next block, float32 of shape (num_samples, num_channels)."""


T = TypeVar("T", bound=Taker)


def of_spans(placed: Iterable[Block], spans: Sequence[Span], begin: Callable[[], T]) -> Iterator[T]:
    """One of these for each span, in order, that has taken its sound. placed: in order, from the first span on."""
    at, source = 0, begin()
    for rate_hz, position, block in placed:
        while at < len(spans):
            start, end = (round(border * rate_hz) - position for border in spans[at])
            if max(start, 0) < min(end, len(block)):
                source.add(block[max(start, 0) : end], rate_hz)
            if end > len(block):
                break  # goes on in the next block, or begins there
            yield source
            at, source = at + 1, begin()
        if at == len(spans):
            return
    for _ in spans[at:]:
        yield source
        source = begin()


def levels(parts: Iterable[np.ndarray]) -> Measures:
    """rms_dbfs, peak_dbfs, dc_offset and clipped_fraction of the blocks; levels of digital silence are null.

    clipped_fraction: share of samples in flat tops of at least three at the file's own extreme, per channel. It is
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
    tail: np.ndarray | None = None  # of the chunk before
    rest: list[np.ndarray] = field(default_factory=list)  # of the next chunk
    num_rest: int = 0

    def add(self, block: np.ndarray) -> None:
        """Take the next block."""
        self.power += float(np.einsum("ij,ij->", block, block, dtype=np.float64))
        self.total += float(block.sum(dtype=np.float64))
        self.count += block.size
        if self.rest and self.rest[0].shape[1] != block.shape[1]:
            self._take_rest()
        self.rest.append(block)
        self.num_rest += len(block)
        if self.num_rest >= _CHUNK_SAMPLES:
            chunks = np.concatenate(self.rest)
            whole = len(chunks) // _CHUNK_SAMPLES * _CHUNK_SAMPLES
            for start in range(0, whole, _CHUNK_SAMPLES):
                self._take(chunks[start : start + _CHUNK_SAMPLES])
            self.rest, self.num_rest = [chunks[whole:]], len(chunks) - whole

    def _take_rest(self) -> None:
        if self.num_rest:
            self._take(np.concatenate(self.rest))
        self.rest, self.num_rest = [], 0

    def _take(self, chunk: np.ndarray) -> None:
        highest, tail = float(np.abs(chunk).max(initial=0.0)), self.tail
        joined = chunk if tail is None or tail.shape[1] != chunk.shape[1] else np.concatenate([tail, chunk])
        if highest > self.peak:
            if self.peak < highest * _CLIP_NEAR:
                self.clipped = 0
            self.peak = highest
        if highest >= self.peak * _CLIP_NEAR:
            self.clipped += _clipped(joined, self.peak, len(joined) - len(chunk))
        self.tail = joined[-(_CLIP_RUN - 1) :]

    def found(self) -> Measures:
        """The measures of all blocks."""
        self._take_rest()
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
    loudness: Loudness = field(default_factory=Loudness)
    silence: Silence = field(default_factory=Silence)

    def add(self, block: np.ndarray, rate_hz: int) -> None:
        """Take the next block."""
        self.level.add(block)
        self.fidelity.add(block, rate_hz)
        self.loudness.add(block, rate_hz)
        self.silence.add(block, rate_hz)

    def found(self, is_kept: bool, kbps: float | None) -> Measures:
        """The measures of all blocks. is_kept, kbps: what is known of the file's codec."""
        fidelity = self.fidelity.found(is_lossless=is_kept, kbps=kbps)
        return {**self.level.found(), **fidelity, "loudness_lufs": self.loudness.found()}


def _clipped(block: np.ndarray, peak: float, overlap: int) -> int:
    """Samples of the block after its first `overlap` that lie in flat tops at the extreme; the few of one that
    straddles a border count once.

    A flat top has a corner: the wave arrives there at full speed. The peak of a low voice stays as near to the extreme
    for as long, and bends.
    """
    found = 0
    for sign in (1, -1):
        for channel in (sign * block).T:
            at_top = np.concatenate([[False], channel >= peak * _CLIP_NEAR, [False]])
            edges = np.flatnonzero(np.diff(at_top.astype(np.int8))).reshape(-1, 2)
            runs = edges[edges[:, 1] - edges[:, 0] >= _CLIP_RUN].tolist()
            if runs:
                least = quantization_step(channel)
                cut = (one for one in runs if _has_corner(channel, *one, least=least))
                found += sum(max(0, end - max(start, overlap)) for start, end in cut)
    return found


def _has_corner(channel: np.ndarray, start: int, end: int, *, least: float) -> bool:
    """Whether the samples from start to end are cut off rather than bent; True where nothing is left at either side."""
    ends = ((start - 1, start), (end, end - 1))
    outside = [abs(float(channel[at] - channel[near])) for at, near in ends if 0 <= at < len(channel)]
    return not outside or max(outside) >= _CORNER * (float(np.ptp(channel[start:end])) + least)


AUDIO_MEASUREMENTS = (
    Measurement(
        name="audio",
        modalities=("audio",),
        measures=(
            *("duration_s", "rms_dbfs", "peak_dbfs", "dc_offset", "clipped_fraction", "silent_fraction", "snr_db"),
            *("loudness_lufs", "speech_fraction", "voice_bandwidth_hz"),
            *FIDELITY_MEASURES,
        ),
        columns=("duration_s", "speech"),
        take=audio_measures,
        take_spans=audio_span_measures,
        needs_file=True,
        needs_sound=True,
        revision="9",
    ),
    MUSIC_MEASUREMENT,
    MOS_MEASUREMENT,
    DAMAGE_MEASUREMENT,
    TRANSCRIPT_MEASUREMENT,
)

NOISY = Rule(
    name="noisy",
    error_code=4403,
    severity="P2",
    measure="snr_db",
    unit="dB",
    low=5,
    exempt=(("music_fraction", 0.5, None), ("speech_fraction", None, 0.05)),  # nothing is said that it could mask
    what="Noise, other voices or music nearly mask what is said.",
    fix="Denoise it, or leave it at its smaller weight.",
)

QUIET = Rule(
    name="quiet",
    error_code=4405,
    severity="P2",
    measure="loudness_lufs",
    unit="LUFS",
    low=-50,
    what="The sound is far quieter than speech at any usual gain.",
    fix="Fetch the original, or leave it at its smaller weight; a gain brings up its noise as well.",
)

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
        name="over_scale",
        error_code=4408,
        severity="P1",
        measure="peak_dbfs",
        unit="dBFS",
        high=_MOST_DBFS,
        what="Samples of floats go far beyond full scale, as numbers that were never divided by it do: whatever plays "
        "or converts them cuts the wave to squares.",
        fix="Divide the samples by their full scale (32,768 where they were 16 bit), and land the file again.",
    ),
    NOISY,
    QUIET,
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
    Rule(
        name="narrow_band",
        error_code=4406,
        severity="P2",
        measure="voice_bandwidth_hz",
        unit="Hz",
        low=3_000,
        what="Speech ends below the band of a telephone.",
        fix="Fetch a rendition with a higher sample rate or bit rate, or leave it at its smaller weight.",
    ),
    POOR_SPEECH,
    WRONG_TRANSCRIPT,
    STRAY_LINES,
    DAMAGED,
)
