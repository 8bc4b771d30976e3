from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake.errors import SettingsError
from mmlake.loader import JoinedStreams, LengthBatches, ShardStream
from mmlake.shards import ShardSettings, write_shards
from mmlake.store import BlobStore
from tests.made_samples import part, sample, samples_table

SIZES = {"many": 60, "few": 7}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """Two lakes of pictures that have no sample in common."""
    found = {}
    for name, size in SIZES.items():
        root = tmp_path_factory.mktemp(name)
        store = BlobStore(root / "blobs")
        table = samples_table([sample([part(store, f"{name} {number}".encode() * 20)]) for number in range(size)])
        where = {"store": store, "out": root, "manifest_id": f"{size:064x}", "modalities": ("image",)}
        found[name] = write_shards(table, **where, settings=ShardSettings(max_samples=25)).directory
    return found


def of(folders: dict[str, Path], **fields) -> JoinedStreams:
    return JoinedStreams({name: ShardStream(folder) for name, folder in folders.items()}, **({"seed": 7} | fields))


def keys(samples) -> list[tuple[str, str]]:
    return [(sample["__stream__"], sample["__key__"]) for sample in samples]


def test_without_weights_every_sample_of_all_comes_once(folders) -> None:
    found = keys(of(folders))
    assert Counter(name for name, _ in found) == SIZES
    assert len(set(found)) == 67
    for name, folder in folders.items():
        assert {key for of_stream, key in found if of_stream == name} == set(ShardStream(folder).keys())


def test_an_epoch_has_each_stream_by_its_weight(folders) -> None:
    joined = of(folders, weights={"many": 3, "few": 1}, num_positions=40)
    assert joined.counts == {"many": 30, "few": 10}
    assert Counter(name for name, _ in keys(joined)) == joined.counts
    assert len(joined) == 40


def test_over_epochs_no_sample_comes_twice_more_often_than_another_of_its_stream(folders) -> None:
    joined, seen, orders = of(folders, weights={"many": 3, "few": 1}, num_positions=40), Counter(), set()
    for epoch in range(7):
        joined.set_epoch(epoch)
        found = keys(joined)
        orders.add(tuple(found))
        seen.update(found)
    assert len(orders) == 7
    for name, size in SIZES.items():
        times = [count for (of_stream, _), count in seen.items() if of_stream == name]
        assert len(times) == size
        assert max(times) - min(times) <= 1


def test_the_streams_are_mixed_over_any_stretch(folders) -> None:
    """Of any 200 of 2,000 positions, half of each stream: 100 to within four standard deviations of such a draw."""
    joined = of(folders, weights={"many": 1, "few": 1}, num_positions=2000)
    at = joined.numbers_at(np.arange(2000), seed=7, epoch=0) < SIZES["many"]
    assert np.abs(at.reshape(10, 200).sum(axis=1) - 100).max() < 28


@pytest.mark.parametrize("first", [0, 7 * 2**61, 7 * 2**63, 7 * 10**30])
def test_an_epoch_may_have_any_number(folders, first: int) -> None:
    """Behind the range of int64 samples came twice and others never, or the first was an error of numpy."""
    joined, seen = of(folders, weights={"many": 1, "few": 3}, num_positions=20), Counter()
    for epoch in range(first, first + 7):
        joined.set_epoch(epoch)
        seen.update(key for name, key in keys(joined) if name == "few")
    assert sorted(seen.values()) == [15] * 7  # 7 epochs of 15 positions are 15 passes through 7 samples


@pytest.mark.parametrize("total", [2**53 + 1, 10**17, 2**60])
def test_shares_add_up_however_large_an_epoch_is(folders, total: int) -> None:
    """A float has 53 bits: thirds of 10 ** 17 added up to one less."""
    streams = {name: ShardStream(folders["few"]) for name in "abc"}
    joined = JoinedStreams(streams, weights=dict.fromkeys("abc", 1), num_positions=total)
    assert sum(joined.counts.values()) == joined.num_positions == len(joined) == total
    assert max(joined.counts.values()) - min(joined.counts.values()) <= 1
    assert joined.numbers_at(np.array([0, total - 1]), seed=7, epoch=1).max() < 21


def test_weights_of_any_size_are_shares(folders) -> None:
    assert of(folders, weights={"many": 1e308, "few": 1e308}, num_positions=50).counts == {"many": 25, "few": 25}
    assert of(folders, weights={"many": 5e-324, "few": 0}, num_positions=50).counts == {"many": 50, "few": 0}


def test_streams_with_ranks_of_their_own_are_refused(folders) -> None:
    """Theirs count for nothing, so that each rank trained on all samples."""

    def joined(**fields) -> JoinedStreams:
        streams = {name: ShardStream(folder, rank=1, world_size=2) for name, folder in folders.items()}
        return JoinedStreams(streams, **fields)

    with pytest.raises(SettingsError, match="'many' is for rank 1 of 2, and all together are for rank 0 of 1"):
        joined()
    assert len(joined(rank=1, world_size=2)) == 33


def test_a_stream_with_a_state_of_its_own_is_refused(folders) -> None:
    stream = ShardStream(folders["many"])
    stream.load_state_dict(stream.state_dict(5))
    with pytest.raises(SettingsError, match="load the state of all streams together"):
        JoinedStreams({"many": stream})


@settings(max_examples=40, deadline=None)
@given(world=st.integers(1, 4), workers=st.integers(1, 3), after=st.integers(1, 4), taken=st.integers(0, 12))
def test_any_ranks_and_workers_go_on_at_the_very_sample(
    folders, world: int, workers: int, after: int, taken: int
) -> None:
    mixed = {"weights": {"many": 2, "few": 1}, "num_positions": 50, "batch_size": 3}
    whole = keys(of(folders, **mixed))
    used, states = [], []
    for rank in range(world):
        joined = of(folders, rank=rank, world_size=world, **mixed)
        parts = [list(joined.iterate(worker=worker, num_workers=workers)) for worker in range(workers)]
        blocks = [[one[at : at + 3] for at in range(0, len(one), 3)] for one in parts]
        in_turn = [x for at in range(max(map(len, blocks))) for one in blocks if at < len(one) for x in one[at]]
        used += keys(in_turn[:taken])
        states.append(joined.state_dict(num_samples=taken))
    assert len({json.dumps(state) for state in states}) == 1
    for rank in range(after):
        joined = pickle.loads(pickle.dumps(of(folders, rank=rank, world_size=after, **mixed)))
        joined.load_state_dict(json.loads(json.dumps(states[0])))
        used += keys(joined)
    assert Counter(used) == Counter(whole)


def test_a_state_of_other_weights_or_streams_is_refused(folders) -> None:
    state = of(folders).state_dict()
    with pytest.raises(SettingsError, match="other data"):
        of(folders, weights={"many": 1, "few": 1}).load_state_dict(state)
    with pytest.raises(SettingsError, match="other data"):
        of({"many": folders["many"], "few": folders["many"]}).load_state_dict(state)


def test_batches_of_like_length_are_made_over_all_streams(folders) -> None:
    joined = of(folders)
    lengths = np.arange(67) % 9 + 1
    assert Counter(keys(x for batch in LengthBatches(joined, lengths, max_padded=30) for x in batch)) == Counter(
        keys(of(folders))
    )
    assert [facts["sample"] for facts in joined.facts()] == [joined.sample(at)["__key__"] for at in range(67)]


def test_a_batch_may_hold_one_stream_alone(folders) -> None:
    streams = {name: ShardStream(folder) for name, folder in folders.items()}
    of_stream = np.repeat(list(streams), [stream.num_samples for stream in streams.values()])
    batches = LengthBatches(JoinedStreams(streams, seed=7), np.ones(67), max_padded=8, groups=of_stream)
    found = [[name for name, _ in keys(batch)] for batch in batches]
    assert all(len(set(names)) == 1 for names in found)
    assert Counter(name for names in found for name in names) == SIZES
    assert len(found) == 9


def test_a_damaged_sample_is_left_out_under_the_name_of_its_stream(folders, tmp_path) -> None:
    for path in folders["few"].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    tar = tmp_path / "image-000000.tar"
    data = bytearray(tar.read_bytes())
    data[600] ^= 1
    tar.write_bytes(bytes(data))
    few = ShardStream(tmp_path, verify="members", on_corrupt="skip")
    joined = JoinedStreams({"many": ShardStream(folders["many"]), "few": few})
    assert len(keys(joined)) == 66
    assert list(joined.skipped) == ["few/image-000000/0"]


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"weights": {"many": 1}}, r"weights are of \['many'\], expected one of each stream, \['few', 'many'\]"),
        ({"weights": {"many": 0, "few": 0}}, "one above 0"),
        ({"weights": {"many": -1, "few": 2}}, "from 0 on"),
        ({"weights": {"many": None, "few": 2}}, "finite numbers"),
        ({"weights": {"many": float("nan"), "few": 2}}, "finite numbers"),
        ({"weights": [3, 1]}, r"weights are of \[3, 1\]"),
        ({"num_positions": 2**62}, "at most"),
        ({"num_positions": 2.5}, "expected a whole number"),
        ({"rank": 2, "world_size": 2}, "rank 2 of world_size 2"),
        ({"tail": "x"}, "tail is 'x'"),
    ],
)
def test_unusable_arguments_are_refused(folders, fields: dict, match: str) -> None:
    with pytest.raises(SettingsError, match=match):
        of(folders, **fields)


def test_what_is_no_stream_is_refused(folders) -> None:
    with pytest.raises(SettingsError, match="expected a ShardStream"):
        JoinedStreams(folders)
    with pytest.raises(SettingsError, match="expected a mapping"):
        JoinedStreams([ShardStream(folders["many"])])


def test_a_stream_without_samples_is_refused_where_it_has_a_share(folders, tmp_path) -> None:
    store = BlobStore(tmp_path / "blobs")
    where = {"store": store, "out": tmp_path, "manifest_id": "ab" * 32, "modalities": ("image",)}
    empty = write_shards(samples_table([]), **where).directory
    both = {"many": folders["many"], "empty": empty}
    with pytest.raises(SettingsError, match="'empty' has no samples to give"):
        of(both, weights={"many": 1, "empty": 1})
    assert len(keys(of(both))) == 60


def test_workers_of_a_dataloader_share_the_samples_and_follow_the_epoch(folders) -> None:
    from torch.utils.data import DataLoader

    from mmlake.loader import JoinedDataset

    dataset = JoinedDataset({name: ShardStream(folder) for name, folder in folders.items()}, seed=7, batch_size=4)
    loader = DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True, collate_fn=keys)
    whole = of(folders)
    for epoch in (0, 1):
        dataset.set_epoch(epoch)
        whole.set_epoch(epoch)
        assert [key for batch in loader for key in batch] == keys(whole)
    with pytest.raises(SettingsError, match="num_samples"):
        dataset.state_dict()
    dataset.load_state_dict(dataset.state_dict(num_samples=12))
    assert [key for batch in loader for key in batch] == keys(whole)[12:]
