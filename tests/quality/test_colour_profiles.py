"""Pictures with a colour profile are seen in sRGB by whoever sees them, by values that the standards give."""

from __future__ import annotations

import io
import logging
import struct

import numpy as np
import pytest
from PIL import Image, ImageCms, ImageOps, PngImagePlugin, features
from quality_media import measures_of
from quality_media import track as a_track

from mmlake.dedup.image import fingerprints
from mmlake.embed.media import upright_rgb
from mmlake.evaluate import distort_image
from mmlake.loader.decode import DECODERS
from mmlake.media import colour_profiles
from mmlake.media.matrix_profiles import P3, matrix_profile
from mmlake.preprocess.image import image_track
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.quality.image import luma
from mmlake.report.media import thumbnail
from mmlake.store import BlobStore
from tests import made_profiles as made
from tests.dedup.test_elections import survivors

PATCH_PX = 32
SRGB_CURVE = made.srgb_curve(np.linspace(0, 255, 1024))
GAMMA = {"Adobe RGB": 563 / 256, "ProPhoto": 1.8}
PROFILES = {
    "Display P3": made.rgb_profile(made.DISPLAY_P3, SRGB_CURVE),
    "Adobe RGB": made.rgb_profile(made.ADOBE_RGB, made.power_curve(GAMMA["Adobe RGB"])),
    "ProPhoto": made.rgb_profile(made.PROPHOTO, made.power_curve(1.8)),
    "swapped": made.rgb_profile((made.SRGB[1], made.SRGB[0], made.SRGB[2]), SRGB_CURVE),
}
SRGB = made.rgb_profile(made.SRGB, SRGB_CURVE)
COLOURS = np.array([[200, 100, 50], [60, 150, 70], [40, 60, 120], [180, 170, 90], [128, 128, 128], [30, 25, 20]])
TRANSPARENT = np.array([255, 0, 0])


def patches(colours: np.ndarray) -> Image.Image:
    """A square of each colour, side by side."""
    row = np.repeat(np.atleast_2d(colours), PATCH_PX, axis=0).astype(np.uint8)
    return Image.fromarray(np.repeat(row[None], PATCH_PX, axis=0))


def grey_patches(levels: np.ndarray) -> Image.Image:
    return Image.fromarray(np.repeat(np.repeat(levels, PATCH_PX)[None], PATCH_PX, axis=0).astype(np.uint8))


def middles(pixels: np.ndarray, num: int) -> np.ndarray:
    """The colour in the middle of each patch; the pixels may be of another size."""
    across = ((np.arange(num) + 0.5) * pixels.shape[1] / num).astype(int)
    return pixels[pixels.shape[0] // 2, across].astype(np.float64)


def in_srgb(colours: np.ndarray, space: str) -> np.ndarray:
    """What the standards say."""
    light = (colours / 255) ** GAMMA[space] if space in GAMMA else made.srgb_curve(colours)
    return made.srgb_levels(light @ np.array(made.TO_SRGB[space]).T)


def coded(picture: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    sink = io.BytesIO()
    exact = {"JPEG": {"quality": 100, "subsampling": 0}, "WEBP": {"lossless": True}}.get(kind, {})
    picture.save(sink, kind, **(exact | options))
    return sink.getvalue()


def batch(data: bytes) -> np.ndarray:
    return DECODERS["image"](data)


def damages(data: bytes) -> list[str]:
    return [str(one["what"]) for one in image_track(data, settings=PreprocessSettings())["damages"]]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("space", PROFILES)
def test_all_who_see_a_picture_see_what_the_standard_says(space, kind):
    """Requirement: batches, encoders, thumbnails and renditions for probes show one picture, that of a viewer."""
    data = coded(patches(COLOURS), kind, icc_profile=PROFILES[space], **({"quality": 100} if kind == "AVIF" else {}))
    expected, num = in_srgb(COLOURS, space), len(COLOURS)
    assert np.abs(expected - COLOURS).mean() > 5
    views = [batch(data), np.asarray(upright_rgb(data, draft_px=8))]
    small = thumbnail(data, max_side_px=96, quality=95)
    assert small is not None
    for pixels, most in [*((view, 2.0) for view in views), (np.asarray(Image.open(io.BytesIO(small))), 4.0)]:
        assert np.abs(middles(pixels, num) - expected).mean() < most
    grey = expected @ [0.299, 0.587, 0.114]
    assert np.abs(middles(luma(data), num) - grey).mean() < 2
    with Image.open(io.BytesIO(distort_image(data, np.random.default_rng(1)))) as query:
        assert "icc_profile" not in query.info


def test_measures_are_those_of_the_picture_in_srgb(tmp_path):
    store = BlobStore(tmp_path)
    plain = coded(patches(in_srgb(COLOURS, "Adobe RGB").round()), "PNG")
    of_both = []
    for data in (coded(patches(COLOURS), icc_profile=PROFILES["Adobe RGB"]), plain, coded(patches(COLOURS))):
        shown = a_track(store.put(data), "image", width_px=PATCH_PX * len(COLOURS), height_px=PATCH_PX)
        of_both.append(measures_of(shown, store))
    names = ("luma_mean", "luma_std", "chroma_levels")
    profiled, same, unseen = ([one[name] for name in names] for one in of_both)
    assert profiled == pytest.approx(same, abs=0.6)
    assert profiled != pytest.approx(unseen, abs=2)


def test_a_draft_of_a_large_jpeg_is_converted_after_it_was_shrunk():
    big = patches(COLOURS).resize((len(COLOURS) * 512, 1024), Image.Resampling.NEAREST)
    data = coded(big, "JPEG", icc_profile=PROFILES["Display P3"])
    expected = in_srgb(COLOURS, "Display P3")
    seen = upright_rgb(data, draft_px=128)
    assert seen.height == 128
    assert np.abs(middles(np.asarray(seen), len(COLOURS)) - expected).mean() < 2
    assert np.abs(middles(luma(data), len(COLOURS)) - expected @ [0.299, 0.587, 0.114]).mean() < 2


DOT_GAIN = 1 - (lambda ink: ink + 0.8 * ink * (1 - ink))(1 - np.linspace(0, 1, 1024))  # of a fifth at half tone


@pytest.mark.parametrize(
    "curve", [made.power_curve(1.0), made.power_curve(1.8), made.power_curve(2.2), DOT_GAIN], ids=str
)
@pytest.mark.parametrize("depth", [8, 16])
def test_grey_of_its_own_curve_is_shown_as_srgb_has_it(curve, depth):
    levels = np.array([8, 24, 60, 128, 200, 255])
    picture = grey_patches(levels)
    if depth == 16:
        picture = Image.fromarray(np.asarray(picture).astype(np.uint16) * 257)
    data = coded(picture, icc_profile=made.grey_profile(curve))
    expected = made.srgb_levels(np.interp(levels / 255, np.linspace(0, 1, 1024), curve))
    assert np.abs(expected - levels).max() > 3
    assert np.abs(middles(batch(data)[..., 0], len(levels)) - expected).max() < 1.6
    assert np.abs(middles(luma(data), len(levels)) - expected).max() < 1.6


def test_grey_with_a_profile_of_colours_has_its_curve():
    levels = np.array([8, 24, 60, 128, 200, 255])
    data = coded(grey_patches(levels), "JPEG", icc_profile=made.rgb_profile(made.SRGB, made.power_curve(1.8)))
    assert np.abs(middles(luma(data), len(levels)) - made.srgb_levels((levels / 255) ** 1.8)).max() < 2
    assert damages(data) == []


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_inks_are_mixed_as_their_profile_says(kind):
    """Requirement: solid inks are the colours of the profile's table, and mixtures what LittleCMS makes of them."""
    tones = np.array([[255, 0, 0, 0], [0, 255, 0, 0], [0, 0, 255, 0], [0, 0, 0, 0], [120, 60, 30, 0], [0, 90, 90, 40]])
    row = np.repeat(np.repeat(tones, PATCH_PX, axis=0)[None], PATCH_PX, axis=0).astype(np.uint8)
    picture, profile = Image.frombytes("CMYK", (row.shape[1], row.shape[0]), row.tobytes()), made.cmyk_profile()
    data = coded(picture, kind, icc_profile=profile)
    seen = middles(batch(data), len(tones))
    solid = [made.lab_in_srgb(made.inks()[at]) for at in (8, 4, 2, 0)]
    assert np.abs(seen[:4] - solid).mean() < 2.5
    opened = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    direct = ImageCms.profileToProfile(picture, opened, ImageCms.createProfile("sRGB"), 1, outputMode="RGB", flags=8192)
    assert direct is not None
    assert np.abs(seen - middles(np.asarray(direct), len(tones))).mean() < 1.5
    assert np.abs(seen - middles(np.asarray(picture.convert("RGB")), len(tones))).mean() > 15
    assert np.abs(middles(luma(data), len(tones)) - seen @ [0.299, 0.587, 0.114]).mean() < 1


@pytest.mark.parametrize(
    ("mode", "profile"),
    [(m, p) for m in ("RGB", "RGBA", "L", "LA", "P") for p in ("none", "sRGB", "of LittleCMS")] + [("CMYK", "none")],
)
def test_what_is_srgb_already_is_not_touched(mode, profile):
    """Requirement: bit for bit what it was without the profile, and of CMYK without one what Pillow makes."""
    noise = Image.fromarray(np.random.default_rng(2).integers(0, 256, (40, 40, 3), np.uint8)).convert(mode)
    made_by_library = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    icc = {"none": b"", "sRGB": SRGB, "of LittleCMS": made_by_library}[profile]
    kind = "TIFF" if mode == "CMYK" else "PNG"
    assert np.array_equal(batch(coded(noise, kind, icc_profile=icc)), np.asarray(noise.convert("RGB")))


def test_an_srgb_profile_leaves_the_draft_in_grey():
    data = coded(patches(COLOURS), "JPEG", icc_profile=SRGB)
    for profile, mode in ((SRGB, "L"), (PROFILES["Display P3"], "YCbCr")):
        data = coded(patches(COLOURS), "JPEG", icc_profile=profile)
        with Image.open(io.BytesIO(data)) as picture:
            fingerprints.draft_grey(picture, 16)
            assert picture.mode == mode


FAULTS = {
    "garbage": (b"no profile at all" * 20, "the colour profile does not parse"),
    "cut": (PROFILES["Display P3"][:600], "the colour profile does not parse"),
    "inks": (made.cmyk_profile(), "the colour profile is one of CMYK, and the picture is RGB"),
    "grey": (made.grey_profile(made.power_curve(1.0)), "the colour profile is one of GRAY, and the picture is RGB"),
    "large": (
        PROFILES["Adobe RGB"].ljust(5 << 20, b"\0"),
        "num_bytes=5242880 of the colour profile not in [0, 4194304]",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_profile_that_cannot_be_used_is_passed_over_and_noted(name):
    profile, fault = FAULTS[name]
    for kind in ("PNG", "JPEG"):
        data = coded(patches(COLOURS), kind, icc_profile=profile)
        assert damages(data) == [f"{fault}; the colours are taken for those of sRGB"]
        assert np.abs(middles(batch(data), len(COLOURS)) - COLOURS).max() <= 2
        assert fingerprints.fingerprint(data)["phash"].size


def test_a_profile_whose_parts_are_missing_is_noted():
    data = coded(patches(COLOURS), "JPEG", icc_profile=made.cmyk_profile().ljust(100_000, b"\0"))
    at = data.index(b"ICC_PROFILE\0\2")
    damaged = data[: at + 12] + b"\1" + data[at + 13 :]  # the second part says that it is the first
    lost = damaged[: at + 13] + b"\7" + damaged[at + 14 :]
    assert damages(damaged[:at] + lost[at:].replace(b"ICC_PROFILE", b"ICC_PROFILX", 1)) == [
        "the colour profile is not whole; the colours are taken for those of sRGB"
    ]


def chunks(**stated: bytes) -> PngImagePlugin.PngInfo:
    info = PngImagePlugin.PngInfo()
    for name, data in stated.items():
        info.add(name.encode(), data)
    return info


def points(*values: float) -> bytes:
    return struct.pack(f">{len(values)}I", *(round(100_000 * value) for value in values))


P3_POINTS = points(0.3127, 0.3290, 0.680, 0.320, 0.265, 0.690, 0.150, 0.060)
SRGB_POINTS = points(0.3127, 0.3290, 0.64, 0.33, 0.30, 0.60, 0.15, 0.06)


def test_a_png_that_states_its_space_in_numbers_is_shown_in_srgb():
    wide = in_srgb(COLOURS, "Display P3")
    linear = made.srgb_levels(COLOURS / 255)
    for info, expected in (
        (chunks(gAMA=points(1 / 2.2), cHRM=P3_POINTS), wide),
        (chunks(cHRM=P3_POINTS), wide),
        (chunks(cICP=bytes((12, 13, 0, 1))), wide),
        (chunks(gAMA=points(1.0)), linear),
        (chunks(cICP=bytes((1, 8, 0, 1)), gAMA=points(1 / 2.2)), linear),
    ):
        data = coded(patches(COLOURS), pnginfo=info)
        assert np.abs(middles(batch(data), len(COLOURS)) - expected).mean() < 1.5
        assert damages(data) == []


def test_a_png_that_states_srgb_or_what_is_left_alone_is_not_touched():
    for info in (
        chunks(gAMA=points(1 / 2.2), cHRM=SRGB_POINTS),
        chunks(sRGB=b"\0", gAMA=points(1.0)),
        chunks(cICP=bytes((1, 13, 0, 1))),
        chunks(cICP=bytes((9, 16, 0, 1))),  # HDR
        chunks(cICP=bytes((12, 13, 0))),
    ):
        data = coded(patches(COLOURS), pnginfo=info)
        assert np.array_equal(batch(data), np.asarray(patches(COLOURS)))
    for info in (chunks(gAMA=points(0.0)), chunks(cHRM=points(0.3, 0.3, *(0.2, 0.2) * 3)), chunks(cHRM=bytes(32))):
        data = coded(patches(COLOURS), pnginfo=info)
        assert np.array_equal(batch(data), np.asarray(patches(COLOURS)))
        assert damages(data) == [
            "the stated chromaticities or gamma make no space of colours; the colours are taken for those of sRGB"
        ]


@pytest.mark.parametrize("mode", ["RGBA", "P", "key"])
def test_transparent_parts_are_laid_on_a_ground_in_srgb(mode):
    colours = np.vstack([COLOURS, TRANSPARENT])
    picture = patches(colours)
    alpha = Image.fromarray(np.where((np.asarray(picture) == TRANSPARENT).all(-1), 0, 255).astype(np.uint8))
    options: dict[str, object] = {"icc_profile": PROFILES["Display P3"]}
    if mode == "key":
        options["transparency"] = tuple(TRANSPARENT.tolist())
    else:
        picture.putalpha(alpha)
        picture = picture.quantize(16) if mode == "P" else picture
    expected = np.vstack([in_srgb(COLOURS, "Display P3"), [255, 255, 255]])
    assert np.abs(middles(batch(coded(picture, **options)), len(colours)) - expected).mean() < 2


def test_transparent_grey_has_its_curve():
    picture = grey_patches(np.array([20, 60, 120, 220]))
    linear = made.grey_profile(made.power_curve(1.0))
    clear = Image.merge("LA", (picture, picture.point(lambda level: 255 * (level < 200))))
    expected = np.append(made.srgb_levels(np.array([20, 60, 120]) / 255), 255)
    for data in (coded(clear, icc_profile=linear), coded(picture, icc_profile=linear, transparency=220)):
        assert np.abs(middles(batch(data)[..., 0], 4) - expected).max() < 1.6


def test_a_turned_picture_is_converted_as_well():
    exif = Image.Exif()
    exif[0x0112] = 3
    data = coded(ImageOps.mirror(patches(COLOURS)), icc_profile=PROFILES["Adobe RGB"], exif=exif)
    assert np.abs(middles(batch(data), len(COLOURS)) - in_srgb(COLOURS, "Adobe RGB")).mean() < 1.5


def test_a_tiff_of_16_bits_is_converted_by_its_profile():
    values = np.asarray(patches(COLOURS)).astype("<u2") * 257
    height, width = values.shape[:2]
    profile, pixels = PROFILES["ProPhoto"], values.tobytes()
    bits_at = 8 + len(pixels)
    profile_at = bits_at + 6
    fields = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 3, bits_at), (259, 3, 1, 1), (262, 3, 1, 2)]
    fields += [(273, 4, 1, 8), (277, 3, 1, 3), (278, 4, 1, height), (279, 4, 1, len(pixels))]
    fields += [(34675, 7, len(profile), profile_at)]
    directory = struct.pack("<H", len(fields)) + b"".join(struct.pack("<HHII", *one) for one in fields) + bytes(4)
    body = pixels + struct.pack("<3H", 16, 16, 16) + profile + bytes(len(profile) % 2)
    data = b"II*\0" + struct.pack("<I", 8 + len(body)) + body + directory
    assert np.abs(middles(batch(data), len(COLOURS)) - in_srgb(COLOURS, "ProPhoto")).mean() < 2


def photograph(side: int = 240) -> Image.Image:
    rng = np.random.default_rng(5)
    coarse = Image.fromarray(rng.integers(30, 220, (9, 9, 3), np.uint8)).resize((side, side), Image.Resampling.BICUBIC)
    return Image.fromarray(np.clip(np.asarray(coarse) + rng.normal(0, 6, (side, side, 3)), 0, 255).astype(np.uint8))


def test_a_picture_and_its_copy_in_srgb_have_one_print():
    """Requirement: what is compared are the colours that are seen; what a file keeps of its blocks stays its own."""
    original = coded(photograph(), "JPEG", quality=92, icc_profile=PROFILES["Adobe RGB"])
    copy, bare = coded(Image.fromarray(batch(original)), "PNG"), coded(photograph(), "JPEG", quality=92)
    prints = [fingerprints.fingerprint(data) for data in (original, copy, bare)]
    planes = [one["luma"].view(np.uint8).astype(np.int16) for one in prints]
    assert np.abs(planes[0] - planes[1]).max() <= 2
    assert np.abs(planes[0] - planes[2]).mean() > 3
    assert np.array_equal(prints[0]["blocks"], prints[2]["blocks"])
    assert prints[0]["tint"].size == prints[2]["tint"].size == 0  # photographs as JPEG have none


def test_of_a_picture_and_its_copy_in_srgb_the_original_stays():
    """Requirement: whatever their names, where nothing else sets them apart."""
    for kind, options in (("PNG", {}), ("JPEG", {"quality": 75})):
        original = coded(photograph(), kind, icc_profile=PROFILES["Display P3"], **options)
        copy = coded(Image.fromarray(batch(original)), "PNG")
        assert survivors({"m": original, "a": copy}) == survivors({"m": original, "z": copy}) == ["m"]


def test_a_conversion_is_built_once_for_each_profile():
    colour_profiles._conversion.cache_clear()
    for space in ("Display P3", "Adobe RGB", "Display P3", "Adobe RGB"):
        batch(coded(patches(COLOURS), icc_profile=PROFILES[space]))
    found = colour_profiles._conversion.cache_info()
    assert (found.misses, found.maxsize) == (2, 16)


def test_without_littlecms_pictures_are_seen_as_before_and_that_is_said_once(monkeypatch, caplog):
    monkeypatch.setattr(features, "check", lambda name: False)
    caches = (colour_profiles._conversion, colour_profiles._has_littlecms)
    for cache in caches:
        cache.cache_clear()
    with caplog.at_level(logging.WARNING):
        for space in ("Display P3", "Adobe RGB"):
            data = coded(patches(COLOURS), icc_profile=PROFILES[space])
            assert np.array_equal(batch(data), np.asarray(patches(COLOURS)))
    assert [record.message for record in caplog.records] == [
        "Pillow was built without LittleCMS: pictures with a colour profile are seen without it"
    ]
    for cache in caches:
        cache.cache_clear()


def test_profiles_made_of_numbers_are_those_of_the_standard():
    picture = patches(COLOURS)
    picture.info["icc_profile"] = matrix_profile(P3)
    seen = middles(np.asarray(colour_profiles.in_srgb(picture)), len(COLOURS))
    assert np.abs(seen - in_srgb(COLOURS, "Display P3")).max() < 1.1
    for wrong in (((0.1, 0.0),) * 3, ((0.2, 0.2), (0.3, 0.3), (0.4, 0.4)), ((float("nan"), 0.3),) * 3):
        with pytest.raises(ValueError, match="luminance|line|space"):
            matrix_profile(wrong)
