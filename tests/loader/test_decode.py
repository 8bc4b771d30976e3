"""Which decoder a member goes through."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile
from PIL import Image

from mmlake.errors import UnreadableItem
from mmlake.loader.decode import decoded, decoders


@pytest.mark.parametrize(
    ("ending", "data", "expected"),
    [
        ("txt", b"words", "words"),
        ("caption.txt", b"words", "words"),
        ("000.txt", b"words", "words"),
        ("json", b'{"label":3}', {"label": 3}),
        ("data.json", b"{ what a source called JSON", b"{ what a source called JSON"),
        ("mp4", b"film", b"film"),
        ("001.m4a", b"sound", b"sound"),
    ],
)
def test_members_decode_by_what_follows_the_last_dot(ending: str, data: bytes, expected: object) -> None:
    assert decoded(ending, data, decoders("auto")) == expected


def test_the_whole_ending_comes_before_its_last_part() -> None:
    choice = decoders({"txt": "text", "caption.txt": "bytes"})
    assert [decoded(ending, b"x", choice) for ending in ("000.txt", "caption.txt", "json")] == ["x", b"x", b"x"]


def test_without_a_choice_members_stay_bytes() -> None:
    assert decoded("txt", b"words", decoders("bytes")) == b"words"


def flac(samples: np.ndarray, rate_hz: int, kind: str = "FLAC") -> bytes:
    sink = io.BytesIO()
    soundfile.write(sink, samples, rate_hz, format=kind)
    return sink.getvalue()


def test_sound_at_16_khz_is_as_it_was() -> None:
    samples = np.random.default_rng(7).integers(-9000, 9000, 5000, dtype=np.int16)
    found = decoded("sound.flac", flac(samples, 16_000), decoders("auto"))
    assert (found.dtype, found.shape) == (np.float32, (5000,))
    np.testing.assert_array_equal(found * 32768, samples)


@pytest.mark.parametrize(("ending", "kind"), [("flac", "FLAC"), ("002.wav", "WAV"), ("ogg", "OGG"), ("mp3", "MP3")])
def test_recordings_come_as_mono_at_16_khz(ending: str, kind: str) -> None:
    times_s = np.arange(44_100 * 2) / 44_100
    tone = 0.5 * np.sin(2 * np.pi * 1000 * times_s)
    found = decoded(ending, flac(np.stack([tone, tone], axis=1), 44_100, kind), decoders("auto"))
    assert (found.dtype, found.ndim) == (np.float32, 1)
    assert len(found) == pytest.approx(32_000, abs=1200)  # MP3 has frames of 1,152 samples
    loudest = np.argmax(np.abs(np.fft.rfft(found[8000:24000])))
    assert loudest == 1000


def test_sound_of_hours_is_refused_by_its_header() -> None:
    data = bytearray(flac(np.zeros(1000, np.int16), 1000))
    data[21:26] = (data[21] & 0xF0 | 0x0F).to_bytes(1, "big") + b"\xff" * 4  # total samples of the STREAMINFO block
    with pytest.raises(UnreadableItem, match="3007"):
        decoded("flac", bytes(data), decoders("auto"))


def test_junk_is_no_sound() -> None:
    with pytest.raises(UnreadableItem, match="3001"):
        decoded("flac", b"junk", decoders("auto"))


def jpeg(shade: int) -> bytes:
    sink = io.BytesIO()
    # an end marker within a header must not end the picture
    Image.new("RGB", (40, 30), (shade, 0, 0)).save(sink, "JPEG", quality=95, comment=b"\xff\xd9\xff\xd8")
    return sink.getvalue()


def test_keyframes_come_as_pictures_in_order() -> None:
    found = decoded("keyframes.mjpeg", b"".join(jpeg(shade) for shade in (10, 120, 240)), decoders("auto"))
    assert [one.shape for one in found] == [(30, 40, 3)] * 3
    assert [int(one[15, 20, 0]) for one in found] == pytest.approx([10, 120, 240], abs=3)


@pytest.mark.parametrize("data", [b"junk", jpeg(9)[:-1], jpeg(9) + b"x", jpeg(9) + jpeg(8)[:-40]])
def test_keyframes_that_do_not_end_are_refused(data: bytes) -> None:
    with pytest.raises(UnreadableItem, match="3001"):
        decoded("keyframes.mjpeg", data, decoders("auto"))


def test_no_keyframes_are_no_pictures() -> None:
    assert decoded("keyframes.mjpeg", b"", decoders("auto")) == []
