"""Video duplicates: every edit of a clip is found, parts are found with their spans, and nothing else is."""

from __future__ import annotations

import time

import film_edits
import numpy as np
import pytest
from film_edits import EDITS, SETTINGS, cuts, matcher_of, part, prints_of, scene, table_of

from mmlake.dedup.matching import HOLDS, INSIDE, NONE, OVERLAPS, SAME
from mmlake.dedup.prints import digests_of
from mmlake.dedup.stars.leaders import stars
from mmlake.dedup.stars.standings import by_digest
from mmlake.dedup.video import hashes
from mmlake.dedup.video.matcher import FilmMatcher

SEEDS = (1, 2, 3)


def shared_keys(films: FilmMatcher, one: int, other: int) -> int:
    return len(np.intersect1d(films.keys[one], films.keys[other]))


@pytest.fixture(scope="module")
def originals() -> dict[int, np.ndarray]:
    return {seed: scene(seed, 5.0) for seed in SEEDS}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_clip_is_the_same(originals, name):
    for seed, frames in originals.items():
        films = matcher_of(frames, EDITS[name](frames))
        found = films.compare(0, np.array([1]))
        assert found.relation.tolist() == [SAME], f"{name}, seed {seed}: {found.score}"
        assert shared_keys(films, 0, 1) >= films.min_shared, f"{name}, seed {seed}: no candidate"
        assert bool(found.method[0]) == name.startswith("mirrored")


def test_an_excerpt_lies_inside_its_film_with_spans_on_both_sides(originals):
    for frames in originals.values():
        films = matcher_of(frames, part(frames, 0.4, 0.7))
        found = films.compare(1, np.array([0]))
        assert found.relation.tolist() == [INSIDE]
        assert found.spans_s[0] == pytest.approx([0.0, 1.5, 2.0, 3.5], abs=0.2)
        assert shared_keys(films, 0, 1) >= films.min_shared


@pytest.mark.parametrize(
    ("padded", "relation"),
    [
        (lambda clip: [clip, clip[-1:].repeat(46, axis=0)], SAME),
        (lambda clip: [clip[:1].repeat(46, axis=0), clip], SAME),
        (lambda clip: [clip, scene(8, 0.1)[:1].repeat(46, axis=0)], INSIDE),
        (lambda clip: [clip, clip[-1:].repeat(160, axis=0)], INSIDE),
    ],
    ids=["frozen behind", "frozen before", "a card behind a cut", "still for longer than the clip"],
)
def test_a_picture_frozen_at_an_end_is_no_part_of_a_film(padded, relation):
    """Or the original of 2 s lies inside a copy with 1.2 s of one frame behind, and goes for it."""
    clip = scene(1, 2.0)
    assert matcher_of(clip, np.concatenate(padded(clip))).compare(0, np.array([1])).relation.tolist() == [relation]


def test_a_mirrored_cropped_clip_inside_a_longer_film_is_found():
    clip = scene(7, 6.0)
    films = matcher_of(
        np.concatenate([cuts(1, 20), clip, cuts(2, 14)]), EDITS["10 % cropped from each side"](clip)[:, :, ::-1]
    )
    found = films.compare(0, np.array([1]))
    assert found.relation.tolist() == [HOLDS]
    assert found.spans_s[0] == pytest.approx([20.0, 26.0, 0.0, 6.0], abs=0.3)
    assert shared_keys(films, 0, 1) >= films.min_shared


def test_a_comparison_mirrors_the_one_the_other_way_round(originals):
    frames = originals[1]
    others = [
        part(frames, 0.4, 0.7),
        frames[:, :, ::-1],
        originals[2],
        np.concatenate([part(frames, 0, 0.5), originals[3]]),
    ]
    films = matcher_of(frames, *others)
    forth = films.compare(0, np.arange(1, 5)).mirrored()
    back = [films.compare(at, np.array([0])) for at in range(1, 5)]
    assert forth.relation.tolist() == [one.relation[0] for one in back]
    assert forth.relation.tolist() == [INSIDE, SAME, NONE, OVERLAPS]
    np.testing.assert_array_equal(forth.score, [one.score[0] for one in back])
    np.testing.assert_array_equal(forth.spans_s, np.concatenate([one.spans_s for one in back]))


def test_other_movements_on_one_stage_stay_apart():
    """Clips of one signer before one wall: the frames are alike, the movements are not."""
    ground = scene(1, 0.1)[0].astype(float)
    clips = []
    for seed in range(12):
        moving = scene(100 + seed, 3.0).astype(float)
        things = (moving > 230) | (moving < 25)
        clips.append(np.where(things & (np.arange(240)[:, None] > 120), 150, ground).astype(np.uint8))
    films = matcher_of(*clips)
    pairs = [(one, other) for other in range(12) for one in range(other)]
    relations = [int(films.compare(one, np.array([other])).relation[0]) for one, other in pairs]
    assert [pair for pair, relation in zip(pairs, relations, strict=True) if relation not in (NONE, OVERLAPS)] == []


def test_unrelated_clips_have_neither_keys_nor_frames_in_common():
    films = matcher_of(*(scene(seed, 3.0) for seed in range(200, 216)))
    for at in range(1, 16):
        assert films.compare(at, np.arange(at)).relation.tolist() == [NONE] * at
        assert max(shared_keys(films, at, other) for other in range(at)) < films.min_shared


def test_an_empty_road_makes_no_duplicate_of_two_cars():
    """Most of both clips is the same still picture, and what happens in them is not."""
    road = np.repeat(scene(3, 0.1)[:1], 240, axis=0)
    clips = []
    for top, level in ((30, 240), (150, 20)):
        clip = film_edits.noisy(road, seed=level, std=1.0)
        for at in range(180, 240):
            clip[at, top : top + 50, 3 * (at - 180) : 3 * (at - 180) + 50] = level
        clips.append(clip)
    assert matcher_of(*clips).compare(0, np.array([1])).relation[0] in (NONE, OVERLAPS)


def test_films_that_share_an_intro_overlap_and_none_goes():
    intro = cuts(9, 4)
    films = matcher_of(*(np.concatenate([intro, cuts(seed, 8)]) for seed in range(10, 15)))
    found = films.compare(0, np.arange(1, 5))
    assert found.relation.tolist() == [OVERLAPS] * 4
    for spans in found.spans_s:
        assert spans == pytest.approx([0.0, 4.0, 0.0, 4.0], abs=0.3)


def _hard(prints: list[dict[str, np.ndarray]]) -> tuple[FilmMatcher, float, int]:
    """(the matcher, CPU seconds of the join, number of edges that let a unit go)."""
    table = table_of(prints)
    films, start = FilmMatcher(table, SETTINGS), time.process_time()
    found = stars(films, by_digest([f"{at:04}" for at in range(len(prints))]), equal=digests_of(table))
    return films, time.process_time() - start, sum(relation != OVERLAPS for relation in found.relation)


def test_twice_as_many_films_with_one_intro_cost_twice_as_much():
    intro = prints_of(cuts(9, 2))

    def joined(num: int) -> dict[str, np.ndarray]:
        body = prints_of(cuts(20 + num, 2))
        windows = [one["frame-windows"].reshape(8, -1) for one in (intro, body)]
        luma = [one["frame-luma"] for one in (intro, body)]
        return {
            "frame-phash": np.concatenate([intro["frame-phash"], body["frame-phash"]]),
            "frame-windows": np.concatenate(windows, axis=1).reshape(-1),
            "frame-luma": np.concatenate(luma),
            "frame-keys": np.union1d(intro["frame-keys"], body["frame-keys"]),
        }

    prints = [joined(num) for num in range(40)]
    compared = []
    for num in (20, 40):
        films = FilmMatcher(table_of(prints[:num]), SETTINGS)
        seen, kept = [0], films.compare

        def counting(one, others, seen=seen, kept=kept):
            seen[0] += len(others)
            return kept(one, others)

        films.compare = counting
        found = stars(films, by_digest([f"{at:04}" for at in range(num)]), equal=digests_of(table_of(prints[:num])))
        assert set(found.relation) == {OVERLAPS}
        compared.append(seen[0])
    assert compared[1] <= 2 * compared[0] + 16 * 16


def test_a_static_camera_of_forty_minutes_has_few_keys_and_one_comparison_is_quick():
    rng = np.random.default_rng(0)
    ground = film_edits.resized(scene(4, 0.1)[:1], 64, 64)[0].astype(np.int16)
    films = [
        (ground + rng.integers(-2, 3, (20_000, 1, 1), dtype=np.int16) + rng.integers(-1, 2, (64, 64), dtype=np.int16))
        .clip(0, 255)
        .astype(np.uint8)
        for _ in range(2)
    ]
    prints = []
    for planes in films:
        found = hashes.hashed(planes)
        windows = found.hashes_VNW.transpose(0, 2, 1).reshape(-1)
        prints.append(
            {
                "frame-phash": windows[:20_000], "frame-windows": windows[20_000:],
                "frame-luma": film_edits.pack_bytes(found.luma_VN64), "frame-keys": found.keys,
            }
        )  # fmt: skip
        assert len(found.keys) <= 1_000
    films, spent_s, num_gone = _hard(prints)
    assert num_gone == 1 and spent_s < 5.0


def test_black_and_empty_films_say_nothing():
    black = prints_of(np.full((200, 240, 240), 16, np.uint8))
    assert not len(black["frame-keys"])
    films = FilmMatcher(table_of([black, black, {}, {}]), SETTINGS)
    assert films.compare(0, np.array([1, 2, 3])).relation.tolist() == [NONE] * 3
    assert films.compare(2, np.array([3])).score.tolist() == [0.0]


def test_copies_cost_one_comparison_each():
    one = prints_of(scene(1, 3.0))
    _, spent_s, num_gone = _hard([one] * 500)
    assert num_gone == 499 and spent_s < 10.0


@pytest.mark.parametrize(
    ("name", "height", "width"),
    [("letterbox", 0.75, 1.0), ("pillarbox", 1.0, 0.706), ("picture in a frame", 0.75, 0.75)],
)
def test_bars_are_known_to_a_line(originals, name, height, width):
    planes = film_edits.resized(EDITS[name](originals[1])[::5], 64, 64)
    found = hashes.active_picture(planes)
    assert found.bottom - found.top == pytest.approx(height, abs=2.5 / 64)
    assert found.right - found.left == pytest.approx(width, abs=2.5 / 64)


def test_a_small_thing_on_black_is_no_picture_in_a_frame():
    planes = np.full((8, 64, 64), 16, np.uint8)
    planes[:, 20:30, 20:30] = 200
    assert hashes.active_picture(planes) == hashes.ALL


def test_the_hash_of_a_mirror_image_is_known_without_it(originals):
    planes = film_edits.resized(originals[1][::20], 64, 64).astype(float)
    plain, _ = hashes.window_hashes(planes, hashes.ALL)
    mirrored, _ = hashes.window_hashes(planes[:, :, ::-1], hashes.ALL)
    assert np.bitwise_count(plain[:, 0] ^ mirrored[:, 0] ^ hashes.MIRROR).max() <= 1


def test_keys_of_a_long_film_hold_those_of_its_parts():
    """Where there are too many keys, all units keep the same ones."""
    film = cuts(5, 30)
    long, short = prints_of(film)["frame-keys"], prints_of(film[400:800])["frame-keys"]
    most = hashes._KEYS + hashes._KEYS_PER_FRAME * len(film) // 5
    assert len(long) == most
    assert len(np.intersect1d(long, short)) >= 0.4 * len(short)
