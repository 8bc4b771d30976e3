"""Audio: measures and rules. Levels and clipping on the source's own samples; silence and noise on the mono 16 kHz
track."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mmlake.decoders import frames, open_media
from mmlake.quality.measurement import Measurement, Measures, Subject
from mmlake.quality.rule import Rule, unmeasured
from mmlake.quality.transcript import TRANSCRIPT_MEASUREMENT, WRONG_TRANSCRIPT

# T analysis frames, B bands, F frequency bins
_BLOCK_SAMPLES = 1 << 16
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
    import soundfile

    assert subject.path is not None
    measures: Measures = {"duration_s": subject.track["duration_s"], **levels(blocks(subject.path))}
    samples, rate_hz = soundfile.read(io.BytesIO(subject.blobs[0]), dtype="float32")
    measures["silent_fraction"] = silent_fraction(samples, rate_hz)
    measures["snr_db"] = snr_db(samples)
    return measures


def blocks(path: Path) -> Iterator[np.ndarray]:
    """The recording in blocks of float32 samples, shape (num_samples, num_channels), full scale 1, at its own rate."""
    import soundfile

    if path.suffix == ".mp3":
        yield from _decoded(path)  # libsndfile's MP3 decoder writes its complaints to stderr, past every log
        return
    try:
        with soundfile.SoundFile(path) as sound:
            yield from sound.blocks(blocksize=_BLOCK_SAMPLES, dtype="float32", always_2d=True)
        return
    except soundfile.LibsndfileError:
        pass  # AAC, WMA, AMR, sound inside of video containers
    yield from _decoded(path)


def _decoded(path: Path) -> Iterator[np.ndarray]:
    import av

    with open_media(path) as container:
        planar = av.AudioResampler(format="fltp")
        for frame in frames(container, container.streams.audio[0]):
            for part in planar.resample(frame):
                yield part.to_ndarray().T


def levels(parts: Iterator[np.ndarray]) -> dict[str, float | None]:
    """rms_dbfs, peak_dbfs, dc_offset and clipped_fraction of the blocks; levels of digital silence are null.

    clipped_fraction: share of samples in runs of at least three at the file's own extreme, per channel. The extreme is
    known only at the end, so the count starts again whenever a louder block comes.
    """
    power = total = peak = 0.0
    count = clipped = 0
    tail: np.ndarray | None = None
    for block in parts:
        power += float(np.einsum("ij,ij->", block, block, dtype=np.float64))
        total += float(block.sum(dtype=np.float64))
        count += block.size
        highest = float(np.abs(block).max(initial=0.0))
        joined = block if tail is None or tail.shape[1] != block.shape[1] else np.concatenate([tail, block])
        if highest > peak:
            if peak < highest * _CLIP_NEAR:
                clipped = 0
            peak = highest
        if highest >= peak * _CLIP_NEAR:
            clipped += _clipped(joined, peak, len(joined) - len(block))
        tail = joined[-(_CLIP_RUN - 1) :]
    if not count:
        return {"rms_dbfs": None, "peak_dbfs": None, "dc_offset": None, "clipped_fraction": None}
    return {
        "rms_dbfs": 10 * np.log10(power / count) if power else None,
        "peak_dbfs": 20 * np.log10(peak) if peak else None,
        "dc_offset": total / count,
        "clipped_fraction": clipped / count if peak >= _CLIP_MIN_PEAK else 0.0,
    }


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
        measures=("duration_s", "rms_dbfs", "peak_dbfs", "dc_offset", "clipped_fraction", "silent_fraction", "snr_db"),
        columns=("duration_s", "audio_digest"),
        take=audio_measures,
        blobs=lambda track: [track["audio_digest"]],
        needs_file=True,
    ),
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
)
