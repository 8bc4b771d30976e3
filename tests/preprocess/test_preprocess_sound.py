"""Sound lands at its time, in bounded blocks, and a file that was cut off is distinguished from a short one."""

from __future__ import annotations

import io
import struct
from fractions import Fraction

import av
import numpy as np
import pytest
import soundfile
from preprocess_media import tone, video, wav

from mmlake.errors import UnreadableItem
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.audio import audio_track
from mmlake.preprocess.sound import SoundWriter

SETTINGS = PreprocessSettings()


def track_of(path, data):
    path.write_bytes(data)
    columns, flac = audio_track(path, settings=SETTINGS)
    return columns, soundfile.read(io.BytesIO(flac), dtype="float32")[0]


def code_of(path, data):
    path.write_bytes(data)
    with pytest.raises(UnreadableItem) as caught:
        audio_track(path, settings=SETTINGS)
    return caught.value.code


@pytest.mark.parametrize(
    ("kind", "rate_hz"),
    [("WAV", 16000), ("WAV", 8000), ("WAV", 44100), ("FLAC", 44100), ("OGG", 44100), ("MP3", 44100), ("AIFF", 22050)],
)
def test_each_format_becomes_mono_16_khz_of_the_same_length(tmp_path, kind, rate_hz):
    columns, samples = track_of(tmp_path / "a", wav(tone(1.5, rate_hz), rate_hz, kind))
    assert columns["sample_rate_hz"] == rate_hz
    assert abs(len(samples) / 16000 - 1.5) < 0.06


def test_a_recording_of_a_mobile_telephone_is_no_script(tmp_path):
    """AMR begins with `#!`, as what starts a program does."""
    with av.open(tmp_path / "a.amr", "w") as out:
        stream = out.add_stream("libopencore_amrnb", rate=8000, layout="mono")
        stream.bit_rate = 12_200
        frame = av.AudioFrame.from_ndarray((tone(1.5, 8000) * 32767).astype(np.int16)[None], "s16", "mono")
        frame.sample_rate = 8000
        for packet in (*stream.encode(frame), *stream.encode(None)):
            out.mux(packet)
    columns, samples = track_of(tmp_path / "a.amr", (tmp_path / "a.amr").read_bytes())
    assert (columns["sample_rate_hz"], len(samples) / 16000) == (8000, pytest.approx(1.5, abs=0.06))


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 44_100, 96_000])
def test_one_sample_is_a_track_at_any_rate(tmp_path, rate_hz):
    """Less than half a sample at 16 kHz was a FLAC of no bytes, and 3001 further on."""
    columns, samples = track_of(tmp_path / "a.wav", wav(np.full(1, 0.5), rate_hz))
    assert columns["duration_s"] == pytest.approx(1 / rate_hz)
    assert 1 <= len(samples) <= 2


def test_the_pitch_survives_resampling(tmp_path):
    _, samples = track_of(tmp_path / "a.wav", wav(tone(2, 44100, pitch_hz=1000), 44100))
    spectrum = np.abs(np.fft.rfft(samples[:16000]))
    assert np.argmax(spectrum) == 1000  # one bin is one hertz


def test_stereo_is_averaged(tmp_path):
    pair = np.stack([tone(1), -0.5 * tone(1)], axis=1)
    columns, samples = track_of(tmp_path / "a.wav", wav(pair))
    assert columns["num_channels"] == 2
    np.testing.assert_allclose(samples, 0.25 * tone(1), atol=1e-3)


def test_the_flac_has_the_same_bytes_each_time(tmp_path):
    (tmp_path / "a.wav").write_bytes(wav(tone(1, 44100), 44100))
    assert (
        audio_track(tmp_path / "a.wav", settings=SETTINGS)[1] == audio_track(tmp_path / "a.wav", settings=SETTINGS)[1]
    )


def test_a_gap_becomes_silence(tmp_path):
    frames = [np.zeros((64, 64, 3), np.uint8)] * 100
    data = video(tmp_path / "gap.mkv", frames, sound=[(0.0, tone(1)), (3.0, tone(1))])
    _, samples = track_of(tmp_path / "b.mkv", data)
    loud = np.abs(samples).reshape(-1, 160).max(axis=1) > 0.1
    assert abs(len(samples) / 16000 - 4.0) < 0.02
    assert not loud[105:295].any()
    assert loud[305:395].all()


def frame_at(pts: int, samples: np.ndarray) -> av.AudioFrame:
    frame = av.AudioFrame.from_ndarray((samples * 32767).astype(np.int16)[None], format="s16", layout="mono")
    frame.sample_rate, frame.pts, frame.time_base = 16000, pts, Fraction(1, 16000)
    return frame


def test_overlapping_time_stamps_do_not_delay_what_follows():
    writer = SoundWriter(origin_s=0.0, settings=SETTINGS)
    for pts in (0, 8000, 16000):
        writer.add(frame_at(pts, tone(0.75)))
    assert writer.finish()[1] == pytest.approx(1.75)


def test_a_broken_clock_makes_no_hours_of_silence():
    writer = SoundWriter(origin_s=0.0, settings=SETTINGS)
    writer.add(frame_at(0, tone(0.5)))
    writer.add(frame_at(16000 * 10**7, tone(0.5)))
    assert writer.finish()[1] == pytest.approx(0.5)
    assert writer.num_dropped == 1


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3"])
def test_half_a_sound_file_is_truncated(tmp_path, kind):
    data = wav(tone(6, 44100) + np.random.default_rng(0).normal(0, 0.05, 6 * 44100), 44100, kind)
    assert code_of(tmp_path / "a", data[: len(data) // 2]) == 3002


@pytest.mark.parametrize(
    "declared", [0, 0x7FFF_0000, 0x7FFF_F000, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF], ids=lambda size: f"{size:x}"
)
def test_a_wav_with_an_undeclared_length_is_read_to_its_end(tmp_path, declared: int):
    """As mpg123, GStreamer, espeak-ng, lame, arecord and ffmpeg write it into a pipe."""
    data = bytearray(wav(tone(1)))
    data[4:8] = struct.pack("<I", min(declared + 36, 0xFFFF_FFFF))
    data[40:44] = struct.pack("<I", declared)
    columns = track_of(tmp_path / "a.wav", bytes(data))[0]
    assert (columns["duration_s"], columns["container_duration_s"]) == (pytest.approx(1.0), pytest.approx(1.0))


@pytest.mark.parametrize("declared", [0x7FFE_FFFF, 0x8000_0001, 0xFFFF_0000])
def test_a_wav_of_gigabytes_that_was_cut_is_truncated(tmp_path, declared: int):
    data = bytearray(wav(tone(1)))
    data[40:44] = struct.pack("<I", declared)
    assert code_of(tmp_path / "a.wav", bytes(data)) == 3002


def test_an_aiff_from_a_pipe_is_read_to_its_end(tmp_path):
    """As SoX writes it: 7F000000 bytes, whatever comes."""
    data = bytearray(wav(tone(1), 16000, "AIFF"))
    data[4:8] = struct.pack(">I", 0x7F00_0050)
    at = data.index(b"COMM") + 10
    data[at : at + 4] = struct.pack(">I", 0x3F80_0000)
    at = data.index(b"SSND") + 4
    data[at : at + 4] = struct.pack(">I", 0x7F00_0008)
    columns = track_of(tmp_path / "a.aiff", bytes(data))[0]
    assert (columns["duration_s"], columns["container_duration_s"]) == (pytest.approx(1.0), None)


@pytest.mark.parametrize(
    "data", [b"RIFF" + bytes(100), bytes(5000), b"ID3" + bytes(2000), b"fLaC" + bytes(200), b"OggS" + bytes(20)]
)
def test_junk_is_unreadable(tmp_path, data):
    assert code_of(tmp_path / "junk.wav", data) in (3001, 3002)


@pytest.mark.parametrize(
    "head",
    [b"#EXTM3U\n#EXTINF:1,\n", b"ffconcat version 1.0\nfile '", b"[playlist]\nFile1=", b"<?xml version='1.0'?><MPD>"],
)
def test_playlists_are_refused_whatever_their_name(tmp_path, head):
    (tmp_path / "secret.wav").write_bytes(wav(tone(1)))
    assert code_of(tmp_path / "list.mp4", head + str(tmp_path / "secret.wav").encode() + b"'\n") == 3005


def test_a_picture_only_file_has_no_sound_stream(tmp_path):
    assert code_of(tmp_path / "b.mp4", video(tmp_path / "a.mp4", [np.zeros((64, 64, 3), np.uint8)] * 10)) == 3003


def test_nan_samples_become_silence(tmp_path):
    samples = np.full(16000, np.nan, np.float32)
    sink = io.BytesIO()
    soundfile.write(sink, samples, 16000, format="WAV", subtype="FLOAT")
    assert not track_of(tmp_path / "a.wav", sink.getvalue())[1].any()
