"""Which decoder a member goes through."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile
from PIL import Image

from mmlake.errors import SettingsError, UnreadableItem
from mmlake.formats.sniff import PREFIX_KINDS, Kind
from mmlake.loader.decode import AUTO, decoded, decoders
from mmlake.shards.layout import extension


@pytest.mark.parametrize(
    ("ending", "data", "expected"),
    [
        ("txt", b"words", "words"),
        ("caption.txt", b"words", "words"),
        ("000.txt", b"words", "words"),
        ("json", b'{"label":3}', {"label": 3}),
        ("data.json", b"{ what a source called JSON", b"{ what a source called JSON"),
        ("001.data.json", b"{ what a source called JSON", b"{ what a source called JSON"),
        ("mp4", b"film", b"film"),
    ],
)
def test_members_decode_by_what_follows_the_last_dot(ending: str, data: bytes, expected: object) -> None:
    assert decoded(ending, data, decoders("auto")) == expected


def test_the_whole_ending_comes_before_its_last_part() -> None:
    choice = decoders({"txt": "text", "caption.txt": "bytes"})
    assert [decoded(ending, b"x", choice) for ending in ("000.txt", "caption.txt", "json")] == ["x", b"x", b"x"]


def test_the_longest_part_behind_a_dot_comes_first() -> None:
    """Sound in MPEG-TS and FLV (`audio.ts`) stayed bytes where a sample has several."""
    choice = decoders({"ts": "bytes", "audio.ts": "text"})
    assert [decoded(ending, b"x", choice) for ending in ("001.audio.ts", "001.ts", "ts")] == ["x", b"x", b"x"]


def test_a_choice_that_is_none_is_refused_with_what_there_is() -> None:
    """As `None`, which other data sets take for bytes."""
    with pytest.raises(SettingsError, match="decode is None, expected 'bytes', 'auto' or a mapping"):
        decoders(None)


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


@pytest.mark.parametrize(
    ("ending", "form", "codec"), [("001.m4a", "ipod", "aac"), ("aac", "adts", "aac"), ("ac3", "ac3", "ac3")]
)
def test_recordings_that_libsndfile_does_not_know_come_as_mono_at_16_khz(ending: str, form: str, codec: str) -> None:
    import av

    times_s = np.arange(44_100 * 2) / 44_100
    tone = np.tile((0.5 * np.sin(2 * np.pi * 1000 * times_s)).astype(np.float32), (2, 1))
    with av.open(sink := io.BytesIO(), "w", format=form) as container:
        stream = container.add_stream(codec, rate=44_100, layout="stereo", bit_rate=192_000)
        frame = av.AudioFrame.from_ndarray(tone, format="fltp", layout="stereo")
        frame.rate = 44_100
        container.mux([*stream.encode(frame), *stream.encode(None)])
    found = decoded(ending, sink.getvalue(), decoders("auto"))
    assert (found.dtype, found.ndim) == (np.float32, 1)
    assert len(found) == pytest.approx(32_000, abs=1200)
    assert np.argmax(np.abs(np.fft.rfft(found[8000:24000]))) == 1000
    assert np.abs(found[8000:24000]).max() == pytest.approx(0.5, abs=0.02)


def test_sound_of_hours_is_refused_by_its_header() -> None:
    data = bytearray(flac(np.zeros(1000, np.int16), 1000))
    data[21:26] = (data[21] & 0xF0 | 0x0F).to_bytes(1, "big") + b"\xff" * 4  # total samples of the STREAMINFO block
    with pytest.raises(UnreadableItem, match="3007"):
        decoded("flac", bytes(data), decoders("auto"))


def test_junk_is_no_sound() -> None:
    with pytest.raises(UnreadableItem, match="3001"):
        decoded("flac", b"junk", decoders("auto"))


def picture(image: Image.Image, form: str, **options: object) -> bytes:
    image.save(sink := io.BytesIO(), form, **options)
    return sink.getvalue()


def test_transparent_parts_of_a_picture_come_as_a_viewer_shows_them() -> None:
    layer = Image.new("RGBA", (40, 30), (0, 0, 255, 0))  # a colour that nobody sees
    layer.paste((200, 0, 0, 255), (10, 10, 20, 20))
    for data in (picture(layer, "PNG"), picture(layer.quantize(8), "PNG"), picture(layer, "WEBP", lossless=True)):
        found = decoded("webp", data, decoders("auto"))
        assert (found[0, 0].tolist(), found[15, 15].tolist()) == ([255, 255, 255], [200, 0, 0])


def test_sixteen_bits_are_scaled_and_not_cut_off() -> None:
    grey = np.linspace(0, 65_535, 30 * 40).astype(np.uint16).reshape(30, 40)
    found = decoded("tiff", picture(Image.fromarray(grey), "TIFF"), decoders("auto"))
    np.testing.assert_allclose(found[..., 1], grey / 257, atol=1)


@pytest.mark.parametrize(
    "kind", [kind for kind in PREFIX_KINDS if kind.modality in ("image", "audio", "video")], ids=str
)
def test_every_medium_that_is_taken_has_an_ending_that_a_decoder_knows(kind: Kind) -> None:
    ending = extension(kind.content_type)
    assert ending != "bin"
    assert kind.modality == "video" or AUTO[ending] == {"image": "image", "audio": "sound"}[kind.modality]


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
