"""Files with checksums, one flipped bit in them, and forms that are rare and sound."""

from __future__ import annotations

import hashlib
import io
import random
import struct
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import soundfile

NUM_FLIPS = 80
RATE_HZ = 16_000


def noise(duration_s: float, seed: int = 0) -> np.ndarray:
    """16-bit sound that no codec makes small."""
    steps = np.random.default_rng(seed).normal(0, 500, round(duration_s * RATE_HZ))
    return (np.cumsum(steps) % 20_000 - 10_000).astype(np.int16)


def sound_file(samples: np.ndarray, kind: str, subtype: str | None = None) -> bytes:
    """The samples in that format."""
    sink = io.BytesIO()
    soundfile.write(sink, samples, RATE_HZ, format=kind, subtype=subtype)
    return sink.getvalue()


def coded(samples: np.ndarray, codec: str, container: str) -> bytes:
    """The samples by one of FFmpeg's own encoders."""
    sink = io.BytesIO()
    with av.open(sink, "w", format=container) as file:
        stream = file.add_stream(codec, rate=48_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.rate = RATE_HZ
        fitting = av.AudioResampler(
            format=stream.codec_context.format.name, layout="mono", rate=48_000, frame_size=stream.frame_size
        )
        for part in [*fitting.resample(frame), *fitting.resample(None), None]:
            file.mux(stream.encode(part))
    return sink.getvalue()


def flipped(data: bytes, first_byte: int, seed: int = 1) -> Iterator[bytes]:
    """NUM_FLIPS copies, each with one bit flipped from that byte on."""
    rng = random.Random(seed)
    for _ in range(NUM_FLIPS):
        changed = bytearray(data)
        changed[rng.randrange(first_byte, len(data))] ^= 1 << rng.randrange(8)
        yield bytes(changed)


def old_flac(samples: np.ndarray, sizes: Sequence[int]) -> bytes:
    """Blocks of different lengths as FLAC had them before version 1.2: numbered by their first sample, and not marked
    as such. Verbatim, 16 bits, mono."""
    frames, at = [], 0
    for size in sizes:
        block = samples[at : at + size]
        head = (
            bytes([0xFF, 0xF8, 0x70, 0x08])
            + chr(at).encode("utf-8", "surrogatepass")
            + struct.pack(">H", len(block) - 1)
        )
        head += _crc(head, 8, 0x07)
        body = head + b"\x02" + block.astype(">i2").tobytes()
        frames.append(body + _crc(body, 16, 0x8005))
        at += size
    packed = (RATE_HZ << 44 | 15 << 36 | at).to_bytes(8, "big")
    md5 = hashlib.md5(samples[:at].astype("<i2").tobytes(), usedforsecurity=False).digest()
    info = struct.pack(">HH", min(sizes), max(sizes)) + bytes(6) + packed + md5
    return b"fLaC\x80\0\0\x22" + info + b"".join(frames)


def _crc(data: bytes, width: int, polynomial: int) -> bytes:
    found, top, mask = 0, 1 << width - 1, (1 << width) - 1
    for byte in data:
        found ^= byte << width - 8
        for _ in range(8):
            found = (found << 1 ^ polynomial if found & top else found << 1) & mask
    return found.to_bytes(width // 8, "big")


def wma(samples: np.ndarray) -> bytes:
    """Windows Media Audio: ASF with nothing but sound."""
    sink = io.BytesIO()
    with av.open(sink, "w", format="asf") as container:
        stream = container.add_stream("wmav2", rate=44_100, layout="mono")
        stream.bit_rate = 96_000
        for at in range(0, len(samples), 2_048):
            part = (samples[at : at + 2_048] / 32_768).astype(np.float32)[None]
            frame = av.AudioFrame.from_ndarray(part, format="fltp", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = 44_100, at, Fraction(1, 44_100)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return sink.getvalue()


def film_of(path: Path, sizes: Sequence[tuple[int, int]], *, aspect: Fraction | None = None, count: int = 12) -> bytes:
    """A Matroska film with a video stream of each size, of another brightness each."""
    with av.open(str(path), "w") as sink:
        streams = []
        for width, height in sizes:
            stream = sink.add_stream("libx264", rate=25, options={"preset": "ultrafast"})
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            if aspect is not None:
                stream.codec_context.sample_aspect_ratio = aspect
            streams.append(stream)
        for number in range(count):
            for at, stream in enumerate(streams):
                pixels = np.full((stream.height, stream.width, 3), 60 + 100 * at, np.uint8)
                pixels[:, : stream.width // 2] += number
                frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
                frame.pts, frame.time_base = number, Fraction(1, 25)
                sink.mux(stream.encode(frame))
        for stream in streams:
            sink.mux(stream.encode())
    return path.read_bytes()
