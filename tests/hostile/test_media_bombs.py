"""Media whose headers promise more than any machine has: each ends within bounds of time and memory, as an answer or a
code, never as another error."""

from __future__ import annotations

import io
import resource
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from mmlake.errors import UnreadableItem
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.audio import audio_track
from mmlake.preprocess.image import image_track
from mmlake.preprocess.video import video_track

SETTINGS = PreprocessSettings()


def _wav(rate_hz: int, num_channels: int, num_bytes: int = 64) -> bytes:
    form = struct.pack("<IHHIIHH", 16, 1, num_channels, rate_hz, rate_hz, (num_channels * 2) & 0xFFFF, 16)
    return (
        b"RIFF"
        + struct.pack("<I", 36 + num_bytes)
        + b"WAVEfmt "
        + form
        + b"data"
        + struct.pack("<I", num_bytes)
        + bytes(num_bytes)
    )


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def _png(*chunks: bytes) -> bytes:
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + header
        + b"".join(chunks)
        + _chunk(b"IDAT", zlib.compress(bytes(200)))
        + _chunk(b"IEND", b"")
    )


def _apng(num_frames: int) -> bytes:
    control = struct.pack(">IIIIIHHBB", 0, 8, 8, 0, 0, 1, 1, 0, 0)
    return _png(_chunk(b"acTL", struct.pack(">II", num_frames, 0)), _chunk(b"fcTL", control))


def _gif(side_px: int, num_frames: int) -> bytes:
    frame = b"\x21\xf9\x04\0\1\0\0\0," + bytes(4) + struct.pack("<HH", side_px, side_px) + b"\0\2\1\x4c\1\0"
    return b"GIF89a" + struct.pack("<HHBBB", side_px, side_px, 0x80, 0, 0) + bytes(6) + frame * num_frames + b";"


def _bmp(num_colours: int) -> bytes:
    return (
        b"BM"
        + struct.pack("<IHHI", 70, 0, 0, 54)
        + struct.pack("<IiiHHIIiiII", 40, 1, 1, 1, 8, 0, 0, 0, 0, num_colours, 0)
        + bytes(64)
    )


def _matroska(size: bytes) -> bytes:
    head = b"\x1aE\xdf\xa3\x9f\x42\x86\x81\1\x42\xf7\x81\1\x42\xf2\x81\4\x42\xf3\x81\x08"
    head += b"\x42\x82\x88matroska\x42\x87\x81\4\x42\x85\x81\2"
    return head + b"\x18\x53\x80\x67" + size + b"\x15\x49\xa9\x66" + size + b"\x16\x54\xae\x6b" + size


def _tiff(num_pages: int) -> bytes:
    """Pages of one pixel's strip each, which all share it."""
    fields = ((256, 1), (257, 1), (258, 8), (259, 1), (262, 1), (273, 4), (277, 1), (278, 1), (279, 1))
    directory = struct.pack("<H", len(fields)) + b"".join(
        struct.pack("<HHII", tag, 4, 1, value) for tag, value in fields
    )
    size = len(directory) + 4
    ends = (struct.pack("<I", 8 + size * (at + 1) if at + 1 < num_pages else 0) for at in range(num_pages))
    return b"II*\0" + struct.pack("<I", 8) + b"".join(directory + end for end in ends)


def _jpeg(num_scans: int) -> bytes:
    """A grey picture of 16 megapixels whose last scan comes again and again; 20,000 of them take ten minutes."""
    sink = io.BytesIO()
    Image.new("L", (4_000, 4_000)).save(sink, "JPEG", progressive=True)
    data = sink.getvalue()
    last = data[data.rfind(b"\xff\xda") : -2]
    return data[:-2] + last * num_scans + b"\xff\xd9"


def _mp4(num_samples: int) -> bytes:
    """A kilobyte of film whose 5 pictures are said to be so many, of a byte each: 3.4 GB of index for 60 million."""
    sink = io.BytesIO()
    with av.open(sink, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width = stream.height = 64
        for _ in range(5):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), "rgb24")))
        container.mux(stream.encode())
    data = bytearray(sink.getvalue())
    sizes, chunks = data.find(b"stsz"), data.find(b"stsc")
    data[sizes + 8 : sizes + 16] = struct.pack(">II", 1, num_samples)
    data[chunks + 16 : chunks + 20] = struct.pack(">I", num_samples)
    return bytes(data)


BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "rate of 2 GHz": ("audio", lambda: _wav(2**31, 1)),
    "rate of 1 Hz": ("audio", lambda: _wav(1, 1)),
    "65,535 channels": ("audio", lambda: _wav(16_000, 65_535, 262_140)),
    "no channel": ("audio", lambda: _wav(16_000, 0)),
    "4 billion frames": ("image", lambda: _apng(2**32 - 1)),
    "a million frames": ("image", lambda: _apng(10**6)),
    "frames of 4 gigapixels": ("image", lambda: _gif(65_535, 2_000)),
    "palette of 2 billion": ("image", lambda: _bmp(2**31 - 1)),
    "60 million samples": ("video", lambda: _mp4(60_000_000)),
    "60 million samples of sound": ("audio", lambda: _mp4(60_000_000).replace(b"vide", b"soun")),
    "20,000 scans": ("image", lambda: _jpeg(20_000)),
    "100,000 pages": ("image", lambda: _tiff(100_000)),
    "comment of 200 MB": ("image", lambda: _png(_chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(200 << 20))))),
    "colours of 200 MB": ("image", lambda: _png(_chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(200 << 20))))),
    "EBML of 34 GB": ("video", lambda: _matroska(b"\x08\xff\xff\xff\xff")),
    "EBML without an end": ("video", lambda: _matroska(b"\x01" + b"\xff" * 7)),
    "EBML of exabytes": ("audio", lambda: _matroska(b"\x01\0\xff\xff\xff\xff\xff\xf0")),
    "200,000 pages": ("audio", lambda: b"OggS\0" * 200_000),
    "200,000 pages before an end": ("audio", lambda: b"OggS\0" * 200_000 + b"OggS\0\4" + bytes(21)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_header_that_lies_ends_within_bounds(tmp_path: Path, name: str) -> None:
    modality, made = BOMBS[name]
    data = made()
    (tmp_path / "a").write_bytes(data)
    before, code = resource.getrusage(resource.RUSAGE_SELF), None
    try:
        if modality == "image":
            image_track(data, settings=SETTINGS)
        elif modality == "audio":
            audio_track(tmp_path / "a", settings=SETTINGS)
        else:
            video_track(tmp_path / "a", settings=SETTINGS)
    except UnreadableItem as error:
        code = error.code
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert code is None or 3001 <= code <= 3011
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 20
    assert (after.ru_maxrss - before.ru_maxrss) >> 10 < 256


@pytest.mark.parametrize(("num_scans", "code"), [(180, None), (210, 3004)])
def test_scans_count_as_pixels(num_scans: int, code: int | None) -> None:
    """Fifty passes over the largest picture, two hundred over one of a quarter of it."""
    try:
        found = image_track(_jpeg(num_scans), settings=SETTINGS) and None
    except UnreadableItem as error:
        found = error.code
    assert found == code


def test_samples_beyond_the_end_of_the_file_are_missing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(_mp4(60_000_000))
    with pytest.raises(UnreadableItem, match=r"MP4 samples: present_bytes=\d+ not in \[60000000, inf\)") as found:
        video_track(tmp_path / "a", settings=SETTINGS)
    assert found.value.code == 3002
    (tmp_path / "a").write_bytes(_mp4(100))
    with pytest.raises(UnreadableItem) as found:
        video_track(tmp_path / "a", settings=SETTINGS)
    assert found.value.code == 3001  # samples of one byte that are there are no pictures
