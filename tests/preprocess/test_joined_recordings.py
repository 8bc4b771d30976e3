"""Recordings without a container that were laid end to end, as `cat a.mp3 b.mp3` does it."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

import av
import numpy as np
import pytest
from preprocess_media import tone
from scipy.signal import get_window

from mmlake.loader.decode import DECODERS
from mmlake.media.decoders import placed_sound
from mmlake.preprocess.audio import audio_track
from mmlake.preprocess.settings import PreprocessSettings

FORMS = {"mp3": ("mp3", "libmp3lame"), "aac": ("adts", "aac"), "ac3": ("ac3", "ac3"), "mp2": ("mp2", "mp2")}
FIRST_HZ, SECOND_HZ, EACH_S = 440.0, 880.0, 2.0


@cache
def part(kind: str, rate_hz: int, layout: str, pitch_hz: float) -> bytes:
    """Two seconds of a tone."""
    (form, codec), sink = FORMS[kind], io.BytesIO()
    sound = tone(EACH_S, rate_hz, pitch_hz=pitch_hz).astype(np.float32)
    with av.open(sink, "w", format=form) as container:
        stream = container.add_stream(codec, rate=rate_hz, layout=layout)
        wanted = stream.codec_context.format.name
        frame = av.AudioFrame.from_ndarray(np.stack([sound] * (1 + (layout == "stereo"))), "fltp", layout)
        frame.sample_rate = rate_hz
        resampler = av.AudioResampler(format=wanted, layout=layout, rate=rate_hz, frame_size=stream.frame_size or 1152)
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            container.mux(stream.encode(piece))
        container.mux(stream.encode(None))
    return sink.getvalue()


def pitch_hz(samples: np.ndarray, rate_hz: int) -> float:
    """The strongest tone."""
    spectrum = np.abs(np.fft.rfft(samples * get_window("hann", len(samples))))
    return float(np.argmax(spectrum) * rate_hz / len(samples))


def check_halves(samples: np.ndarray, rate_hz: int) -> None:
    """Both tones are there, each in its half, and nothing is there twice."""
    assert len(samples) / rate_hz == pytest.approx(2 * EACH_S, abs=0.15)  # what encoders put before and behind
    inner = round(0.4 * rate_hz)
    first, second = np.array_split(samples, 2)
    assert pitch_hz(first[inner:-inner], rate_hz) == pytest.approx(FIRST_HZ, abs=2)
    assert pitch_hz(second[inner:-inner], rate_hz) == pytest.approx(SECOND_HZ, abs=2)


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize(
    ("rates_hz", "layouts"),
    [
        ((44_100, 44_100), ("mono", "mono")),
        ((44_100, 32_000), ("mono", "mono")),
        ((32_000, 48_000), ("stereo", "mono")),
        ((48_000, 48_000), ("mono", "stereo")),
    ],
    ids="same lower higher wider".split(),
)
def test_both_are_read_by_tracks_measures_and_loader(
    tmp_path: Path, kind: str, rates_hz: tuple[int, int], layouts: tuple[str, str]
) -> None:
    """The second was refused (3002), cut short, or missing in batches, where the first frame of an MP3 counts itself
    alone."""
    parts = [part(kind, *one) for one in zip(rates_hz, layouts, (FIRST_HZ, SECOND_HZ), strict=True)]
    path = tmp_path / f"joined.{kind}"
    path.write_bytes(b"".join(parts))
    columns, flac = audio_track(path, settings=PreprocessSettings())
    assert (columns["sample_rate_hz"], columns["damages"]) == (max(rates_hz), [])
    check_halves(DECODERS["sound"](flac), 16_000)
    check_halves(DECODERS["sound"](path.read_bytes()), 16_000)
    blocks = list(placed_sound(path))
    assert {(rate_hz, block.shape[1]) for rate_hz, _, block in blocks} == {(rates_hz[0], 1 + (layouts[0] == "stereo"))}
    own = np.zeros(blocks[-1][1] + len(blocks[-1][2]), np.float32)
    for _, position, block in blocks:
        own[position : position + len(block)] = block[:, 0]
    check_halves(own, rates_hz[0])


def test_an_mp3_that_counts_its_own_frames_is_as_long_as_they_are(tmp_path: Path) -> None:
    """No part of a file is missing because another one is behind it."""
    (path := tmp_path / "one.mp3").write_bytes(part("mp3", 44_100, "mono", FIRST_HZ))
    columns, _ = audio_track(path, settings=PreprocessSettings())
    assert (columns["duration_s"], columns["container_duration_s"]) == pytest.approx((EACH_S, EACH_S), abs=1e-3)
