"""Recordings that no header says the length of: good ones are no shorter than what FFmpeg guesses, damaged ones are
found by their bytes."""

from __future__ import annotations

import io
import struct
from functools import cache

import av
import numpy as np
import pytest

from mmlake.errors import UnreadableItem
from mmlake.preprocess.audio import audio_track
from mmlake.settings import Settings

SETTINGS, RATE_HZ = Settings().preprocess, 44_100
KINDS = {"mp3": ("mp3", "libmp3lame"), "aac": ("adts", "aac"), "ac3": ("ac3", "ac3")}


@cache
def recording(kind: str) -> bytes:
    """Ten seconds of silence, then ten of noise, with as many bits as each needs where the codec can."""
    (form, codec), sink = KINDS[kind], io.BytesIO()
    sound = np.concatenate((np.zeros(10 * RATE_HZ), np.random.default_rng(0).normal(0, 0.2, 10 * RATE_HZ)))
    with av.open(sink, "w", format=form, options={"write_xing": "0"} if kind == "mp3" else {}) as container:
        stream = container.add_stream(codec, rate=RATE_HZ, layout="mono")
        if kind == "mp3":
            stream.codec_context.options = {"global_quality": "236", "flags": "+qscale"}
        frame = av.AudioFrame.from_ndarray(sound[None].astype(np.float32), format="fltp", layout="mono")
        frame.sample_rate = RATE_HZ
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    return sink.getvalue()


def track(tmp_path, kind, data):
    path = tmp_path / f"sound.{kind}"
    path.write_bytes(data)
    return audio_track(path, settings=SETTINGS)[0]


@pytest.mark.parametrize("kind", ["mp3", "aac"])
def test_a_recording_that_begins_in_silence_is_whole(tmp_path, kind):
    data = recording(kind)
    path = tmp_path / f"guessed.{kind}"
    path.write_bytes(data)
    with av.open(str(path)) as container:
        assert container.duration / 1e6 > 30, "what FFmpeg guesses"
    found = track(tmp_path, kind, data)
    assert found["duration_s"] == pytest.approx(20, abs=0.2)
    assert found["container_duration_s"] is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("filling", ["zeros", "noise"])
def test_one_whose_middle_is_lost_is_not(tmp_path, kind, filling):
    data, num = recording(kind), len(recording(kind))
    middle = bytes(num // 3) if filling == "zeros" else np.random.default_rng(1).bytes(num // 3)
    with pytest.raises(UnreadableItem, match=r"decode(d|_error)_fraction") as raised:
        track(tmp_path, kind, data[: num // 3] + middle + data[-num // 3 :])
    assert raised.value.code == 3002


@pytest.mark.parametrize("kind", KINDS)
def test_tags_are_no_lost_sound(tmp_path, kind):
    data = recording(kind)
    size = len(data) // 2
    id3v2 = b"ID3\x04\0\0" + bytes((size >> shift) & 127 for shift in (21, 14, 7, 0)) + bytes(size)
    footer = b"APETAGEX" + struct.pack("<IIII", 2_000, size + 32, 1, 1 << 31) + bytes(8)
    ape = footer + bytes(size) + footer
    assert track(tmp_path, kind, id3v2 + data + ape + b"TAG" + bytes(125))["duration_s"] > 19


def test_a_header_that_counts_frames_is_believed(tmp_path):
    """A file with a Xing header of which half is cut off."""
    sink = io.BytesIO()
    with av.open(sink, "w", format="mp3") as container:
        stream = container.add_stream("libmp3lame", rate=RATE_HZ, layout="mono")
        noise = np.random.default_rng(0).normal(0, 0.2, (1, 10 * RATE_HZ)).astype(np.float32)
        frame = av.AudioFrame.from_ndarray(noise, format="fltp", layout="mono")
        frame.sample_rate = RATE_HZ
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    data = sink.getvalue()
    assert track(tmp_path, "mp3", data)["container_duration_s"] == pytest.approx(10, abs=0.1)
    with pytest.raises(UnreadableItem, match="MP3 header"):
        track(tmp_path, "mp3", data[: len(data) // 2])


@pytest.mark.parametrize("footer", [b"", b"3DI\x04\x00\x10\x00\x00\x40\x00"])
def test_several_tags_at_the_start_are_no_lost_sound(tmp_path, footer):
    """Behind a tag of its own a program leaves that of another, with a cover of megabytes: 98 % of the bytes."""
    tag = b"ID3\x04\x00" + (b"\x10" if footer else b"\x00") + b"\x00\x00\x40\x00" + bytes(0x40 << 7) + footer
    found = track(tmp_path, "mp3", tag * 200 + recording("mp3"))
    assert found["duration_s"] == pytest.approx(20, abs=0.2)
