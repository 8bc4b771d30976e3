"""Which film stays of an original and its copies: generated families, encoded and measured as a lake does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mmlake.dedup import DedupSettings
from mmlake.dedup.image.perceptual import pack_bytes
from mmlake.dedup.prints import Ragged, digests_of
from mmlake.dedup.stars.leaders import stars
from mmlake.dedup.stars.standings import standing_of
from mmlake.dedup.video import fingerprints
from mmlake.dedup.video.alignment import Part
from mmlake.dedup.video.detail import MOMENT_WORDS, detail_of, shared_detail
from mmlake.dedup.video.matcher import METHODS, FilmMatcher
from mmlake.dedup.video.votes import Line, Way
from tests.quality.test_quality_video_fidelity import film, frames, measured, resized

SETTINGS = DedupSettings()
LUMA = np.array([0.299, 0.587, 0.114])


def survivors(tmp_path, family):
    """Names of the films that stay. family: name -> (frames, options of the file)."""
    names = sorted(family)
    paths = [film(tmp_path / f"{name}.mp4", family[name][0], **family[name][1]) for name in names]
    prints = [fingerprints.fingerprint(path, settings=SETTINGS) for path in paths]
    shapes = [family[name][0][0].shape for name in names]
    rows = [
        measured(path) | {"width_px": shape[1], "height_px": shape[0]}
        for path, shape in zip(paths, shapes, strict=True)
    ]
    columns = {
        one.name: pa.array([row.get(one.column) for row in rows], pa.float64())
        for one in fingerprints.FIDELITY
        if one.is_of_column
    }
    nodes = {"digest": names, "priority": [0] * len(names), "is_clean": [True] * len(names)}
    table = {method: Ragged.of([one[method] for one in prints]) for method in METHODS}
    standing = standing_of(pa.table(nodes | columns), fingerprints.FIDELITY)
    found = stars(FilmMatcher(table, SETTINGS), standing, equal=digests_of(table))
    gone = {right for right, relation in zip(found.right, found.relation, strict=True) if relation in (1, 2)}
    return [name for at, name in enumerate(names) if at not in gone]


def changed(pixels, change):
    return [change(one.astype(np.float64)).clip(0, 255).astype(np.uint8) for one in pixels]


def marked(one):
    one[8:30, 190:230] = 240
    return one


def copies(pixels):
    rng, fine = np.random.default_rng(3), {"crf": 22}
    return {
        "a-coarse": (pixels, {"crf": 36}),
        "b-mpeg4": (pixels, {"codec": "mpeg4"}),
        "c-half": (resized(pixels, 0.5), fine),
        "d-larger": (resized(pixels, 1.5), fine),
        "e-toned": (changed(pixels, lambda one: 255 * (one / 255) ** 0.75 * (1.0, 0.9, 0.75)), fine),
        "f-contrast": (changed(pixels, lambda one: 1.4 * (one - 128) + 128), fine),
        "g-grey": (changed(pixels, lambda one: (one @ LUMA)[..., None].repeat(3, axis=2)), fine),
        "h-noise": (changed(pixels, lambda one: one + rng.normal(0, 8, one.shape)), fine),
        "i-logo": (changed(pixels, marked), fine),
        "j-trimmed": (pixels[4:], fine),
        "k-bars": ([np.pad(one, ((30, 30), (0, 0), (0, 0))) for one in pixels], fine),
        "l-mirrored": ([one[:, ::-1] for one in pixels], fine),
        "m-colours": (changed(pixels, lambda one: one.mean(axis=2, keepdims=True) * -0.5 + 1.5 * one), fine),
    }


@pytest.mark.parametrize("is_grey", [False, True], ids=["coloured", "grey"])
def test_the_original_film_stays_of_thirteen_copies(tmp_path, is_grey):
    """Toned, sharpened and noisy copies have more contrast, colour and detail than it, and are usual in none."""
    pixels = frames()
    if is_grey:
        pixels = changed(pixels, lambda one: one.mean(axis=2, keepdims=True).repeat(3, axis=2))
    assert survivors(tmp_path, {"original": (pixels, {"crf": 18})} | copies(pixels)) == ["original"]


@pytest.mark.parametrize("factor", [1.3, 1.5, 2.25])
def test_of_a_soft_film_and_its_enlargement_the_film_stays(tmp_path, factor):
    """It has no detail by which the larger one could have less of it."""
    pixels = [resized(resized([one], 0.5), 2)[0] for one in frames(12, height=360, width=480)]
    family = {"film": (pixels, {"crf": 20}), "larger": (resized(pixels, factor), {"crf": 18})}
    family["smaller"] = (resized(pixels, 0.5), {"crf": 22})
    assert survivors(tmp_path, family) == ["film"]


def test_moments_of_copies_with_one_clock_are_compared_and_others_have_none(tmp_path):
    one = frames(60)
    toned = changed(one, lambda pixels: 0.7 * pixels + 60)
    paths = [film(tmp_path / f"{at}.mp4", of) for at, of in enumerate((one, one[:], toned, one[5:], one[:50]))]
    prints = [fingerprints.fingerprint(path, settings=SETTINGS) for path in paths]
    table = {method: Ragged.of([each[method] for each in prints]) for method in METHODS}
    detail = FilmMatcher(table, SETTINGS).compare(0, np.arange(1, 5)).detail
    assert detail[0] == pytest.approx(10.0, abs=0.01) and detail[3] > 9
    assert detail[1] < 0.8 * detail[0] and detail[2] == 0


@pytest.mark.parametrize(("levels", "is_as_close"), [(-1, True), (-4, False)])
def test_a_level_that_a_conversion_costs_makes_a_copy_no_less_close(levels, is_as_close):
    """RGB made luma again is a level darker, so all copies of a film were closer to one another than to it."""
    moments = np.random.default_rng(0).integers(40, 200, (2, MOMENT_WORDS * 8)).astype(np.uint8)
    moments[1] = moments[0].astype(int) + levels
    one, other = (detail_of(np.append(np.uint64(8), pack_bytes(moment))) for moment in moments)
    whole = Part(1.0, (0, 8), (0, 8), 1.0, 1.0, 8, False, True, False, Line(Way(0, 0, 0, 0, False), 1.0, 0.0))
    assert (shared_detail(one, other, whole) == pytest.approx(1.0, abs=1e-4)) == is_as_close


def test_a_long_film_keeps_few_moments_at_places_that_a_short_copy_keeps_as_well():
    from mmlake.dedup.video.detail import Moments, detail_of

    moment = np.random.default_rng(0).integers(0, 255, 3 * 1024, np.uint8)
    moments = Moments()
    for at in range(200):
        if moments.wants(at, at + 1):
            moments.add(at, at + 1, moment)
    held = detail_of(moments.packed())
    assert sorted(held.at) == [0, 64, 128, 192] and len(held.tones_NP) == 4
    assert detail_of(Moments().packed()).at == {}
