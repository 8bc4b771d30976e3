from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake.errors import SettingsError, ShardCorrupt
from mmlake.loader import LengthBatches, ShardStream
from mmlake.shards import ShardIndex, ShardSettings, write_shards
from mmlake.store import BlobStore
from tests.made_samples import part, sample, samples_table

COUNT, MOST = 211, 60.0
LENGTHS = np.random.default_rng(3).uniform(1, 30, COUNT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("shards")
    store = BlobStore(root / "blobs")
    rows = [sample([part(store, str(number).encode() * 40)]) for number in range(COUNT)]
    table = samples_table(rows)
    where = {"store": store, "out": root, "manifest_id": "cd" * 32, "modalities": ("image",)}
    return write_shards(table, **where, settings=ShardSettings(max_samples=50)).directory


def of(folder: Path, lengths: np.ndarray = LENGTHS, *, window: int = 64, max_padded: float = MOST, **fields):
    bounds = {name: fields.pop(name, None) for name in ("max_samples", "groups")}
    stream = ShardStream(folder, seed=7, weights=False, **fields)
    return LengthBatches(stream, lengths, max_padded=max_padded, window=window, **bounds)


def numbers(folder: Path, batches) -> list[list[int]]:
    """The batches as numbers of samples in index order."""
    place = {key: number for number, key in enumerate(ShardStream(folder).keys())}
    return [[place[one["__key__"]] for one in batch] for batch in batches]


@pytest.mark.parametrize("shuffle", [True, False])
def test_every_sample_comes_once_and_no_batch_takes_more_than_the_bound(folder, shuffle: bool) -> None:
    found = numbers(folder, of(folder, shuffle=shuffle))
    assert sorted(number for batch in found for number in batch) == list(range(COUNT))
    assert max(len(batch) * LENGTHS[batch].max() for batch in found) <= MOST


def test_padding_is_a_small_part_of_a_batch(folder) -> None:
    """Batches of any four samples would be padded by more than a quarter here."""
    found = numbers(folder, of(folder, window=COUNT, max_padded=120.0))
    padded = sum(len(batch) * LENGTHS[batch].max() for batch in found)
    assert LENGTHS.sum() / padded > 0.93
    drawn = np.random.default_rng(0).permutation(COUNT)[:208].reshape(-1, 4)
    assert LENGTHS[drawn].sum() / (4 * LENGTHS[drawn].max(axis=1)).sum() < 0.75


def test_a_batch_has_at_most_so_many_samples_however_short_they_are(folder) -> None:
    found = numbers(folder, of(folder, np.zeros(COUNT), max_samples=5))
    assert sorted(number for batch in found for number in batch) == list(range(COUNT))
    assert max(map(len, found)) == 5


def test_batches_come_in_no_order_of_length(folder) -> None:
    longest = [LENGTHS[batch].max() for batch in numbers(folder, of(folder, window=COUNT))]
    rank = np.argsort(np.argsort(longest))
    assert abs(np.corrcoef(rank, np.arange(len(rank)))[0, 1]) < 0.4


def test_epochs_are_repeatable_and_have_other_batches(folder) -> None:
    batches = of(folder)
    first = numbers(folder, batches)
    batches.set_epoch(1)
    assert numbers(folder, batches) != first
    batches.set_epoch(0)
    assert numbers(folder, batches) == first == numbers(folder, of(folder))


@settings(max_examples=40, deadline=None)
@given(world=st.integers(1, 5), workers=st.integers(1, 3), after=st.integers(1, 5), taken=st.integers(0, 12))
def test_any_ranks_and_workers_go_on_at_the_very_batch(
    folder, world: int, workers: int, after: int, taken: int
) -> None:
    """What all ranks took before the stop, and take after it in another world size, is each batch once."""
    whole = numbers(folder, of(folder))
    taken = min(taken, len(whole) // world)
    used, states = [], []
    for rank in range(world):
        batches = of(folder, rank=rank, world_size=world)
        parts = [list(batches.iterate(worker=worker, num_workers=workers)) for worker in range(workers)]
        in_turn = [parts[at % workers][at // workers] for at in range(taken)]
        used += in_turn
        states.append(batches.state_dict(num_batches=taken))
    assert len({json.dumps(state) for state in states}) == 1
    for rank in range(after):
        batches = of(folder, rank=rank, world_size=after)
        batches.load_state_dict(json.loads(json.dumps(states[0])))
        length = len(batches)
        rest = list(batches)
        assert len(rest) == length
        used += rest
    assert sorted(numbers(folder, used)) == sorted(whole)


@pytest.mark.parametrize(("tail", "more"), [("drop", 0), ("pad", 1)])
def test_ranks_have_equally_many_batches_where_asked(folder, tail: str, more: int) -> None:
    whole = of(folder).num_batches
    world = next(world for world in range(2, 9) if whole % world)
    counts = [len(list(of(folder, tail=tail, rank=rank, world_size=world))) for rank in range(world)]
    assert counts == [whole // world + more] * world


def test_the_pass_behind_a_resumed_one_is_whole(folder) -> None:
    batches = of(folder)
    batches.load_state_dict(batches.state_dict(num_batches=9))
    assert len(list(batches)) == batches.num_batches - 9
    assert len(list(batches)) == batches.num_batches


def test_a_state_in_mid_pass_goes_on_with_the_next_batch(folder) -> None:
    batches = of(folder)
    given_out = iter(batches)
    first = [next(given_out) for _ in range(3)]
    resumed = of(folder)
    resumed.load_state_dict(pickle.loads(pickle.dumps(batches)).state_dict())
    assert numbers(folder, first + list(resumed)) == numbers(folder, of(folder))


def test_what_is_damaged_has_no_length_and_is_left_out(folder, tmp_path) -> None:
    """One shard that was gone let nobody read the lengths of the others."""
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "image-000001.tar").unlink()
    stream = ShardStream(tmp_path, on_corrupt="skip")
    lengths = [facts["parts"][0]["size_bytes"] if facts else np.nan for facts in stream.facts()]
    before, gone = (shard.num_samples for shard in ShardIndex.read(folder).shards[:2])
    assert np.flatnonzero(np.isnan(lengths)).tolist() == list(range(before, before + gone))
    assert list(stream.skipped) == ["image-000001"]
    batches = LengthBatches(stream, lengths, max_padded=1000)
    assert sum(len(batch) for batch in batches) == COUNT - gone == COUNT - batches.num_left_out
    with pytest.raises(ShardCorrupt):
        list(ShardStream(tmp_path).facts())


GROUPS = np.array(["wide", "tall", "square"])[np.random.default_rng(5).integers(0, 3, COUNT)]


@settings(max_examples=30, deadline=None)
@given(world=st.integers(1, 4), after=st.integers(1, 4), taken=st.integers(0, 9), window=st.sampled_from([1, 16, 300]))
def test_a_batch_holds_one_group_in_any_world_size(folder, world: int, after: int, taken: int, window: int) -> None:
    how = {"groups": GROUPS, "window": window}
    whole = numbers(folder, of(folder, **how))
    assert all(len(set(GROUPS[batch])) == 1 for batch in whole)
    assert all(max(LENGTHS[batch]) * len(batch) <= MOST for batch in whole)
    assert sorted(number for batch in whole for number in batch) == list(range(COUNT))
    used = []
    for rank in range(world):
        batches = of(folder, rank=rank, world_size=world, **how)
        used += numbers(folder, [batch for batch, _ in zip(batches, range(taken), strict=False)])
        state = batches.state_dict(taken)
    for rank in range(after):
        batches = of(folder, rank=rank, world_size=after, **how)
        batches.load_state_dict(json.loads(json.dumps(state)))
        used += numbers(folder, batches)
    assert sorted(used) == sorted(whole)


def test_groups_cost_at_most_a_batch_each_in_a_window(folder) -> None:
    same = np.ones(COUNT)
    stream = ShardStream(folder)
    batches = LengthBatches(stream, same, max_padded=8, groups=GROUPS, window=COUNT)
    counts = {name: int((name == GROUPS).sum()) for name in set(GROUPS)}
    assert batches.num_batches == sum(-(-count // 8) for count in counts.values())
    plain = LengthBatches(stream, same, max_padded=8, window=COUNT)
    assert numbers(folder, LengthBatches(stream, same, max_padded=8, window=COUNT, groups=[0] * COUNT)) == numbers(
        folder, plain
    )
    with pytest.raises(SettingsError, match="by its groups"):
        plain.load_state_dict(batches.state_dict())


def test_a_length_of_next_to_nothing_is_one(folder) -> None:
    """The bound divided by it is infinite, which was an error."""
    assert len(list(of(folder, np.full(COUNT, 5e-324), window=COUNT))) == 1


@pytest.mark.parametrize("change", ["pass", "epoch", "state"])
def test_a_pass_that_was_left_counts_for_nothing(folder, change: str) -> None:
    """What was still taken of it was counted for the next one: a state that was loaded lost the rest of the epoch."""
    batches = of(folder)
    running = iter(batches)
    next(running)
    if change == "pass":
        next(iter(batches))
    elif change == "epoch":
        batches.set_epoch(1)
    else:
        batches.load_state_dict(of(folder).state_dict(5))
    assert numbers(folder, running) == numbers(folder, of(folder))[1:]
    assert batches.state_dict()["batch"] == {"pass": 1, "epoch": 0, "state": 5}[change]


def test_a_state_behind_the_end_is_refused(folder) -> None:
    batches = of(folder)
    batches.load_state_dict(batches.state_dict() | {"batch": 1000})
    with pytest.raises(SettingsError, match=f"at batch 1000 of {batches.num_batches}"):
        list(batches)


def test_an_epoch_that_is_named_again_is_whole_once_it_was_read(folder) -> None:
    batches = of(folder)
    batches.load_state_dict(batches.state_dict(3))
    list(batches)
    batches.set_epoch(0)
    assert len(list(batches)) == batches.num_batches


def test_a_sample_without_a_length_is_left_out_and_counted(folder) -> None:
    lengths = np.where(LENGTHS < 5, np.nan, LENGTHS)
    batches = of(folder, lengths)
    found = {number for batch in numbers(folder, batches) for number in batch}
    assert found == set(np.flatnonzero(LENGTHS >= 5).tolist())
    assert batches.num_left_out == np.count_nonzero(LENGTHS < 5) > 0


def test_no_samples_are_no_batches(folder) -> None:
    batches = of(folder, np.full(COUNT, np.nan))
    assert (len(batches), list(batches)) == (0, [])


@pytest.mark.parametrize(
    ("lengths", "fields", "match"),
    [
        (LENGTHS[1:], {}, r"shape \(210,\), expected \(211,\)"),
        (-LENGTHS, {}, "211 lengths are below 0"),
        (LENGTHS, {"max_padded": 29.0}, "longer than max_padded 29, the longest 29."),
        (LENGTHS, {"max_padded": 0.0}, "expected finite numbers above 0"),
        (LENGTHS, {"max_samples": 0}, "expected finite numbers above 0"),
        (["long"] * COUNT, {}, "expected numbers"),
        (LENGTHS, {"max_padded": "60 s"}, "max_padded is 60 s, expected numbers"),
        (LENGTHS, {"groups": ["wide"] * 3}, r"groups has shape \(3,\)"),
        (LENGTHS, {"groups": [None, "wide"] * 3}, "not all numbers, or all words"),
        (LENGTHS, {"window": 2.5}, "window is 2.5, expected a whole number"),
    ],
)
def test_unusable_arguments_are_refused(folder, lengths, fields: dict, match: str) -> None:
    with pytest.raises(SettingsError, match=match):
        of(folder, lengths, **fields)


def test_what_is_no_stream_is_refused(folder) -> None:
    with pytest.raises(SettingsError, match="expected a ShardStream"):
        LengthBatches(folder, LENGTHS, max_padded=MOST)


def test_a_state_of_other_lengths_or_bounds_is_refused(folder) -> None:
    state = of(folder).state_dict()
    with pytest.raises(SettingsError, match="lengths"):
        of(folder, LENGTHS + 1).load_state_dict(state)
    with pytest.raises(SettingsError, match="max_padded"):
        of(folder, max_padded=61.0).load_state_dict(state)
    with pytest.raises(SettingsError, match="length_batches/1"):
        of(folder).load_state_dict(ShardStream(folder).state_dict())


def test_a_damaged_sample_is_left_out_of_its_batch(folder, tmp_path) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    tar = tmp_path / "image-000000.tar"
    data = bytearray(tar.read_bytes())
    data[600] ^= 1
    tar.write_bytes(bytes(data))
    batches = of(tmp_path, verify="members", on_corrupt="skip")
    assert sum(map(len, batches)) == COUNT - 1


def test_workers_of_a_dataloader_give_the_batches_in_order_and_follow_the_epoch(folder) -> None:
    from torch.utils.data import DataLoader

    from mmlake.loader import LengthBatchDataset

    stream = ShardStream(folder, seed=7, weights=False)
    dataset = LengthBatchDataset(stream, LENGTHS, max_padded=MOST, window=64)
    loader = DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=True, collate_fn=list)
    whole = of(folder)
    for epoch in (0, 1):
        dataset.set_epoch(epoch)
        whole.set_epoch(epoch)
        assert numbers(folder, loader) == numbers(folder, whole)
    with pytest.raises(SettingsError, match="num_batches"):
        dataset.state_dict()
    dataset.load_state_dict(dataset.state_dict(num_batches=4))
    assert len(loader) == whole.num_batches - 4
    assert numbers(folder, loader) == numbers(folder, whole)[4:]
