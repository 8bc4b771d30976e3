"""Weights, temperature and epochs of groups as the loader gives them out: over ranks, workers and stops."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake import checked_json
from mmlake.errors import SettingsError, ShardCorrupt
from mmlake.loader import MixedOrder, ShardStream, mixture_problems, write_mixture
from mmlake.recipes import Mixture
from mmlake.shards import ShardSettings
from mmlake.store import BlobStore
from tests.made_samples import part, sample, shards_of, text

SIZES = {"a": 60, "b": 12, "c": 3}
MIXED = Mixture(by="source", weights=(("b", 2.0),), epochs=(("c", 4.0),))
COUNTS = MIXED.counts(SIZES)
TOTAL = sum(COUNTS.values())


def group_of(key: str) -> str:
    return GROUPS[key]


GROUPS: dict[str, str] = {}


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    """75 samples, a third of them texts, in shards of ten."""
    root = tmp_path_factory.mktemp("mixed")
    store, rows = BlobStore(root / "blobs"), []
    for number in range(sum(SIZES.values())):
        words = text(store, f"words {number}") if number % 3 == 0 else part(store, b"%06d" % number * 30)
        rows.append(sample([words]))
    directory = shards_of(rows, store, root, manifest_id="ef" * 32, settings=ShardSettings(max_samples=10)).directory
    names = sorted(ShardStream(directory, verify="fast").keys())
    spread = [name for name, size in SIZES.items() for _ in range(size)]
    GROUPS.update({key: spread[at * 7 % len(names)] for at, key in enumerate(names)})
    return directory


def mixed(plain: Path, target: Path, mixture: Mixture | None = MIXED, *, seed: int = 5) -> Path:
    target.mkdir(exist_ok=True)
    for path in plain.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    stream = ShardStream(target, verify="fast")
    write_mixture(target, mixture, seed=seed, keys=stream.keys(), modalities=stream.modalities(), groups=GROUPS)
    return target


@pytest.fixture(scope="module")
def folder(plain, tmp_path_factory) -> Path:
    return mixed(plain, tmp_path_factory.mktemp("copy") / "shards")


def keys(samples) -> list[str]:
    return [one["__key__"] for one in samples]


def stream_of(folder: Path, **fields) -> ShardStream:
    return ShardStream(folder, verify="fast", **fields)


def test_an_epoch_has_exactly_the_positions_of_each_group(folder) -> None:
    """b has twice the weight, c comes four times: 60 and 24 of 84 shares of 72 positions, and 12."""
    assert COUNTS == {"a": 51, "b": 21, "c": 12}
    for epoch in range(3):
        found = Counter(map(group_of, keys(stream_of(folder, epoch=epoch))))
        assert found == COUNTS
    assert len(stream_of(folder)) == TOTAL


def test_samples_of_a_group_come_equally_often(folder) -> None:
    found: Counter[str] = Counter()
    for epoch in range(7):
        found.update(keys(stream_of(folder, epoch=epoch)))
        for group in SIZES:
            times = [found[key] for key in GROUPS if GROUPS[key] == group]
            assert max(times) - min(times) <= 1
    assert {found[key] for key in GROUPS if GROUPS[key] == "c"} == {28}


@pytest.mark.parametrize("epoch", [2**62, 2**70])
def test_an_epoch_of_a_mixture_may_have_any_number(folder, epoch: int) -> None:
    """Of three samples that come four times each, some came more often, or the first was an error of numpy."""
    found = Counter(keys(stream_of(folder, epoch=epoch)))
    assert {found[key] for key in GROUPS if GROUPS[key] == "c"} == {4}


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 7), st.integers(1, 4), st.integers(1, 5), st.integers(0, TOTAL), st.integers(0, 3))
def test_ranks_and_workers_share_the_positions_exactly(
    folder, world_size: int, num_workers: int, batch_size: int, taken: int, epoch: int
) -> None:
    start = stream_of(folder, epoch=epoch).state_dict(taken)
    seen: list[str] = []
    for rank in range(world_size):
        stream = stream_of(folder, rank=rank, world_size=world_size, batch_size=batch_size)
        stream.load_state_dict(start)
        mine = [
            key for worker in range(num_workers) for key in keys(stream.iterate(worker=worker, num_workers=num_workers))
        ]
        assert len(mine) == len(stream)
        seen += mine
    assert sorted(seen) == sorted(keys(stream_of(folder, epoch=epoch))[taken:])


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 15))
def test_training_goes_on_with_another_world_size_at_the_very_sample(
    folder, before: int, after: int, steps: int
) -> None:
    whole = keys(stream_of(folder, seed=9))
    streams = [stream_of(folder, seed=9, rank=rank, world_size=before) for rank in range(before)]
    used = [one["__key__"] for stream in streams for one, _ in zip(stream, range(steps), strict=False)]
    state = json.loads(json.dumps(streams[0].state_dict(steps)))
    resumed = [stream_of(folder, rank=rank, world_size=after) for rank in range(after)]
    for stream in resumed:
        stream.load_state_dict(state)
    rest = [keys(stream) for stream in resumed]
    assert sorted(used + [key for one in rest for key in one]) == sorted(whole)
    in_order = [rest[at % after][at // after] for at in range(sum(map(len, rest)))]
    assert in_order == whole[min(steps * before, TOTAL) :]


def test_shares_are_honoured_over_any_stretch_within_sampling_error(folder) -> None:
    """Groups of the first 20 positions over 300 seeds, against their shares: chi-squared with 2 degrees of freedom
    stays under its 99.9 % point, 13.8."""
    found: Counter[str] = Counter()
    names = stream_of(folder).keys()
    for seed in range(300):
        order = stream_of(folder)
        found.update(GROUPS[names[number]] for number in order.numbers_at(np.arange(20), seed=seed, epoch=0).tolist())
    expected = {group: 300 * 20 * count / TOTAL for group, count in COUNTS.items()}
    assert sum((found[group] - expected[group]) ** 2 / expected[group] for group in SIZES) < 13.8


def test_within_a_group_every_sample_is_first_equally_often(folder) -> None:
    """Of group c, chi-squared with 2 degrees of freedom."""
    names, firsts = stream_of(folder).keys(), Counter()
    for seed in range(400):
        order = stream_of(folder).numbers_at(np.arange(TOTAL), seed=seed, epoch=0).tolist()
        firsts[next(names[number] for number in order if GROUPS[names[number]] == "c")] += 1
    assert sum((count - 400 / 3) ** 2 / (400 / 3) for count in firsts.values()) < 13.8


def test_half_an_epoch_gives_every_sample_once_in_two(plain, tmp_path) -> None:
    half = mixed(plain, tmp_path / "half", Mixture(by="source", epochs=(("a", 0.5),)))
    both = [Counter(keys(stream_of(half, epoch=epoch))) for epoch in (0, 1)]
    of_a = {key for key in GROUPS if GROUPS[key] == "a"}
    assert [sum(key in of_a for key in one) for one in both] == [30, 30]
    assert all((both[0] + both[1])[key] == 1 for key in of_a)


def test_a_weight_of_nothing_leaves_the_group_out(plain, tmp_path) -> None:
    without = mixed(plain, tmp_path / "without", Mixture(by="source", weights=(("a", 0.0),)))
    assert Counter(map(group_of, keys(stream_of(without)))) == {"b": 60, "c": 15}
    nothing = mixed(plain, tmp_path / "nothing", Mixture(by="source", epochs=tuple((one, 0.0) for one in SIZES)))
    assert keys(stream_of(nothing)) == [] and len(stream_of(nothing)) == 0


def test_one_modality_is_mixed_by_its_own_groups(folder) -> None:
    stream = stream_of(folder, modality="text", decode="auto")
    names = stream.keys()
    sizes = Counter(GROUPS[key] for key in names)
    found = list(stream)
    assert all(one["txt"].startswith("words") for one in found)
    assert Counter(map(group_of, keys(found))) == Counter(MIXED.counts(sizes))


def test_the_recipe_seeds_the_order_unless_another_is_given(folder, plain, tmp_path) -> None:
    assert keys(stream_of(folder)) == keys(stream_of(folder, seed=5)) != keys(stream_of(folder, seed=6))
    assert keys(stream_of(plain)) == keys(stream_of(plain, seed=0))


def test_without_the_mixture_every_sample_comes_once(folder) -> None:
    for fields in ({"mixture": False}, {"shuffle": False}):
        assert sorted(keys(stream_of(folder, **fields))) == sorted(GROUPS)


def test_a_state_of_another_mixture_is_refused(folder, plain) -> None:
    mixed_state, plain_state = stream_of(folder).state_dict(3), stream_of(plain).state_dict(3)
    for stream, state in (
        (stream_of(plain), mixed_state),
        (stream_of(folder, mixture=False), mixed_state),
        (stream_of(folder), plain_state),
    ):
        with pytest.raises(SettingsError, match="other data: mixture was"):
            stream.load_state_dict(state)


def test_taking_the_mixture_away_leaves_the_folder_as_it_was(folder, plain, tmp_path) -> None:
    again = mixed(folder, tmp_path / "again", None)
    assert (again / "index.json").read_bytes() == (plain / "index.json").read_bytes()
    assert not (again / "mixture.order").exists()


@pytest.mark.parametrize("damage", ["missing", "flipped", "short", "groups"])
def test_a_damaged_order_is_found_before_the_first_sample(folder, tmp_path, damage: str) -> None:
    copy = mixed(folder, tmp_path / "copy")
    order = copy / "mixture.order"
    data = order.read_bytes()
    if damage == "missing":
        order.unlink()
    elif damage == "groups":
        body = checked_json.loads((copy / "index.json").read_bytes())
        body["mixture"]["groups"].pop()
        (copy / "index.json").write_bytes(checked_json.dumps(body))
    else:
        order.write_bytes(data[:-4] if damage == "short" else bytes([data[0] ^ 1]) + data[1:])
    with pytest.raises(ShardCorrupt, match="mixture"):
        stream_of(copy)
    assert mixture_problems(folder) == []
    (problem,) = mixture_problems(copy)
    assert "mixture" in problem


def test_the_stream_travels_to_workers_that_are_spawned(folder) -> None:
    stream = stream_of(folder, seed=3)
    first = keys(stream)
    assert keys(pickle.loads(pickle.dumps(stream))) == first


def test_a_position_takes_no_memory_in_proportion_to_the_samples(tmp_path) -> None:
    """Ten million samples: the order is mapped, and a thousand positions take less than a megabyte."""
    count = 10_000_000
    np.arange(count, dtype="<u4").tofile(tmp_path / "mixture.order")
    from mmlake.records import digest_of

    body = {
        "by": MIXED.to_dict(), "seed": 1, "width": 4, "sha256": digest_of((tmp_path / "mixture.order").read_bytes()),
        "groups": [
            {"group": name, "modality": "text", "num_samples": size}
            for name, size in (("a", count - 1_000_100), ("b", 1_000_000), ("c", 100))
        ],
    }  # fmt: skip
    order = MixedOrder(tmp_path, body, [("text", count)], None)
    tracemalloc.start()
    for first in range(0, order.num_positions - 1000, order.num_positions // 5):
        numbers = order.at(np.arange(first, first + 1000), seed=1, epoch=3)
        assert numbers.min() >= 0 and numbers.max() < count
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
