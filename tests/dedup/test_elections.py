"""Who stays of an original and its copies: generated families, whatever the original was saved as."""

from __future__ import annotations

import io
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake.dedup import DedupSettings
from mmlake.dedup.audio import fingerprints as audio_fingerprints
from mmlake.dedup.criteria import CLOSENESS, Criterion
from mmlake.dedup.image import fingerprints as image_fingerprints
from mmlake.dedup.image import matcher
from mmlake.dedup.prints import Ragged, digests_of
from mmlake.dedup.stars.leaders import stars
from mmlake.dedup.stars.standings import standing_of
from mmlake.dedup.stars.survivors import Standing
from mmlake.quality.audio_fidelity import Fidelity
from mmlake.quality.image import decoded
from mmlake.quality.image_fidelity import fidelity
from tests.quality.test_image_fidelity import photograph


def silent(ones, others):
    """Nobody is closer than others."""
    return np.zeros(len(ones))


def coded(picture, kind="JPEG", **options):
    buffer = io.BytesIO()
    picture.save(buffer, kind, **({"compress_level": 1} if kind == "PNG" else {}) | options)
    return buffer.getvalue()


def reopened(data):
    from PIL import Image

    return Image.open(io.BytesIO(data)).convert("RGB")


@lru_cache(maxsize=64)
def fingerprint_of(data):
    return image_fingerprints.fingerprint(data)


@lru_cache(maxsize=64)
def fidelity_of(data):
    return fidelity(decoded(data))


def survivors(family):
    """Names of the pictures that stay."""
    from PIL import Image

    names = sorted(family)
    prints = [fingerprint_of(family[name]) for name in names]
    table = {method: Ragged.of([one[method] for one in prints]) for method in image_fingerprints.METHODS}
    rows = [fidelity_of(family[name]) for name in names]
    sizes = [Image.open(io.BytesIO(family[name])).size for name in names]
    shapes = [
        {"width_px": size[0], "height_px": size[1], "min_side_px": min(size), "aspect_ratio": max(size) / min(size)}
        for size in sizes
    ]
    rows = [row | shape for row, shape in zip(rows, shapes, strict=True)]
    columns = {one.name: [row[one.column] for row in rows] for one in image_fingerprints.FIDELITY if one.is_of_column}
    nodes = {"digest": names, "priority": [0] * len(names), "is_clean": [True] * len(names)}
    standing = standing_of(pa.table(nodes | columns), image_fingerprints.FIDELITY)
    found = stars(matcher.matcher(table, DedupSettings()), standing, equal=digests_of(table))
    gone = {right for right, relation in zip(found.right, found.relation, strict=True) if relation in (1, 2)}
    return [name for at, name in enumerate(names) if at not in gone]


def copies(data):
    from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps

    one = reopened(data)
    width, height = one.size
    values, rng = np.asarray(one, np.float64), np.random.default_rng(4)
    marked = one.copy()
    ImageDraw.Draw(marked).rectangle((20, 20, 90, 60), "#c02020")
    noisy = (values + rng.normal(0, 6, values.shape)).clip(0, 255).astype(np.uint8)
    return {
        "a-q30": coded(one, quality=30),
        "b-q60": coded(one, quality=60),
        "c-webp": coded(one, "WEBP", quality=60),
        "d-png-of-webp": coded(reopened(coded(one, "WEBP", quality=50)), "PNG"),
        "e-half": coded(one.resize((width // 2, height // 2), 1), quality=92),
        "f-twice": coded(one.resize((width * 2, height * 2), 3), quality=92),
        "g-enlarged-png": coded(one.resize((width * 3 // 2, height * 3 // 2), 3), "PNG"),
        "h-noise-png": coded(Image.fromarray(noisy), "PNG"),
        "i-blur": coded(one.filter(ImageFilter.GaussianBlur(1)), "PNG"),
        "j-border": coded(ImageOps.expand(one, 20, "black"), quality=92),
        "k-crop": coded(one.crop((20, 20, width, height)), quality=92),
        "l-marked": coded(marked, "PNG"),
        "m-contrast": coded(ImageEnhance.Contrast(one).enhance(1.4), "PNG"),
        "n-colours": coded(ImageEnhance.Color(one).enhance(0.4), "PNG"),
        "o-grey": coded(one.convert("L"), quality=95),
        "p-mirrored": coded(ImageOps.mirror(one), "PNG"),
    }


@pytest.mark.parametrize(
    "kind, options",
    [("PNG", {}), ("JPEG", {"quality": 70}), ("JPEG", {"quality": 95}), ("WEBP", {"quality": 80})],
    ids=["png", "jpeg-70", "jpeg-95", "webp-80"],
)
def test_the_original_stays_of_sixteen_copies_whatever_it_was_saved_as(kind, options):
    """Copies without loss of a lossy original have no fewer traces than it has, but lost what it shows."""
    data = coded(photograph(3), kind, **options)
    assert survivors({"original": data} | copies(data)) == ["original"]


def test_noise_that_was_added_is_no_detail_of_a_soft_original():
    from PIL import ImageFilter

    data = coded(photograph(5).filter(ImageFilter.GaussianBlur(1.5)), quality=95)
    assert survivors({"original": data} | copies(data)) == ["original"]


@pytest.mark.parametrize("kind, options", [("JPEG", {"quality": 85}), ("PNG", {})], ids=["jpeg-85", "png"])
@pytest.mark.parametrize("factor", [0.4, 0.5, 1.5, 2.0])
@pytest.mark.parametrize("copy", [("JPEG", {"quality": 92}), ("PNG", {})], ids=["copy-jpeg-92", "copy-png"])
def test_of_two_the_shrunk_or_enlarged_copy_goes(kind, options, factor, copy):
    data = coded(photograph(8, side=600), kind, **options)
    one = reopened(data)
    resized = one.resize((int(one.width * factor), int(one.height * factor)), 3 if factor > 1 else 1)
    for name in ("a", "z"):  # of the digest nothing depends
        assert survivors({"m": data, name: coded(resized, copy[0], **copy[1])}) == ["m"]


def test_three_thumbnails_do_not_outvote_the_picture_that_they_show():
    one = photograph(6, side=800)
    family = {str(side): coded(one.resize((side, side), 1), quality=90) for side in (150, 140, 130)}
    assert survivors(family | {"original": coded(one, quality=90)}) == ["original"]


def test_what_most_copies_left_as_it_was_is_usual_and_two_copies_say_nothing():
    usual = Criterion(name="tint", column="tint", best="usual", tolerance=0.1, says="usual colours")

    def elected(*values):
        num = len(values)
        parts = np.arange(num), np.zeros(num, np.int64), np.ones(num, np.bool_)
        standing = Standing(*parts, (usual,), np.array(values, np.float64)[:, None])
        return standing.elect(np.arange(num), silent)

    assert elected(20, 10, 10.5) == 1
    assert elected(20, 10) == 0


def test_the_quality_of_a_lossy_webp_is_read_and_a_lossless_one_has_none():
    from mmlake.quality.webp import webp_quality

    one = photograph(7)
    read = [webp_quality(coded(one, "WEBP", quality=quality)) for quality in (20, 50, 80, 95)]
    assert read == sorted(read)
    assert all(abs(found - wanted) < 20 for found, wanted in zip(read, (20, 50, 80, 95), strict=True))
    assert webp_quality(coded(one, "WEBP", lossless=True)) is None
    assert webp_quality(coded(one, "WEBP", quality=80)[:30]) is None


def test_of_two_recordings_the_one_without_silence_around_it_stays():
    rng = np.random.default_rng(2)
    sound, silence = rng.normal(0, 0.1, 32_000), np.zeros(8_000)
    padded = np.concatenate([silence, sound, silence])
    for names in (("sound", "padded"), ("padded", "sound")):
        assert (
            elected_recording({name: ({"sound": sound, "padded": padded}[name], 16_000) for name in names}) == "sound"
        )
    known = Fidelity()
    known.add(padded[:, None].astype(np.float32), 16_000)
    assert known.found(is_lossless=True)["padding_s"] == pytest.approx(1.0)


def elected_recording(recordings):
    """The name of the recording that stays of lossless ones, closeness aside. recordings: name -> (samples, rate)."""
    names, rows = list(recordings), []
    for samples, rate_hz in recordings.values():
        known = Fidelity()
        known.add(samples[:, None].astype(np.float32), rate_hz)
        rows.append(known.found(is_lossless=True) | {"duration_s": len(samples) / rate_hz})
    columns = {
        one.name: pa.array([row.get(one.column) for row in rows], pa.float64())
        for one in audio_fingerprints.FIDELITY
        if one.is_of_column
    }
    nodes = {"digest": names, "priority": [0] * len(names), "is_clean": [True] * len(names)}
    at = standing_of(pa.table(nodes | columns), audio_fingerprints.FIDELITY).elect(np.arange(len(names)), silent)
    return names[at]


def spoken(seconds, rate_hz=16_000, hiss=0.045):
    """Bursts of sound up to the last band between pauses with hiss."""
    rng = np.random.default_rng(9)
    time_s = np.arange(int(seconds * rate_hz)) / rate_hz
    loud = (np.sin(2 * np.pi * 1.5 * time_s) > 0) * (0.6 + 0.4 * np.sin(2 * np.pi * 7 * time_s))
    return np.round(np.clip(rng.normal(0, 0.08, len(time_s)) * (loud + hiss), -1, 1) * 32_767) / 32_768


def test_a_copy_without_its_treble_is_no_truer_for_its_quieter_pauses():
    import soxr

    one = spoken(4)
    pauses = np.abs(one).reshape(-1, 320).mean(axis=1) < 0.01
    low = np.round(soxr.resample(one, 16_000, 8_000) * np.where(np.repeat(pauses, 160), 0.3, 1) * 32_767) / 32_768
    assert elected_recording({"a-low": (low, 8_000), "b-original": (one, 16_000)}) == "b-original"


def test_music_that_fills_the_edges_of_a_short_recording_does_not_make_it_longer():
    one = np.concatenate([np.zeros(2_400), spoken(1.6, hiss=0.25), np.zeros(2_400)])
    hum = np.round(0.03 * np.sin(2 * np.pi * 220 * np.arange(len(one)) / 16_000) * 32_767) / 32_768
    assert elected_recording({"a-original": (one, 16_000), "b-music": (one + hum, 16_000)}) == "a-original"


def test_silence_around_a_recording_and_a_short_cut_are_not_its_usual_length():
    one = spoken(4)
    silence = np.zeros(8_000)
    family = {
        "a-padded": (np.concatenate([silence, one, silence]), 16_000),
        "b-cut": (one[5_600:], 16_000),
        "c-original": (one, 16_000),
        "d-quieter": (np.round(one * 0.5 * 32_768) / 32_768, 16_000),
        "e-quieter": (np.round(one * 0.4 * 32_768) / 32_768, 16_000),
    }
    assert elected_recording(family) == "c-original"


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 40))
def test_clusters_elect_at_once_whom_they_elect_one_by_one(seed, size):
    """With criteria before and behind closeness, unknown values, sources and flagged units."""
    rng = np.random.default_rng(seed)
    also = ("length",) if seed % 2 else ()
    unless = ("usual",) if seed % 4 == 1 else ()
    criteria = (
        *(
            Criterion(name="real", column="grade", also=one, unless=unless, says="truly more", tolerance=0.3)
            for one in also
        ),
        Criterion(name="grade", column="grade", says="better", tolerance=0.0),
        Criterion(name="usual", column="usual", says="as most", best="usual"),
        CLOSENESS,
        Criterion(
            name="low", column="low", says="less", best="low", tolerance=0.0, margin=0.5, unless=unless, of_words=4.0
        ),
        Criterion(name="length", column="length", says="longer", tolerance=0.1),
    )
    num = 60
    values = np.stack((rng.integers(0, 2, num), rng.choice([1.0, 1.05, 2.0, 30.0], num), np.full(num, np.nan),
                       rng.choice([-2.0, 0.0, 1.0, 1.4], num), rng.integers(1, 5, num)), axis=1)  # fmt: skip
    if also:
        values = np.concatenate((rng.integers(1, 4, (num, 1)), values), axis=1)
    values[rng.random(values.shape) < 0.2] = np.nan
    who = Standing(rng.permutation(num) + 100, rng.integers(0, 2, num), rng.random(num) < 0.7, criteria, values)
    scores = rng.integers(0, 3, (num, num)) / 7

    def closeness(ones, others):
        return scores[ones[:, None], others].mean(axis=1)

    def lacks(ones, others):
        return np.abs(scores[ones, others] - scores[others, ones])

    clusters, words = np.sort([rng.permutation(num)[:size] for _ in range(5)]), lacks if seed % 3 else None
    alone = np.array([who.elect(one, closeness, lacks=words) for one in clusters])
    together = who.elect_alike(clusters, closeness, lacks=words)
    assert ((together == alone) | (together == -1)).all()
    assert size > 12 or also or (together >= 0).all(), "only many members are asked in turn"
