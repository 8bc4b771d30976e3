"""Sounds hold just the samples of their span."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import numpy as np
import pytest
import soundfile

from mmlake.cuts import Span, cut_recording, cut_sound
from mmlake.errors import UnreadableItem
from tests.cuts.counted_films import counted_film


def span(start_us: int, end_us: int) -> Span:
    return Span(digest="a" * 64, parent_digest="b" * 64, start_us=start_us, end_us=end_us)


def noise(num_samples: int, num_channels: int = 1, *, bits: int = 16) -> np.ndarray:
    """Integers of so many bits, in the upper ones of int32."""
    rng = np.random.default_rng(7)
    values = rng.integers(-(1 << bits - 1), 1 << bits - 1, (num_samples, num_channels), dtype=np.int32)
    return values << 32 - bits


def written(path: Path, samples: np.ndarray, rate_hz: int, **kind: str) -> Path:
    soundfile.write(path, samples, rate_hz, **kind)
    return path


def read(path: Path) -> np.ndarray:
    return soundfile.read(path, dtype="int32", always_2d=True)[0]


def test_the_sound_of_a_span_is_the_tracks_own_to_the_sample(tmp_path) -> None:
    samples = noise(160_000)
    track = written(tmp_path / "track.flac", samples, 16_000)
    made = cut_sound(track, tmp_path / "cut.flac", span(1_000_063, 6_500_000))
    np.testing.assert_array_equal(read(tmp_path / "cut.flac"), samples[16_001:104_000])
    assert (made.sample_rate_hz, made.num_channels, made.num_samples) == (16_000, 1, 87_999)


def test_sound_that_ends_before_the_picture_goes_on_as_silence(tmp_path) -> None:
    samples = noise(16_000)
    track = written(tmp_path / "track.flac", samples, 16_000)
    cut_sound(track, tmp_path / "cut.flac", span(500_000, 9_000_000))
    found = read(tmp_path / "cut.flac")
    np.testing.assert_array_equal(found[:8000], samples[8000:])
    assert (len(found), found[8000:].any()) == (136_000, False)
    cut_sound(track, tmp_path / "cut.flac", span(5_000_000, 6_000_000))
    assert not read(tmp_path / "cut.flac").any()


@pytest.mark.parametrize(
    ("name", "kind", "bits", "subtype"),
    [
        ("x.flac", {}, 16, "PCM_16"),
        ("x.wav", {}, 16, "PCM_16"),
        ("x.wav", {"subtype": "PCM_24"}, 24, "PCM_24"),
        ("x.flac", {"subtype": "PCM_24"}, 24, "PCM_24"),
    ],
)
def test_segments_have_the_recordings_own_samples(tmp_path, name: str, kind: dict, bits: int, subtype: str) -> None:
    samples = noise(44_100 * 10, 2, bits=bits)
    recording = written(tmp_path / name, samples, 44_100, **kind)
    spans = [span(0, 2_000_000), span(2_000_000, 5_500_007), span(5_500_007, 10_000_000)]
    cuts = [(one, tmp_path / f"{number}.flac") for number, one in enumerate(spans)]
    made = cut_recording(recording, cuts[::-1])[::-1]
    parts = [read(path) for _, path in cuts]
    np.testing.assert_array_equal(np.concatenate(parts), samples)
    assert [len(part) for part in parts] == [one.num_samples for one in made]
    assert {soundfile.info(path).subtype for _, path in cuts} == {subtype}
    assert {(one.sample_rate_hz, one.num_channels) for one in made} == {(44_100, 2)}


def test_segments_may_overlap_and_end_behind_the_recording(tmp_path) -> None:
    samples = noise(8000 * 4)
    recording = written(tmp_path / "x.wav", samples, 8000)
    spans = [span(1_000_000, 3_000_000), span(500_000, 5_000_000)]
    cuts = [(one, tmp_path / f"{number}.flac") for number, one in enumerate(spans)]
    cut_recording(recording, cuts)
    np.testing.assert_array_equal(read(cuts[0][1]), samples[8000:24000])
    found = read(cuts[1][1])
    np.testing.assert_array_equal(found[:28000], samples[4000:])
    assert (len(found), found[28000:].any()) == (36000, False)


def test_the_sound_of_a_container_is_cut_at_its_own_rate(tmp_path) -> None:
    recording = counted_film(tmp_path / "x.mp4", sound_rate_hz=44_100, layout="stereo")
    (made,) = cut_recording(recording, [(span(1_000_000, 2_000_000), tmp_path / "cut.flac")])
    assert (made.sample_rate_hz, made.num_channels, made.num_samples) == (44_100, 2, 44_100)


@pytest.mark.parametrize("rate_hz", [8000, 16_000, 24_000])
def test_opus_of_another_rate_than_its_header_has_is_cut(tmp_path, rate_hz: int) -> None:
    """Its stream says 48 kHz, whatever was recorded; it is decoded at the rate of the recording."""
    tone = np.sin(np.arange(rate_hz * 4) * 440 * 2 * np.pi / rate_hz) / 2
    soundfile.write(tmp_path / "x.ogg", tone, rate_hz, format="OGG", subtype="OPUS")
    (made,) = cut_recording(tmp_path / "x.ogg", [(span(1_000_000, 3_000_000), tmp_path / "cut.flac")])
    samples, found_hz = soundfile.read(tmp_path / "cut.flac")
    assert (made.sample_rate_hz, made.num_samples, found_hz, len(samples)) == (rate_hz, 2 * rate_hz) * 2
    assert np.corrcoef(samples, tone[rate_hz : 3 * rate_hz])[0, 1] > 0.95


def test_a_segment_behind_the_end_is_refused(tmp_path) -> None:
    recording = written(tmp_path / "x.wav", noise(8000), 8000)
    with pytest.raises(UnreadableItem) as raised:
        cut_recording(recording, [(span(2_000_000, 3_000_000), tmp_path / "cut.flac")])
    assert raised.value.code == 3303


def test_a_day_of_segments_needs_few_open_files(tmp_path) -> None:
    """All were open at once: of eight hours 1,400, and an encoder of a third of a megabyte for each."""
    samples = noise(160_000)
    recording = written(tmp_path / "x.flac", samples, 16_000)
    cuts = [(span(at * 50_000, (at + 1) * 50_000), tmp_path / f"{at}.flac") for at in range(200)]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, before[1]))
    try:
        made = cut_recording(recording, cuts)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert [one.num_samples for one in made] == [800] * 200
    np.testing.assert_array_equal(np.concatenate([read(path) for _, path in cuts]), samples)
