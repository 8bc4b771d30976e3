"""Which of two films was made of the other by coding it anew, and that the one that it was made of stays."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake.dedup import DedupSettings
from mmlake.dedup.prints import Ragged
from mmlake.dedup.video import fingerprints
from mmlake.dedup.video.matcher import METHODS, PAIR_METHODS, FilmMatcher
from mmlake.dedup.video.recoding import keyframes_of
from mmlake.media.keyframe_blocks import NUM_BLOCKS, NUM_BYTES, packed_blocks, unpacked_blocks
from tests.dedup.test_elections_films import survivors
from tests.quality.test_quality_video_fidelity import film, frames

SETTINGS = DedupSettings()
COARSE = {"H.264": {"crf": 32}, "VP9": {"codec": "libvpx-vp9", "crf": 50}, "MPEG-4": {"codec": "mpeg4"}}


def decoded(path):
    """What a player shows of the film."""
    import av

    with av.open(str(path)) as container:
        return [one.to_ndarray(format="rgb24") for one in container.decode(video=0)]


def matcher_of(*paths):
    prints = [fingerprints.fingerprint(path, settings=SETTINGS) for path in paths]
    return FilmMatcher({method: Ragged.of([one[method] for one in prints]) for method in METHODS}, SETTINGS)


def made_of(copy, original):
    return bool(matcher_of(copy, original).made_of(np.array([0]), np.array([1]))[0])


@pytest.fixture(scope="module", params=COARSE)
def coarse(request, tmp_path_factory):
    return film(tmp_path_factory.mktemp("film") / "coarse.mp4", frames(), **COARSE[request.param])


@pytest.mark.parametrize("crf", [8, 14])
def test_a_finer_copy_of_a_coarse_film_is_known_in_one_direction(coarse, crf, tmp_path):
    finer = film(tmp_path / "finer.mp4", decoded(coarse), crf=crf)
    assert made_of(finer, coarse)
    assert not made_of(coarse, finer)


def test_a_coarser_copy_of_a_fine_film_is_not_what_the_film_was_made_of(tmp_path):
    fine = film(tmp_path / "fine.mp4", frames(), crf=14)
    for at, options in enumerate((*COARSE.values(), {"crf": 24}, {"crf": 40})):
        copy = film(tmp_path / f"{at}.mp4", decoded(fine), **options)
        assert not made_of(fine, copy)


def test_of_two_copies_of_one_film_neither_was_made_of_the_other(tmp_path):
    shown = decoded(film(tmp_path / "fine.mp4", frames(), crf=14))
    copies = [film(tmp_path / f"{crf}.mp4", shown, crf=crf) for crf in (18, 26, 34)]
    matcher = matcher_of(*copies)
    ones, others = np.nonzero(~np.eye(3, dtype=bool))
    assert not matcher.made_of(ones, others).any()


def test_what_was_edited_was_not_coded_anew(tmp_path):
    coarse = film(tmp_path / "coarse.mp4", frames(), crf=32)
    shown, rng = decoded(coarse), np.random.default_rng(0)
    edits = {
        "noisy": [(one + rng.normal(0, 12, one.shape)).clip(0, 255).astype(np.uint8) for one in shown],
        "washed": [(one * 0.7 + 40).astype(np.uint8) for one in shown],
        "mirrored": [one[:, ::-1] for one in shown],
        "cropped": [one[8:, 8:] for one in shown],
        "another": [one[::-1] for one in shown],
    }
    for name, pixels in edits.items():
        edited = film(tmp_path / f"{name}.mp4", pixels, crf=14)
        assert not made_of(edited, coarse), name
        assert not made_of(coarse, edited), name


def test_the_film_that_others_were_made_of_stays_however_coarse_it_is(tmp_path):
    coarse = {"crf": 32}
    shown = decoded(film(tmp_path / "coarse.mp4", frames(), **coarse))
    family = {"original": (list(frames()), coarse), "again": (shown, {"crf": 12}), "finer": (shown, {"crf": 20})}
    assert survivors(tmp_path, family) == ["original"]
    assert survivors(tmp_path, {name: family[name] for name in ("original", "again")}) == ["original"]


def test_a_pair_says_that_one_was_made_of_the_other(tmp_path):
    coarse = film(tmp_path / "coarse.mp4", frames(), crf=32)
    finer = film(tmp_path / "finer.mp4", decoded(coarse), crf=12)
    found = matcher_of(coarse, finer).compare(0, np.array([1]))
    assert PAIR_METHODS[found.method[0]] == "frame-phash-recoded"
    reason = next(one for one in fingerprints.FIDELITY if one.recoded).says
    assert "made of" in reason


def test_blocks_are_those_with_the_most_contrast_at_places_that_the_size_gives():
    rng = np.random.default_rng(1)
    luma = np.full((480, 640), 90, np.uint8)
    luma[240:] = rng.integers(0, 255, (240, 640))
    data = packed_blocks(luma, 4.5)
    assert data is not None and len(data) == NUM_BYTES and NUM_BYTES % 8 == 0
    blocks = unpacked_blocks(data)
    assert (blocks.size_px, blocks.step, len(blocks.places_B)) == ((640, 480), 4.5, NUM_BLOCKS)
    assert np.all(np.diff(blocks.places_B.astype(int)) > 0)
    assert blocks.pixels_BHW.shape == (NUM_BLOCKS, 8, 8)
    across = len(range(3 // 2, 80, 3))  # every third block of 80: at most 1,024 of 4,800 are asked
    assert blocks.places_B.min() >= 10 * across  # below the middle
    assert np.isnan(unpacked_blocks(packed_blocks(luma, None)).step)
    with pytest.raises(ValueError, match="num_bytes=8"):
        unpacked_blocks(data[:8])


@pytest.mark.parametrize(
    "luma",
    [np.full((480, 640), 16, np.uint8), np.random.default_rng(2).integers(0, 255, (64, 64)).astype(np.uint8)],
    ids=["black", "small"],
)
def test_a_picture_that_shows_little_has_no_blocks(luma):
    assert packed_blocks(luma, 4.0) is None


def test_a_film_that_begins_black_has_the_blocks_of_later_keyframes(tmp_path):
    black = [np.zeros_like(one) for one in frames(20)]
    print_ = fingerprints.fingerprint(film(tmp_path / "late.mp4", [*black, *frames(40)]), settings=SETTINGS)
    assert keyframes_of(print_["frame-blocks"])
    only_black = fingerprints.fingerprint(film(tmp_path / "black.mp4", black), settings=SETTINGS)
    assert not len(only_black["frame-blocks"])
