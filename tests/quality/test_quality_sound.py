"""Noise under speech, loudness, clipping and bandwidth of recordings, and the sound of films."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile
from quality_media import RATE_HZ, audio_track, measures_of, rules_broken, sound, video_track, voice

from mmlake.quality.audio import levels
from mmlake.quality.loudness import Loudness
from mmlake.quality.noise import snr_db
from mmlake.store import BlobStore
from tests.preprocess.speech import speech

SECONDS = 8


@pytest.fixture
def store(tmp_path):
    return BlobStore(tmp_path)


def spans(*found: tuple[float, float]) -> list[dict[str, float]]:
    return [{"start_s": start_s, "end_s": end_s} for start_s, end_s in found]


def tone(duration_s: float, level_dbfs: float, rate_hz: int = 48_000, pitch_hz: float = 1000.0) -> np.ndarray:
    """A sine whose peak has this level."""
    return 10 ** (level_dbfs / 20) * np.sin(2 * np.pi * pitch_hz * np.arange(round(duration_s * rate_hz)) / rate_hz)


def talk(*, pause_s: float) -> tuple[np.ndarray, list[dict[str, float]]]:
    """(sentences with these pauses, where they lie)."""
    rest, placed, found, at = np.zeros(round(pause_s * RATE_HZ), np.float32), [], [], 0.0
    for said in speech()[:5]:
        start_s, end_s = said.spans_s[0]
        part = said.samples[round(start_s * RATE_HZ) : round(end_s * RATE_HZ)]
        placed += [part, rest]
        found.append((at, at + len(part) / RATE_HZ))
        at = found[-1][1] + pause_s
    return np.concatenate(placed), spans(*found)


def with_noise(samples: np.ndarray, noise: np.ndarray, ratio_db: float, found: list[dict[str, float]]) -> np.ndarray:
    """The samples with the noise so far below what is within speech."""
    inside = np.concatenate([samples[round(one["start_s"] * RATE_HZ) : round(one["end_s"] * RATE_HZ)] for one in found])
    gain = np.sqrt((inside**2).mean() / 10 ** (ratio_db / 10) / (noise**2).mean())
    return (samples + gain * noise).astype(np.float32)


def babble(count: int, num_voices: int) -> np.ndarray:
    """Voices that all speak at once, each as loud as the others."""
    others = [one.samples for one in speech()[5:]]
    made = np.zeros(count)
    for at in range(num_voices):
        line = np.roll(np.resize(np.concatenate(others[at % 3 :] + others[: at % 3]), count), 9_000 * at)
        made += line / line.std()
    return made


@pytest.mark.parametrize("ratio_db", [0, 5, 10, 20])
@pytest.mark.parametrize("tilt", [0.0, 0.7])
def test_noise_in_the_pauses_gives_the_ratio_to_two_decibels(ratio_db, tilt):
    samples, found = talk(pause_s=0.8)
    white = np.random.default_rng(3).normal(0, 1, len(samples))
    noise = np.convolve(white, [1.0, tilt], "same")
    assert snr_db(with_noise(samples, noise, ratio_db, found), found) == pytest.approx(ratio_db, abs=2.0)


@pytest.mark.parametrize("num_voices", [4, 8])
def test_babble_that_counts_as_speech_does_not_pass_for_a_clean_voice(num_voices):
    samples, found = talk(pause_s=0.1)
    crowd = with_noise(samples, babble(len(samples), num_voices), 0, found)
    everywhere = spans((0, len(samples) / RATE_HZ))
    assert snr_db(crowd, everywhere) < min(6, snr_db(crowd) - 2)  # which finds steady noise alone


def test_a_clean_voice_without_pauses_stays_clean():
    samples, _ = talk(pause_s=0.0)
    assert snr_db(samples, spans((0, len(samples) / RATE_HZ))) > 12


def test_muted_pauses_do_not_hide_the_noise_under_the_voice():
    samples, found = talk(pause_s=0.8)
    noisy = with_noise(samples, np.random.default_rng(3).normal(0, 1, len(samples)), 3, found)
    muted = np.random.default_rng(4).normal(0, 1e-3, len(samples))
    for one in found:
        at = slice(round(one["start_s"] * RATE_HZ), round(one["end_s"] * RATE_HZ))
        muted[at] = noisy[at]
    assert snr_db(muted.astype(np.float32), found) < 8


def test_music_between_two_speakers_is_no_noise_of_either():
    samples, found = talk(pause_s=0.8)
    end_s = len(samples) / RATE_HZ
    jingle = 0.3 * voice(20.0)
    both = np.concatenate([samples, jingle, samples]).astype(np.float32)
    both += np.random.default_rng(0).normal(0, 1e-4, len(both)).astype(np.float32)
    later = spans(*((one["start_s"] + end_s + 20, one["end_s"] + end_s + 20) for one in found))
    quiet = samples + np.random.default_rng(0).normal(0, 1e-4, len(samples)).astype(np.float32)
    assert snr_db(both, found + later) > 3 + snr_db(both, [found[0], later[-1]])
    assert snr_db(quiet, found) > 30


@pytest.mark.parametrize("found", [[], spans((0, 0)), spans((50, 60)), spans((float(SECONDS), 1e9))])
def test_speech_that_is_nowhere_leaves_the_ratio_to_the_floor(found):
    samples = voice(SECONDS).astype(np.float32)
    assert snr_db(samples, found) == snr_db(samples, None)


def test_half_a_second_of_speech_in_a_tune_does_not_make_noise_of_the_tune():
    samples = voice(SECONDS).astype(np.float32)
    assert snr_db(samples, spans((3, 3.4))) == snr_db(samples, None)


def test_the_bandwidth_of_a_voice_is_not_that_of_what_noise_leaves_of_it(store):
    samples, found = talk(pause_s=0.8)
    noisy = with_noise(samples, np.random.default_rng(3).normal(0, 1, len(samples)), 0, found)
    assert measures_of(audio_track(store, noisy) | {"speech": found}, store)["voice_bandwidth_hz"] is None
    assert measures_of(audio_track(store, samples) | {"speech": found}, store)["voice_bandwidth_hz"] == 8_000


def loudness(*channels: np.ndarray, rate_hz: int = 48_000, size: int = 10_000) -> float | None:
    samples, found = np.stack(channels, axis=1).astype(np.float32), Loudness()
    for start in range(0, len(samples), size):
        found.add(samples[start : start + size], rate_hz)
    return found.found()


def test_the_loudness_of_one_channel_at_full_scale_is_that_of_the_standard():
    """ITU-R BS.1770-4: a 997 Hz sine of 0 dBFS on one channel reads -3.01 LKFS."""
    assert loudness(tone(5, 0.0, pitch_hz=997)) == pytest.approx(-3.01, abs=0.05)


@pytest.mark.parametrize(("parts", "expected"), [
    (((20, -23),), -23.0),
    (((20, -33),), -33.0),
    (((10, -36), (60, -23), (10, -36)), -23.0),
    (((10, -72), (10, -36), (60, -23), (10, -36), (10, -72)), -23.0),
    (((20, -26), (20.1, -20), (20, -26)), -23.0),
])  # fmt: skip
@pytest.mark.parametrize("rate_hz", [48_000, 44_100])
def test_stereo_tones_have_the_loudness_that_ebu_tech_3341_asks_for(parts, expected, rate_hz):
    wave = np.concatenate([tone(length_s, level, rate_hz) for length_s, level in parts])
    assert loudness(wave, wave, rate_hz=rate_hz) == pytest.approx(expected, abs=0.1)


def test_surround_channels_count_more_and_low_frequency_effects_not_at_all():
    """EBU Tech 3341, case 6: -28, -24, -30 dBFS in L and R, C, and both surrounds."""
    front, centre, behind = tone(20, -28), tone(20, -24), tone(20, -30)
    assert loudness(front, front, centre, tone(20, -5), behind, behind) == pytest.approx(-23.0, abs=0.1)


@pytest.mark.parametrize(
    ("layout", "sides"), [("LRCss", "ss"), ("LRCess", "ss"), ("LRCebss", "ss"), ("LRCebbss", "ss"), ("LR", "")]
)
def test_the_loudness_of_surround_sound_is_the_sum_of_weighted_channels(layout, sides):
    """BS.1770-4, formula 2: each channel but that of effects adds its power, those at the sides 1.41 of it."""
    levels = {"L": -26, "R": -27, "C": -25, "e": -3, "b": -30, "s": -28}
    found = loudness(*(tone(5, levels[name]) for name in layout))
    power = sum((1.41 if name in sides else name != "e") * 10 ** (levels[name] / 10) for name in layout)
    assert found == pytest.approx(10 * np.log10(power) - 3.01, abs=0.02), "a sine of 0 dBFS is -3.01"


@pytest.mark.parametrize("size", [7, 4_800, 100_000])
def test_loudness_does_not_depend_on_the_blocks(size):
    wave = tone(1, -20, 8_000)
    assert loudness(wave, rate_hz=8_000, size=size) == pytest.approx(loudness(wave, rate_hz=8_000), abs=1e-9)


@pytest.mark.parametrize("wave", [np.zeros(48_000), tone(0.39, -20), tone(5, -90)])
def test_silence_and_shreds_have_no_loudness(wave):
    assert loudness(wave) is None


@pytest.mark.parametrize(("level_dbfs", "is_broken"), [(-51, True), (-45, False)])
def test_a_recording_that_is_far_too_soft_is_quiet(store, level_dbfs, is_broken):
    wave = tone(4, level_dbfs, RATE_HZ) + np.random.default_rng(0).normal(0, 1e-5, 4 * RATE_HZ)
    assert ("quiet" in rules_broken(audio_track(store, wave), store)) == is_broken


def clipped(samples: np.ndarray) -> float | None:
    return levels([samples[:, None].astype(np.float32)])["clipped_fraction"]


@pytest.mark.parametrize("pitch_hz", [30, 100, 200])
def test_the_slow_peaks_of_a_low_voice_are_not_clipped(pitch_hz):
    assert clipped(tone(2, -1, 48_000, pitch_hz)) == 0
    assert clipped(np.clip(tone(2, -1, 48_000, pitch_hz), -0.7, 0.7)) > 0.1


@pytest.mark.parametrize(("peak_dbfs", "is_clipped"), [(-15, False), (-13, True)])
def test_peaks_far_below_full_scale_touch_no_limit(peak_dbfs, is_clipped):
    top = 10 ** (peak_dbfs / 20)
    assert (clipped(np.clip(tone(1, 0, RATE_HZ), -top, top)) > 0.001) == is_clipped


@pytest.mark.parametrize(("peak_dbfs", "is_broken"), [(6, False), (19.9, False), (20.1, True), (90.3, True)])
def test_floats_that_were_never_divided_by_full_scale_are_over_scale(store, peak_dbfs, is_broken):
    sink = io.BytesIO()
    soundfile.write(sink, tone(1, peak_dbfs, RATE_HZ), RATE_HZ, format="WAV", subtype="FLOAT")
    row = audio_track(store, tone(1, -3, RATE_HZ)) | {"digest": store.put(sink.getvalue())}
    assert ("over_scale" in rules_broken(row, store)) == is_broken


def test_the_steps_of_8_bits_are_no_flat_tops():
    wave = np.round(tone(2, -3, 44_100, 60) * 128) / 128
    assert clipped(wave) == 0


@pytest.mark.parametrize(("cutoff_hz", "is_broken"), [(2_300, True), (3_400, False)])
def test_speech_below_the_band_of_a_telephone_is_narrow(store, cutoff_hz, is_broken):
    samples, found = talk(pause_s=0.5)
    spectrum = np.fft.rfft(samples)
    spectrum[round(cutoff_hz * len(samples) / RATE_HZ) :] = 0
    muffled = np.fft.irfft(spectrum, len(samples))
    row = audio_track(store, muffled) | {"speech": found}
    assert ("narrow_band" in rules_broken(row, store)) == is_broken


def test_a_low_tune_is_no_narrow_speech(store):
    row = audio_track(store, voice(SECONDS))
    assert measures_of(row | {"speech": []}, store)["voice_bandwidth_hz"] is None
    assert measures_of(row, store)["speech_fraction"] is None


def test_the_share_of_speech_is_that_of_its_spans(store):
    row = audio_track(store, voice(SECONDS)) | {"speech": spans((1, 3), (5, 7))}
    assert measures_of(row, store)["speech_fraction"] == pytest.approx(0.5)


@pytest.mark.parametrize(("ratio_db", "is_broken"), [(0, True), (12, False)])
def test_a_film_whose_speech_drowns_is_noisy(store, ratio_db, is_broken):
    samples, found = talk(pause_s=0.8)
    noisy = with_noise(samples, np.random.default_rng(3).normal(0, 1, len(samples)), ratio_db, found)
    track = video_track(store, [], audio_digest=store.put(sound(noisy, RATE_HZ, "FLAC")), speech=found)
    assert ("noisy" in rules_broken(track, store)) == is_broken


def test_a_film_without_sound_has_no_measures_of_it(store):
    measures = measures_of(video_track(store, []), store)
    assert [measures[name] for name in ("snr_db", "silent_fraction", "speech_fraction", "loudness_lufs")] == [None] * 4
