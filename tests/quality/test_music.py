"""How much of a sound is music: notes hold their frequencies, voices glide, noise has none, hum never ends."""

import io

import av
import numpy as np
import pytest

from mmlake.quality import music
from mmlake.quality.music import music_fraction
from tests.preprocess.speech import speech

RATE_HZ = 16_000


def tune(seconds: int, *, note_s: float = 0.5) -> np.ndarray:
    """Chords of three notes with four partials each, that change twice a second."""
    rng = np.random.default_rng(3)
    t = np.arange(round(note_s * RATE_HZ)) / RATE_HZ
    chords = []
    for _ in range(round(seconds / note_s)):
        roots_hz = 220 * 2 ** (rng.integers(0, 24, 3) / 12)
        chords.append(sum(np.sin(2 * np.pi * k * hz * t) / k for hz in roots_hz for k in (1, 2, 3, 4)))
    return (0.1 * np.concatenate(chords)).astype(np.float32)


def gliding_voice(seconds: int) -> np.ndarray:
    """Thirty partials of a pitch that never stands still."""
    t = np.arange(seconds * RATE_HZ) / RATE_HZ
    phase = 2 * np.pi * np.cumsum(140 + 35 * np.sin(2 * np.pi * 0.7 * t)) / RATE_HZ
    return (0.05 * sum(np.sin(k * phase) / k for k in range(1, 31))).astype(np.float32)


def noise(seconds: int) -> np.ndarray:
    return np.random.default_rng(5).normal(0, 0.05, seconds * RATE_HZ).astype(np.float32)


def hum(seconds: int) -> np.ndarray:
    t = np.arange(seconds * RATE_HZ) / RATE_HZ
    return (0.1 * sum(np.sin(2 * np.pi * 50 * k * t) / k for k in range(1, 9))).astype(np.float32) + noise(seconds) / 10


@pytest.mark.parametrize("sound", [noise, hum, gliding_voice])
def test_what_holds_no_notes_is_no_music(sound):
    assert music_fraction(sound(20)) <= 0.05  # a voice that turns at the end of the sound holds still there


@pytest.mark.parametrize("ratio_db", [10, 5, 0])
def test_hum_under_speech_is_no_music(ratio_db):
    """A voice covers the lines of a hum, which then resemble notes that come and go."""
    said = np.concatenate([one.samples for one in speech()[:5]])
    lines = hum(len(said) // RATE_HZ + 1)[: len(said)]
    found = music_fraction(said + lines * np.sqrt((said**2).mean() / (lines**2).mean() / 10 ** (ratio_db / 10)))
    assert found <= 0.2


def in_layer_two(samples: np.ndarray, rate_hz: int) -> np.ndarray:
    """The samples coded as MPEG layer II at that rate and decoded, as 16 bits."""
    sink = io.BytesIO()
    with av.open(sink, "w", format="mp2") as written:
        stream = written.add_stream("mp2", rate=rate_hz, layout="mono", bit_rate=160_000)
        frame = av.AudioFrame.from_ndarray(samples[None], "fltp", "mono")
        frame.sample_rate = RATE_HZ
        resampler = av.AudioResampler("s16", "mono", rate_hz, frame_size=1_152)
        for part in [*resampler.resample(frame), *resampler.resample(None), None]:
            written.mux(stream.encode(part))
    sink.seek(0)
    with av.open(sink) as read:
        resampler = av.AudioResampler("s16", "mono", RATE_HZ)
        parts = [part for frame in [*read.decode(audio=0), None] for part in resampler.resample(frame)]
    return np.concatenate([part.to_ndarray()[0] for part in parts]).astype(np.float32) / 32768


@pytest.mark.parametrize("rate_hz", [16_000, 22_050, 24_000])
def test_speech_in_mpeg_layer_two_is_no_music(rate_hz):
    """The encoder leaves tones in the last bits, at multiples of a 32nd of the rate, which nobody plays."""
    assert music_fraction(in_layer_two(gliding_voice(6), rate_hz)) <= 0.2


def test_soft_music_in_mpeg_layer_two_is_music():
    assert music_fraction(in_layer_two(tune(6) / 100, 16_000)) == 1.0


def test_soft_notes_where_subbands_end_are_music():
    t = np.arange(6 * RATE_HZ) / RATE_HZ
    notes = sum(np.sin(2 * np.pi * 500 * k * t) for k in range(1, 9)).astype(np.float32)
    assert music_fraction(notes * 2**-13) == 1.0  # twice as loud as what an encoder leaves


def test_a_tune_is_music_and_so_is_one_under_a_voice():
    assert music_fraction(tune(20)) == 1.0
    assert music_fraction(tune(20) * 0.5 + gliding_voice(20)) > 0.9


def test_half_of_a_recording_is_half():
    assert music_fraction(np.concatenate([tune(20), noise(20)])) == pytest.approx(0.5, abs=0.06)


def test_below_three_seconds_nobody_can_say():
    assert music_fraction(tune(2)) is None
    assert music_fraction(tune(3)) == 1.0


def test_a_long_sound_is_measured_in_chunks_that_leave_no_trace(monkeypatch):
    sound = np.concatenate([noise(9), tune(17), gliding_voice(9)])
    whole = music_fraction(sound)
    monkeypatch.setattr(music, "_CHUNK_S", 7)
    assert music_fraction(sound) == whole
