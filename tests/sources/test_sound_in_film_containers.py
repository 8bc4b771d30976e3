"""FLV and transport streams without pictures are recordings, and Ogg with any codec of pictures is a film."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Sequence
from pathlib import Path

import imageio_ffmpeg
import pytest

from mmlake.formats.media_containers import flv_streams, ts_streams
from mmlake.formats.sniff import HEAD_BYTES, kind_of
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.audio import audio_track

SCENE = ("-f", "lavfi", "-i", "testsrc2=size=64x48:rate=25:duration=1")
TONE = ("-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000:duration=1")
MP3, AAC, AC3, OPUS = (("-c:a", codec) for codec in ("libmp3lame", "aac", "ac3", "libopus"))
H264 = ("-c:v", "libx264", "-preset", "ultrafast")


def media(folder: Path, words: Sequence[str], suffix: str) -> bytes:
    path = folder / f"item{suffix}"
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-nostdin", "-y", *words, str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path.read_bytes()


def type_of(data: bytes, name: str = "item") -> str | None:
    kind = kind_of(data[:HEAD_BYTES], name, stream=lambda: io.BytesIO(data))
    return kind and kind.content_type


@pytest.mark.parametrize(
    ("words", "suffix", "content_type"),
    [
        ((*TONE, *MP3, "-ar", "44100"), ".flv", "audio/x-flv"),
        ((*SCENE, *TONE, *H264, *AAC), ".flv", "video/x-flv"),
        ((*SCENE, *H264), ".flv", "video/x-flv"),
        ((*TONE, *AAC), ".ts", "audio/mp2t"),
        ((*TONE, *AC3), ".ts", "audio/mp2t"),
        ((*TONE, *OPUS), ".ts", "audio/mp2t"),
        ((*TONE, *AC3), ".m2ts", "audio/mp2t"),
        ((*SCENE, *TONE, *H264, *AAC), ".ts", "video/mp2t"),
        ((*SCENE, *TONE, "-c:v", "mpeg2video", *AC3), ".m2ts", "video/mp2t"),
        ((*SCENE, "-c:v", "libvpx"), ".ogg", "video/ogg"),
        ((*TONE, "-c:a", "libvorbis"), ".ogg", "audio/ogg"),
    ],
)
def test_the_streams_decide_what_a_container_is(tmp_path, words, suffix, content_type):
    """Sound in FLV and MPEG-TS, as segments of radio are, was a film without pictures (3003); VP8 and Dirac in Ogg were
    recordings without sound."""
    data = media(tmp_path, words, suffix)
    assert type_of(data) == content_type
    if content_type in ("audio/x-flv", "audio/mp2t"):
        columns, _ = audio_track(tmp_path / f"item{suffix}", settings=PreprocessSettings())
        assert columns["duration_s"] == pytest.approx(1.0, abs=0.1)


def test_dirac_in_ogg_is_a_film():
    assert type_of(b"OggS\0\2" + bytes(22) + b"BBCD\0\0\0\0\x1f") == "video/ogg"


@pytest.mark.parametrize("found", [flv_streams, ts_streams])
@pytest.mark.parametrize("data", [b"", b"FLV\1\5\0\0\0\x09", b"G" + bytes(187), b"G\x40\0\x30\xff" + b"\xff" * 600])
def test_what_is_cut_or_damaged_names_no_streams(found, data):
    assert found(lambda: io.BytesIO(data)) == frozenset()


def test_pictures_that_the_header_of_a_long_file_announces_may_come_late():
    sound = b"\x08\0\x40\0" + bytes(7 + 0x4000 + 4)
    for flags, expected in ((4, {"audio"}), (5, {"audio", "video"})):
        data = b"FLV\1" + bytes([flags]) + bytes(8) + sound * 20
        assert flv_streams(lambda data=data: io.BytesIO(data)) == expected


@pytest.mark.parametrize(
    ("descriptors", "expected"),
    [
        (b"\x05\x04BSSD", {"audio"}),  # AES3: SMPTE 302M
        (b"\x0a\x04eng\0\x05\x04EAC3", {"audio"}),
        (b"\x05\x04KLVA", set()),
        (b"\x05\x04drac", {"video"}),
        (b"\x59\x02\x05\x04BSSD", {"video"}),  # a name within another descriptor
        (b"", {"video"}),
    ],
)
def test_the_name_of_a_private_stream_says_what_it_is(descriptors: bytes, expected: set[str]) -> None:
    """Studio sound in MPEG-TS was a film without pictures (3003)."""
    stream = b"\x06\xe1\x00" + (0xF000 | len(descriptors)).to_bytes(2, "big") + descriptors
    table = b"\0\1\xc1\0\0\xe1\0\xf0\0" + stream + bytes(4)
    program = b"\0\xb0\x0d\0\1\xc1\0\0\0\1\xf0\0" + bytes(4)
    sections = (0, program), (0x1000, b"\2" + (0xB000 | len(table)).to_bytes(2, "big") + table)
    packets = [
        (b"G" + (0x4000 | pid).to_bytes(2, "big") + b"\x10\0" + section).ljust(188, b"\xff")
        for pid, section in sections
    ]
    assert ts_streams(lambda: io.BytesIO(b"".join(packets) + bytes(188))) == expected
