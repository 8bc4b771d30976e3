"""Keys of pictures: who shares one, and that those of an earlier join are brought up to date."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake.dedup.image import keys as image_keys
from mmlake.dedup.image.keys import NUM_FAINT, NUM_WINDOWS, Known
from mmlake.dedup.loops import text_kernels
from mmlake.dedup.prints import Ragged
from tests.dedup.numba_there import needs_numba
from tests.thorough import drawn

RADIUS = 8
LENGTH = NUM_WINDOWS + 4


def flipped(value, num, rng):
    for bit in rng.choice(64, num, replace=False).tolist():
        value ^= np.uint64(1) << np.uint64(bit)
    return value


def picture(seed):
    """Hashes as of one picture: of seven subjects, each more or less unlike its own; some without detail."""
    rng = np.random.default_rng(seed)
    if seed % 11 == 0:
        return np.array([seed % 3, 64 + seed % 3], np.uint64)
    subject = np.random.default_rng(seed % 7).integers(0, 1 << 63, LENGTH, np.uint64)
    row = np.array([flipped(value, int(rng.integers(0, 8)), rng) for value in subject])
    wholes = [flipped(row[0], int(rng.integers(0, 4)), rng) for _ in range(1 + seed % 3)]
    return np.concatenate((row, wholes))


def derived(seeds):
    return Ragged.of([picture(seed) for seed in seeds])


def rows(keys):
    return [keys[at].tolist() for at in range(len(keys))]


def related(one, other):
    """Whether a hash of one lies within the radius of a target of the other, by definition."""
    if min(len(one), len(other)) == NUM_FAINT:
        return len(one) == len(other) and bool(np.isin(one, other).any())
    asks = [np.delete(row, slice(NUM_WINDOWS, LENGTH)) for row in (one, other)]
    wholes = [row[LENGTH:] for row in (one, other)]
    near = [(ask[:, None] ^ whole[None]) for ask, whole in zip(asks, wholes[::-1], strict=True)]
    parts = one[NUM_WINDOWS:LENGTH] ^ other[NUM_WINDOWS:LENGTH]
    return bool(min(np.bitwise_count(part).min() for part in (*near, parts)) <= RADIUS)


def test_two_pictures_share_a_key_just_where_a_hash_lies_within_the_radius_of_a_target():
    found = derived(range(60))
    keys = rows(image_keys.made(found, radius=RADIUS))
    for one in range(60):
        for other in range(one):
            if related(found[one], found[other]):
                assert set(keys[one]) & set(keys[other])


def test_what_lies_beyond_the_radius_shares_none():
    rng = np.random.default_rng(3)
    hashes = rng.integers(0, 1 << 63, (2, LENGTH + 1), np.uint64)
    hashes[1, LENGTH] = flipped(hashes[0, 5], RADIUS, rng)
    near, far = hashes.copy(), hashes.copy()
    far[1, LENGTH] = flipped(hashes[0, 5], RADIUS + 1, rng)
    shared = [
        set.intersection(*map(set, rows(image_keys.made(Ragged.of(list(one)), radius=RADIUS)))) for one in (near, far)
    ]
    assert [len(one) for one in shared] == [1, 0]


def test_a_dense_group_shares_few_keys():
    """2,000 noisy pictures of one scene: each has at most 64 keys, and the same ones."""
    rng = np.random.default_rng(5)
    base = rng.integers(0, 1 << 63, LENGTH + 1, np.uint64)
    bits = np.uint64(1) << rng.integers(0, 64, (2_000, LENGTH + 1), np.uint64)
    found = Ragged((base ^ bits).ravel(), np.arange(2_001) * (LENGTH + 1))
    keys = image_keys.made(found, radius=RADIUS)
    assert keys.lengths.max() <= 64
    assert len(np.unique(keys.values)) <= 200


def test_groups_find_what_all_comparisons_find(monkeypatch):
    found = derived(range(120))
    whole = rows(image_keys.made(found, radius=RADIUS))
    monkeypatch.setattr(image_keys, "_BRUTE", 0)
    assert rows(image_keys.made(found, radius=RADIUS)) == whole


@pytest.mark.parametrize("brute", [0, 1 << 22])
@settings(max_examples=drawn(20, 200), deadline=None)
@given(data=st.data())
def test_keys_that_are_brought_up_to_date_are_those_of_all(brute, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_keys, "_BRUTE", brute)
        patch.setattr(image_keys, "_MOST", (4, 2, 2, 2, 2))
        seeds = st.lists(st.integers(0, 120), unique=True, max_size=60)
        before, known = sorted(data.draw(seeds)), None
        for _ in range(3):
            found = derived(before)
            whole = image_keys.made(found, radius=RADIUS)
            if known is not None:
                assert rows(image_keys.updated(found, known, radius=RADIUS)) == rows(whole)
            after = sorted(set(data.draw(seeds)) | set(before[:: data.draw(st.integers(1, 3))]))
            at = np.array([before.index(seed) if seed in before else -1 for seed in after], np.int64)
            before, known = after, Known(found, whole, at)


@pytest.mark.parametrize(("num_asking", "blocks"), [(10, 1), (10**7, 2)])
def test_few_targets_are_asked_by_few_blocks_and_every_choice_finds_the_same(monkeypatch, num_asking, blocks):
    monkeypatch.setattr(image_keys, "_BRUTE", 0)
    values = np.unique(np.random.default_rng(1).integers(0, 1 << 63, 20_000, np.uint64))
    asking = np.concatenate((values[::70] ^ np.uint64(0b10110111), values[1::90] ^ np.uint64(0b111111111)))
    chosen, whole = image_keys._Grouped(values, RADIUS, num_asking), image_keys._Grouped(values, RADIUS)
    found, expected = (
        set(zip(*(side.tolist() for side in one.within(asking, most=32)), strict=True)) for one in (chosen, whole)
    )
    assert found == expected
    assert len(found) >= len(values[::70])
    assert len(chosen._masks_and_bits[0]) == math.comb(RADIUS + blocks, blocks)


def test_a_choice_of_blocks_with_a_group_that_would_be_cut_is_not_taken(monkeypatch):
    monkeypatch.setattr(image_keys, "_MOST_COMPARED", 40)
    values = np.unique(np.random.default_rng(2).integers(0, 1 << 57, 60, np.uint64) << np.uint64(7))
    grouped = image_keys._Grouped(values, RADIUS, 10)  # the first seven bits of all are the same
    assert image_keys._cuts(values, *image_keys._masks_of(len(values), RADIUS, 1))
    assert len(grouped._masks_and_bits[0]) == math.comb(RADIUS + 2, 2)


def test_groups_that_are_cut_are_made_anew(monkeypatch):
    monkeypatch.setattr(image_keys, "_MOST_COMPARED", 3)
    monkeypatch.setattr(image_keys, "_BRUTE", 0)
    found = derived(range(1, 60))
    whole = image_keys.made(found, radius=RADIUS)
    fewer = np.arange(59) % 5 > 0
    some = found.take(np.flatnonzero(fewer))
    known = Known(some, image_keys.made(some, radius=RADIUS), np.where(fewer, np.cumsum(fewer) - 1, -1))
    assert rows(image_keys.updated(found, known, radius=RADIUS)) == rows(whole)


@needs_numba
def test_compiled_and_plain_code_find_the_same_keys(monkeypatch):
    """Of groups of all sizes, those with more than the keys that are kept among them."""
    monkeypatch.setattr(image_keys, "_BRUTE", 0)
    found = derived(range(300))
    fewer = found.take(np.arange(0, 300, 3))
    seen = []
    for work in (-(10**12), 10**12):
        monkeypatch.setattr(text_kernels, "_work", [work])
        keys = image_keys.made(fewer, radius=RADIUS)
        at = np.where(np.arange(300) % 3 == 0, np.arange(300) // 3, -1)
        seen.append((rows(keys), rows(image_keys.updated(found, Known(fewer, keys, at), radius=RADIUS))))
    assert seen[0] == seen[1]
    assert max(map(len, seen[0][1])) >= 32


@pytest.mark.parametrize("bits", [3, 16, 17, 20])
def test_groups_of_any_number_of_bits_are_brought_in_order_by_counting(bits: int) -> None:
    groups = np.random.default_rng(bits).integers(0, 1 << bits, 5_000)
    np.testing.assert_array_equal(image_keys._in_order(groups), np.argsort(groups, kind="stable"))
