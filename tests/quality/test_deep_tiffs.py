"""TIFFs of more than 8 bits, and pictures whose values fill a part of their bits: what batches and measures get."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence

import numpy as np
import pytest
from PIL import Image
from quality_media import measures_of, track

from mmlake.errors import UnreadableItem
from mmlake.loader.decode import DECODERS
from mmlake.media.tiff import Tiff
from mmlake.preprocess.image import image_track
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.store import BlobStore

_HEIGHT, _WIDTH = 64, 96
_DOWN, _ACROSS = np.mgrid[0:_HEIGHT, 0:_WIDTH]
_COLOURS = np.stack([_ACROSS / 95, _DOWN / 63, (_ACROSS + _DOWN) % 32 / 31], axis=-1)  # 0..1
_GREY = _COLOURS[..., :1]
_KINDS = {"u": 1, "i": 2, "f": 3}
_READ = [("u2", 65_535), ("i2", 32_767), ("u4", 4_294_967_295), ("i4", 2_147_483_647), ("f4", 1), ("f4", 255)]
_READ += [("f8", 1), ("f8", 1_000)]


def page(values_HWC: np.ndarray, at: int, *, order: str = "<", planes: bool = False, **tags: int) -> tuple[bytes, int]:
    """(A page and what it names, to be put at that byte of a file, where its directory lies in it); the pixels are
    deflated. tags: t274=6 and so on."""
    height, width, num = values_HWC.shape
    stored = values_HWC.astype(values_HWC.dtype.newbyteorder(order))
    parts = [stored[..., nth] for nth in range(num)] if planes else [stored]
    blobs = [zlib.compress(np.ascontiguousarray(part).tobytes()) for part in parts]
    bits = 8 * values_HWC.dtype.itemsize
    fields: dict[int, Sequence[int]] = {256: [width], 257: [height], 258: [bits] * num, 259: [8], 277: [num]}
    fields |= {262: [2 if num > 2 else 1], 278: [height], 284: [1 + planes], 339: [_KINDS[stored.dtype.kind]] * num}
    fields |= {int(name[1:]): [value] for name, value in tags.items()}
    body = bytearray()
    fields |= {279: list(map(len, blobs)), 273: []}
    for blob in blobs:
        fields[273] = [*fields[273], at + len(body)]
        body += blob + bytes(len(blob) % 2)
    values = {tag: struct.pack(f"{order}{len(numbers)}I", *numbers) for tag, numbers in fields.items()}
    for tag in (tag for tag in values if len(values[tag]) > 4):
        values[tag], long = struct.pack(order + "I", at + len(body)), values[tag]
        body += long
    directory = b"".join(struct.pack(order + "HHI", tag, 4, len(fields[tag])) + values[tag] for tag in sorted(fields))
    return bytes(body) + struct.pack(order + "H", len(fields)) + directory, len(body)


def tiff(*pages: np.ndarray, order: str = "<", planes: bool = False, **tags: int) -> bytes:
    """A file of these pages."""
    out, pointer = bytearray((b"II*\0" if order == "<" else b"MM\0*") + bytes(4)), 4
    for values_HWC in pages:
        body, begins = page(values_HWC, len(out), order=order, planes=planes, **tags)
        struct.pack_into(order + "I", out, pointer, len(out) + begins)
        out += body
        pointer = len(out)
        out += bytes(4)
    return bytes(out)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("planes", [False, True], ids=["together", "planes"])
@pytest.mark.parametrize(("dtype", "most"), _READ)
def test_colours_of_every_depth_are_shown(dtype: str, most: float, planes: bool, order: str) -> None:
    """Colours of 16 bits in planes were noise, floats and 32 bits could not be read."""
    data = tiff((_COLOURS * most).astype(dtype), order=order, planes=planes)
    assert image_track(data, settings=PreprocessSettings())["width_px"] == _WIDTH
    np.testing.assert_allclose(DECODERS["image"](data), _COLOURS * 255, atol=1.01)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(("dtype", "most"), _READ)
def test_grey_of_every_depth_is_shown(dtype: str, most: float, order: str) -> None:
    """Numbers of 32 bits were white, those with a sign dark, floats of 64 bits could not be read."""
    shown = DECODERS["image"](tiff((_GREY * most).astype(dtype), order=order))
    np.testing.assert_allclose(shown, np.repeat(_GREY, 3, axis=-1) * 255, atol=1.01)


@pytest.mark.parametrize("most", [255, 1_023, 4_095, 16_383, 65_535])
@pytest.mark.parametrize("values", [_GREY, _COLOURS], ids=["grey", "colours"])
def test_fewer_bits_in_sixteen_are_no_darkness(values: np.ndarray, most: int) -> None:
    """What a camera of 12 bits saw was sixteen times too dark."""
    shown = DECODERS["image"](tiff((values * most).astype("u2")))
    np.testing.assert_allclose(shown, np.broadcast_to(values, shown.shape) * 255, atol=1.01)


def test_a_dark_picture_of_sixteen_bits_stays_dark() -> None:
    shown = DECODERS["image"](tiff((_GREY * 30_000).astype("u2")))
    np.testing.assert_allclose(shown[..., 0], _GREY[..., 0] * 30_000 / 257, atol=1.01)


@pytest.mark.parametrize(
    ("low", "high"), [(29_000, 31_500), (-1_000, 3_000), (0, 200_000)], ids="warm signed wide".split()
)
def test_what_an_instrument_measured_is_shown_from_the_least_to_the_greatest(tmp_path, low: int, high: int) -> None:
    """Temperatures of a room and densities of a body were one grey or black, though their measures saw them."""
    store, data = BlobStore(tmp_path), tiff((_GREY * (high - low) + low).astype("i4"))
    shown = DECODERS["image"](data)
    np.testing.assert_allclose(shown[..., 0], _GREY[..., 0] * 255, atol=1.01)
    found = measures_of(track(store.put(data), "image", width_px=_WIDTH, height_px=_HEIGHT), store)
    assert found["luma_std"] == pytest.approx(float(shown[..., 0].std()), abs=1)
    assert found["luma_mean"] == pytest.approx(float(shown[..., 0].mean()), abs=1)


def test_white_may_be_zero() -> None:
    shown = DECODERS["image"](tiff(_GREY.astype("f8"), t262=0))
    np.testing.assert_allclose(shown[..., 0], (1 - _GREY[..., 0]) * 255, atol=1.01)


@pytest.mark.parametrize(("extra", "held"), [(1, 0.5), (2, 1.0), (0, 1.0)], ids="premultiplied alpha other".split())
def test_a_fourth_sample_is_what_the_file_says(extra: int, held: float) -> None:
    """Half opaque colours lie on white; a fourth sample that says nothing of the kind changes nothing."""
    opacity = np.full((_HEIGHT, _WIDTH, 1), 0.5)
    data = tiff((np.concatenate([_COLOURS * held, opacity], axis=-1) * 65_535).astype("u2"), t338=extra)
    # the white of the fourth sample is that of 16 bits, half of which is more than 14 bits hold
    wanted = _COLOURS * 255 if extra == 0 else _COLOURS * 127.5 + 127.5
    np.testing.assert_allclose(DECODERS["image"](data), wanted, atol=2.01)


def test_later_pages_are_read_whatever_they_hold() -> None:
    data = tiff(_COLOURS.astype("f4"), (_COLOURS * 255).astype("u1"), _GREY.astype("f8"))
    found = image_track(data, settings=PreprocessSettings())
    assert (found["num_frames"], found["damages"]) == (3, [])


def test_a_later_page_that_is_too_large_is_damage_and_not_decoded() -> None:
    wide = np.zeros((_HEIGHT, 4 * _WIDTH, 3), "u1")
    settings = PreprocessSettings(max_pixels=_HEIGHT * _WIDTH)
    (damage,) = image_track(tiff(_COLOURS.astype("f4"), wide), settings=settings)["damages"]
    assert "larger than" in damage["what"]


def test_the_picture_is_upright() -> None:
    data = tiff(_COLOURS.astype("f4"), t274=6)
    found = image_track(data, settings=PreprocessSettings())
    assert (found["width_px"], found["height_px"], found["orientation"]) == (_HEIGHT, _WIDTH, 6)
    np.testing.assert_allclose(DECODERS["image"](data), np.rot90(_COLOURS, -1) * 255, atol=1.01)


def test_a_page_that_is_cut_off_is_a_row() -> None:
    data = tiff(_COLOURS.astype("f4"))
    first = struct.unpack_from("<I", data, 4)[0]
    with pytest.raises(UnreadableItem) as raised:
        image_track(data[: first - 40] + bytes(0), settings=PreprocessSettings())
    assert raised.value.code in (3001, 3002)
    blank = bytearray(data)
    blank[8:300] = bytes(292)
    with pytest.raises(UnreadableItem) as raised:
        image_track(bytes(blank), settings=PreprocessSettings())
    assert raised.value.code == 3001


def test_fields_that_all_name_the_same_bytes_take_no_memory() -> None:
    """60,000 fields of a megabyte each would take 60 GB."""
    num_fields, body = 60_000, bytes(1 << 20)
    fields = b"".join(struct.pack("<HHII", 273, 1, len(body), 8) for _ in range(num_fields))
    data = b"II*\0" + struct.pack("<I", 8 + len(body)) + body + struct.pack("<H", num_fields) + fields + bytes(4)
    with pytest.raises(UnreadableItem) as raised:
        Tiff(data).page(0, max_pixels=100)
    assert raised.value.code == 3001
    with pytest.raises(UnreadableItem):
        image_track(data, settings=PreprocessSettings())


def test_a_private_field_that_leads_out_of_the_file_costs_no_picture() -> None:
    data = bytearray(tiff(_COLOURS.astype("f4"), t65000=7))
    at = data.rindex(struct.pack("<HHI", 65_000, 4, 1))
    struct.pack_into("<II", data, at + 4, 1_000, len(data))
    np.testing.assert_allclose(DECODERS["image"](bytes(data)), _COLOURS * 255, atol=1.01)


def coded(picture: Image.Image, name: str) -> bytes:
    sink = io.BytesIO()
    picture.save(sink, name)
    return sink.getvalue()


@pytest.mark.parametrize(("name", "is_seen"), [("TGA", True), ("DDS", True), ("PNG", False)])
def test_a_fourth_byte_that_is_never_set_makes_nothing_transparent(name: str, is_seen: bool) -> None:
    """Programs fill it with zeros in TGA, BMP and DDS: the picture was one white field. In PNG it says what is seen."""
    filler = np.dstack([np.rint(_COLOURS * 255), np.zeros((_HEIGHT, _WIDTH))]).astype(np.uint8)
    shown = DECODERS["image"](coded(Image.fromarray(filler), name))
    np.testing.assert_array_equal(shown, filler[..., :3] if is_seen else np.full_like(shown, shown[0, 0]))
