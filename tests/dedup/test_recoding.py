"""Which of two files was made of the other by coding it anew, and that the one that it was made of stays."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter

from mmlake import dedup
from mmlake.dedup import DedupSettings
from mmlake.dedup.image import fingerprints, recoding
from mmlake.dedup.prints import Ragged
from mmlake.dedup.stars.outdone import copies_among
from tests.dedup.test_elections import coded, fingerprint_of, photograph, reopened, survivors

FINER = {"jpeg-90": ("JPEG", {"quality": 90}), "jpeg-95": ("JPEG", {"quality": 95}), "png": ("PNG", {})}


def made_of(copy: bytes, original: bytes) -> bool:
    prints = Ragged.of([fingerprint_of(data)["blocks"] for data in (copy, original)])
    return bool(recoding.made_of(prints, np.array([0]), np.array([1]))[0])


def marked(picture: Image.Image) -> Image.Image:
    copy = picture.copy()
    ImageDraw.Draw(copy).rectangle((20, 20, 65, 45), "#c02020")
    return copy


@pytest.mark.parametrize("finer", FINER)
@pytest.mark.parametrize("quality", [30, 60, 75, 82])
def test_a_finer_copy_of_a_coarse_file_is_known_and_gives_way(finer, quality):
    original = coded(photograph(3, 300), quality=quality)
    kind, options = FINER[finer]
    for edit in (lambda one: one, marked, lambda one: one.convert("L")):
        copy = coded(edit(reopened(original)), kind, **options)
        assert made_of(copy, original)
        assert not made_of(original, copy)
        assert survivors({"m": original, "a": copy}) == ["m"]
    assert survivors({"m": original, "z": copy}) == ["m"]  # of the digest nothing depends


@pytest.mark.parametrize("side", [1100, 2100], ids=["at half", "at a quarter"])
def test_it_is_known_of_what_is_decoded_at_less_than_its_size(side):
    original = coded(photograph(3, side), quality=40)
    for copy in (coded(reopened(original), quality=90), coded(reopened(original), "PNG")):
        assert made_of(copy, original)
        assert not made_of(original, copy)


def test_the_first_of_several_pictures_in_a_file_has_its_table():
    one = photograph(3, 300)
    original = coded(one, "MPO", quality=60, save_all=True, append_images=[photograph(4, 300)])
    assert made_of(coded(reopened(original), "PNG"), original)
    assert made_of(coded(reopened(original), quality=95), original)


@pytest.mark.parametrize("original", FINER)
@pytest.mark.parametrize("quality", [10, 30, 60, 75])
def test_a_coarser_copy_is_known_and_gives_way(original, quality):
    kind, options = FINER[original]
    data = coded(photograph(4, 300), kind, **options)
    for edit in (lambda one: one, marked):
        copy = coded(edit(reopened(data)), quality=quality)
        assert made_of(copy, data)
        assert not made_of(data, copy)
        assert survivors({"a": copy, "m": data}) == ["m"]


def test_what_was_edited_cut_or_resized_was_not_coded_anew():
    one = photograph(5, 320)
    original = coded(one, quality=60)
    seen = reopened(original)
    values = np.asarray(seen, np.float64)
    noisy = [values + np.random.default_rng(2).normal(0, levels, values.shape) for levels in (6, 12)]
    edits = [
        *(Image.fromarray(plane.clip(0, 255).astype(np.uint8)) for plane in noisy),
        seen.filter(ImageFilter.GaussianBlur(3)),
        ImageEnhance.Contrast(seen).enhance(1.3),
        Image.fromarray((255 * (values / 255) ** 0.8).astype(np.uint8)),
        seen.crop((4, 4, 320, 320)),
        seen.crop((0, 0, 320, 312)),
        seen.resize((300, 300)),
        photograph(6, 320),
    ]
    for at, edit in enumerate(edits):
        for copy in (coded(edit, quality=92), coded(edit, "PNG")):
            assert not made_of(copy, original), at
            assert not made_of(original, copy), at


def with_profile(picture: Image.Image, **options) -> bytes:
    """A WebP in chunks, as files with a profile or tags are."""
    return coded(picture, "WEBP", icc_profile=b"profile of a test", **options)


@pytest.mark.parametrize("quality", [40, 80, 95])
@pytest.mark.parametrize("kind", ["WebP", "WebP in chunks", "AVIF"])
def test_what_shows_the_very_pixels_of_a_lossy_file_was_saved_of_it(kind, quality):
    one = photograph(11, 320)
    if kind == "AVIF":
        original = coded(one, "AVIF", quality=quality)
    else:
        original = (coded if kind == "WebP" else with_profile)(one, *["WEBP"] * (kind == "WebP"), quality=quality)
    seen = reopened(original)
    for copy in (coded(seen, "PNG"), coded(seen, "WEBP", lossless=True), with_profile(seen, lossless=True)):
        assert made_of(copy, original)
        assert not made_of(original, copy)
        assert survivors({"a": copy, "m": original}) == ["m"]


@pytest.mark.parametrize("quality", [40, 80, 100])
def test_a_lossy_copy_of_a_file_without_loss_is_not_what_that_was_saved_of(quality):
    source = coded(photograph(12, 320), "PNG")
    for copy in (coded(reopened(source), "WEBP", quality=quality), coded(reopened(source), "AVIF", quality=quality)):
        assert not made_of(source, copy)
        assert survivors({"a": copy, "m": source}) == ["m"]
    again = coded(reopened(source), "WEBP", lossless=True)  # neither lost anything, so nobody knows
    assert not made_of(source, again) and not made_of(again, source)


def test_plain_pictures_show_the_very_pixels_of_each_other_without_being_copies():
    plain = Image.new("RGB", (320, 320), "#808080")
    assert not made_of(coded(plain, "PNG"), coded(plain, "WEBP", quality=80))


def test_two_files_of_the_same_steps_say_nothing():
    one = photograph(7, 320)
    files = coded(one, quality=75), coded(reopened(coded(one, quality=75)), quality=75), coded(one, "PNG")
    shifted = coded(Image.fromarray((np.asarray(one, np.int16) + 2).clip(0, 255).astype(np.uint8)), quality=75)
    for one_file in (files[0], files[1], shifted):
        for other in (files[0], files[1], shifted):
            assert not made_of(one_file, other)


@pytest.mark.parametrize("colours", [2, 5, 30])
def test_plain_surfaces_say_nothing(colours):
    """Few different means lie on the steps of a table by chance."""
    rng, drawing = np.random.default_rng(colours), Image.new("RGB", (400, 320), "white")
    paint = ImageDraw.Draw(drawing)
    for colour in rng.integers(0, 255, (colours, 3)).tolist():
        left, top = (int(value) * 8 for value in rng.integers(0, 30, 2))
        paint.rectangle((left, top, left + 79, top + 79), tuple(colour))
    drawn, copy = coded(drawing, "PNG"), coded(drawing, quality=70)
    assert not made_of(drawn, copy)
    assert survivors({"a": copy, "m": drawn}) == ["m"]


def test_a_grey_file_is_no_original_of_a_coloured_one():
    one = photograph(8, 320)
    grey, coloured = coded(one.convert("L"), "PNG"), coded(one, quality=60)
    assert made_of(coloured, grey)  # as far as its luma says
    assert survivors({"a": grey, "m": coloured}) == ["m"]


def test_a_coarse_file_that_others_were_made_of_is_no_coarse_copy():
    """What has no blocks to compare (cut, resized, noisy) has fewer traces than its original."""
    original = coded(photograph(9, 400), quality=25)
    seen = reopened(original)
    noisy = np.asarray(seen, np.float64) + np.random.default_rng(3).normal(0, 12, (400, 400, 3))
    family = {
        "a": coded(seen, quality=85),
        "b": coded(marked(seen), quality=92),
        "c": coded(seen, "PNG"),
        "d": coded(seen, quality=10),
        "e": coded(Image.fromarray(noisy.clip(0, 255).astype(np.uint8)), quality=92),
        "f": coded(seen.filter(ImageFilter.GaussianBlur(2)), quality=92),
        "g": coded(ImageEnhance.Contrast(seen).enhance(1.5), quality=92),
    }
    assert survivors(family | {"original": original}) == ["original"]


def test_a_larger_file_stays_before_a_coarse_one_that_others_were_made_of():
    one = photograph(10, 600)
    coarse = coded(one.resize((400, 400), 1), quality=25)
    copies = {f"a{quality}": coded(reopened(coarse), quality=quality) for quality in (60, 80, 85, 90)}
    assert survivors({"coarse": coarse, "original": coded(one, quality=92)} | copies) == ["original"]


def test_who_was_made_of_whom_goes_in_a_circle_only_if_nobody_knows():
    def circle(copies, originals):
        return (copies + 1) % 3 == originals

    units, unknown = np.arange(3), np.full((3, 1), np.nan)
    is_copy, num_copies = copies_among(units, circle, values_NG=unknown, most=3)
    assert not is_copy.any() and not num_copies.any()
    is_copy, num_copies = copies_among(units, lambda copies, originals: originals == 1, values_NG=unknown, most=2)
    assert is_copy.tolist() == [True, False, True] and num_copies.tolist() == [0, 2, 0]
    # the original has less of what it may not have less of
    colours = np.array([[1.0], [0.0], [0.0]])
    is_copy, _ = copies_among(units, lambda copies, originals: originals == 1, values_NG=colours, most=3)
    assert is_copy.tolist() == [False, False, True]


def test_pairs_and_reasons_say_that_one_was_coded_anew(tmp_path):
    from mmlake.store import BlobStore
    from tests.dedup.test_dedup_tiers import tracks

    store = BlobStore(tmp_path)
    original = coded(photograph(3, 300), quality=60)
    files = [original, coded(reopened(original), quality=92), coded(reopened(original).crop((12, 9, 300, 300)), "PNG")]
    digests = [store.put(data) for data in files]
    units = tracks([{"digest": digest} for digest in digests], "image")
    tiers = dedup.tiers_of("image")
    prints = dedup.fingerprint(units, tiers, store=store, settings=DedupSettings())
    rows = {"digest": sorted(digests), "priority": [0] * 3, "is_clean": [True] * 3}
    values = {one.name: pa.nulls(3, pa.float64()) for one in fingerprints.FIDELITY if one.is_of_column}
    nodes = pa.table(
        rows | {"parent_digest": sorted(digests), "num_occurrences": pa.array([1] * 3, pa.int32())} | values
    )
    pairs = dedup.near_pairs(prints, tiers, nodes=nodes, criteria=fingerprints.FIDELITY, settings=DedupSettings())
    clusters = dedup.cluster(nodes, pairs, criteria=fingerprints.FIDELITY).to_pylist()
    by_digest = {row["digest"]: row for row in clusters}
    assert by_digest[digests[0]]["is_survivor"]
    assert by_digest[digests[1]]["method"] == fingerprints.RECODED
    assert by_digest[digests[1]]["reason"] == "what the other one was made of by coding it anew"
    assert by_digest[digests[2]]["method"] != fingerprints.RECODED
    # where the copy stays all the same, nothing says that it is the original
    nodes = nodes.set_column(1, "priority", pa.array([int(one == digests[0]) for one in rows["digest"]]))
    pairs = dedup.near_pairs(prints, tiers, nodes=nodes, criteria=fingerprints.FIDELITY, settings=DedupSettings())
    found = {row["method"] for row in pairs.to_pylist() if row["right"] == digests[0]}
    assert found
    assert fingerprints.RECODED not in found


def test_a_print_of_blocks_is_of_what_lies_in_the_file():
    one = photograph(3, 320)
    buffer = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    one.save(buffer, "JPEG", quality=60, exif=exif)
    assert np.array_equal(
        fingerprints.fingerprint(buffer.getvalue())["blocks"],
        fingerprints.fingerprint(coded(one, quality=60))["blocks"],
    )
    assert not len(fingerprints.fingerprint(coded(one.resize((79, 300)), quality=60))["blocks"])  # too few blocks
    assert not len(fingerprints.fingerprint(coded(one.quantize(64), "PNG"))["blocks"])  # colours of a palette


@pytest.mark.parametrize("quality, other", [(82, 75), (75, 60), (60, 82), (90, 75), (50, 30)])
def test_a_file_that_was_coded_by_other_steps_meanwhile_is_no_original(quality, other):
    """What became of it has fine steps, and says nothing between its own."""
    original = coded(photograph(11, 400), quality=quality)
    meanwhile = coded(reopened(original), quality=other)
    for copy in (coded(reopened(meanwhile), "PNG"), coded(reopened(meanwhile), quality=97)):
        assert not made_of(original, copy)
        assert made_of(copy, meanwhile)
