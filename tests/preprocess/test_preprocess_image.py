"""Pictures are decoded whole, within a budget, and every way of being broken has its code."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, PngImagePlugin
from preprocess_media import encoded, photo

from mmlake.errors import UnreadableItem
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.image import image_track

SETTINGS = PreprocessSettings()


def code_of(data: bytes, settings: PreprocessSettings = SETTINGS) -> int | None:
    try:
        image_track(data, settings=settings)
    except UnreadableItem as error:
        return error.code
    return None


def with_orientation(value: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = value
    return encoded(photo(), exif=exif)


def bomb(width: int, height: int, *, lines: bytes = b"\0" * 100) -> bytes:
    """A PNG whose header alone claims that size, while its picture is of these lines; the checksums hold."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


def test_a_png_with_a_filter_that_there_is_none_of_is_unreadable():
    """Requirement: reading the EXIF of a PNG, which decodes it, hides no failure to decode it."""
    assert code_of(bomb(8, 8, lines=b"\0" * 72)) is None
    assert code_of(bomb(8, 8, lines=b"\7" * 72)) == 3001


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM"])
def test_each_format_gives_its_size(kind):
    track = image_track(encoded(photo(), kind), settings=SETTINGS)
    assert (track["width_px"], track["height_px"], track["num_frames"]) == (320, 240, 1)


@pytest.mark.parametrize("value", range(1, 9))
def test_orientation_turns_the_size(value):
    track = image_track(with_orientation(value), settings=SETTINGS)
    assert (track["orientation"], track["width_px"], track["height_px"]) == (
        value,
        *((240, 320) if value >= 5 else (320, 240)),
    )


def test_a_senseless_orientation_counts_as_none():
    assert image_track(with_orientation(99), settings=SETTINGS)["orientation"] == 1


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM"])
def test_half_a_file_is_truncated(kind):
    data = encoded(photo(), kind)
    assert code_of(data[: len(data) // 2]) in ((3002,) if kind != "WEBP" else (3001, 3002))


def test_half_a_jpeg_with_a_forged_end_mark_is_truncated():
    data = encoded(photo())
    assert code_of(data[: len(data) // 2] + b"\xff\xd9") == 3002


def test_a_jpeg_without_its_last_two_bytes_is_truncated():
    assert code_of(encoded(photo())[:-2]) == 3002


@pytest.mark.parametrize("options", [{"progressive": True}, {"quality": 5}, {"subsampling": 0}])
def test_whole_jpegs_of_every_make_are_accepted(options):
    assert code_of(encoded(photo(), **options)) is None


def test_bytes_after_the_end_mark_are_harmless():
    assert code_of(encoded(photo()) + bytes(1000)) is None


def test_cmyk_jpegs_are_accepted():
    sink = io.BytesIO()
    Image.fromarray(photo()).convert("CMYK").save(sink, "JPEG")
    assert code_of(sink.getvalue()) is None


@pytest.mark.parametrize("kind", ["text", "profile"])
def test_a_png_with_a_long_text_or_a_large_profile_is_read(kind):
    """Requirement: what image generators and printers write next to a picture, compressed, is no reason to lose it."""
    info, sink = PngImagePlugin.PngInfo(), io.BytesIO()
    info.add_text("workflow", "node " * 800_000, zip=True)
    given = {"pnginfo": info} if kind == "text" else {"icc_profile": bytes(4_000_000)}
    Image.fromarray(photo()).save(sink, "PNG", **given)
    assert code_of(sink.getvalue()) is None


def test_a_png_whose_text_fills_the_memory_is_not_read():
    info, sink = PngImagePlugin.PngInfo(), io.BytesIO()
    info.add_text("bomb", "x" * 80_000_000, zip=True)
    Image.fromarray(photo()).save(sink, "PNG", pnginfo=info)
    assert code_of(sink.getvalue()) == 3001


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xd8\xff", b"GIF89a", bytes(1000), b"<svg></svg>", b"\x89PNG\r\n\x1a\n" + bytes(50)]
)
def test_junk_is_unreadable_and_never_raises_anything_else(data):
    assert code_of(data) in (3001, 3002)


def test_a_picture_at_the_pixel_budget_is_decoded():
    assert code_of(encoded(photo()), PreprocessSettings(max_pixels=320 * 240)) is None


def test_a_picture_above_the_pixel_budget_is_refused_before_decoding():
    assert code_of(encoded(photo()), PreprocessSettings(max_pixels=320 * 240 - 1)) == 3004


@pytest.mark.parametrize("side_px", [9000, 60000])
def test_a_header_bomb_is_refused(side_px):
    assert code_of(bomb(side_px, side_px)) == 3004


def test_the_reason_names_the_measured_value():
    with pytest.raises(UnreadableItem, match=r"num_pixels=81000000 \(9000x9000\) not in \[1, 64000000\]"):
        image_track(bomb(9000, 9000), settings=SETTINGS)


def test_frames_of_an_animation_are_counted():
    frames = [Image.fromarray(photo(seed)) for seed in range(3)]
    sink = io.BytesIO()
    frames[0].save(sink, "GIF", save_all=True, append_images=frames[1:])
    assert image_track(sink.getvalue(), settings=SETTINGS)["num_frames"] == 3


def test_single_flipped_bytes_never_escape_as_another_error():
    data, rng = encoded(photo(size=(64, 48)), "PNG"), np.random.default_rng(5)
    damaged = [bytes([*data[:at], data[at] ^ 0xFF, *data[at + 1 :]]) for at in rng.integers(0, len(data), 60)]
    assert {code_of(blob) for blob in damaged} <= {None, 3001, 3002, 3004}


@pytest.mark.parametrize("side_px", [9_000, 65_535])
def test_a_later_frame_above_the_budget_is_damage_of_a_picture_that_is_there(side_px):
    """Requirement: the first frame is shown by every viewer; 9,000 px is above our budget, 65,535 px above Pillow's."""
    sink, (first, second) = io.BytesIO(), (Image.new("L", (8, 8), level) for level in (0, 255))
    first.save(sink, "GIF", save_all=True, append_images=[second], duration=100)
    data = bytearray(sink.getvalue())
    at_byte = data.rindex(b"\x2c" + struct.pack("<HHHH", 0, 0, 8, 8))  # the descriptor of the second frame
    data[at_byte + 5 : at_byte + 9] = struct.pack("<HH", side_px, side_px)
    track = image_track(bytes(data), settings=SETTINGS)
    assert (track["width_px"], track["height_px"], track["num_frames"]) == (8, 8, 2)
    (damage,) = track["damages"]
    assert "frame 1 of 2 is larger than max_pixels=64000000" in damage["what"] and damage["at_s"] == 0.1
