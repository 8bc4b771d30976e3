from __future__ import annotations

import io
import json
import pickle
import random
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake.errors import SettingsError, ShardCorrupt
from mmlake.loader import DECODERS, Permutation, ShardStream
from mmlake.loader import stream as stream_module
from mmlake.shards import ShardIndex, ShardSettings
from mmlake.store import BlobStore
from tests.made_samples import part, sample, shards_of, text

COUNT = 53


def rows_of(store: BlobStore) -> list[dict]:
    rng = random.Random(0)
    rows = []
    for number in range(COUNT):
        words = text(store, f"words {number}") if number % 5 == 0 else None
        rows.append(sample([words or part(store, rng.randbytes(200))], weight=0.5 if number % 2 else 1.0))
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("shards")
    store = BlobStore(root / "blobs")
    return shards_of(rows_of(store), store, root, settings=ShardSettings(max_samples=10)).directory


@pytest.fixture
def copy(folder, tmp_path) -> Path:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def keys(samples) -> list[str]:
    return [sample["__key__"] for sample in samples]


@settings(max_examples=60)
@given(st.integers(1, 5000), st.integers(0, 2**63), st.integers(0, 100))
def test_the_permutation_is_a_bijection(size: int, seed: int, epoch: int) -> None:
    assert np.array_equal(np.sort(Permutation(size, seed=seed, epoch=epoch).at(np.arange(size))), np.arange(size))


def test_the_permutation_answers_one_position_of_a_trillion() -> None:
    size = 10**12
    numbers = Permutation(size, seed=1, epoch=0).at(np.arange(size - 1000, size))
    assert len(set(numbers.tolist())) == 1000
    assert numbers.min() >= 0
    assert numbers.max() < size


def test_the_permutation_mixes_well() -> None:
    """Over many seeds each sample is first about equally often: chi-squared with 15 degrees of freedom stays under
    its 99.9 % point, 37.7."""
    firsts = np.bincount(
        [int(Permutation(16, seed=seed, epoch=0).at(np.zeros(1, np.int64))[0]) for seed in range(4000)], minlength=16
    )
    assert ((firsts - 250) ** 2 / 250).sum() < 37.7


def test_seeds_and_epochs_give_other_orders() -> None:
    orders = {
        tuple(Permutation(50, seed=seed, epoch=epoch).at(np.arange(50)).tolist())
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(orders) == 9


def test_without_shuffling_the_order_is_that_of_the_index(folder) -> None:
    stream = ShardStream(folder, shuffle=False)
    assert keys(stream) == keys(stream.sample(number) for number in range(COUNT))


@pytest.mark.parametrize(("max_open", "times"), [(128, 1), (2, 4)])
def test_a_shard_is_opened_once_while_there_is_room_for_all(folder, monkeypatch, max_open: int, times: int) -> None:
    """Lakes of many source shards have many shards, which a shuffled epoch visits in turn."""
    opened, real = [], stream_module.open_shard
    monkeypatch.setattr(
        stream_module, "open_shard", lambda *given, **how: opened.append(given[1]) or real(*given, **how)
    )
    stream = ShardStream(folder)
    stream._max_open = max_open
    assert len(keys(stream)) == COUNT
    assert len(stream._open) <= max_open
    num_shards = len(set(opened))
    assert len(opened) == num_shards if times == 1 else len(opened) > times * num_shards


def test_the_number_of_mapped_shards_follows_the_limit_of_open_files(monkeypatch) -> None:
    for soft, expected in ((256, 128), (1024, 256), (1 << 20, 4096), (resource.RLIM_INFINITY, 4096)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert stream_module.max_open() == expected


def test_an_epoch_is_repeatable_and_the_next_one_differs(folder) -> None:
    stream = ShardStream(folder, seed=3)
    first = keys(stream)
    assert keys(stream) == first == keys(ShardStream(folder / "index.json", seed=3))
    stream.set_epoch(1)
    assert keys(stream) != first


@settings(max_examples=40)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 7), st.booleans(), st.integers(0, COUNT))
def test_ranks_and_workers_share_every_sample_exactly_once(
    folder, world_size: int, num_workers: int, batch_size: int, shuffle: bool, taken: int
) -> None:
    seen: list[str] = []
    start = ShardStream(folder, seed=1, shuffle=shuffle).state_dict(taken)
    for rank in range(world_size):
        stream = ShardStream(
            folder, seed=1, shuffle=shuffle, rank=rank, world_size=world_size, batch_size=batch_size, verify="fast"
        )
        stream.load_state_dict(start)
        mine = [
            key for worker in range(num_workers) for key in keys(stream.iterate(worker=worker, num_workers=num_workers))
        ]
        assert len(mine) == len(stream)
        seen += mine
    assert sorted(seen) == sorted(keys(ShardStream(folder, seed=1, shuffle=shuffle, verify="fast"))[taken:])


@settings(max_examples=30)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 8))
def test_training_goes_on_with_another_world_size_without_repeat_or_loss(
    folder, before: int, after: int, steps: int
) -> None:
    """When every rank has taken equally many samples, what the new ranks give out is exactly what is left."""
    used: list[str] = []
    streams = [ShardStream(folder, seed=2, rank=rank, world_size=before, verify="fast") for rank in range(before)]
    for stream in streams:
        used += [sample["__key__"] for sample, _ in zip(stream, range(steps), strict=False)]
    state = json.loads(json.dumps(streams[0].state_dict(steps)))
    for rank in range(after):
        stream = ShardStream(folder, rank=rank, world_size=after, verify="fast")
        stream.load_state_dict(state)
        used += keys(stream)
    assert sorted(used) == sorted(keys(streams[0].sample(number) for number in range(COUNT)))


def test_the_state_in_mid_epoch_counts_what_was_given_out(folder) -> None:
    stream, whole = ShardStream(folder, seed=5), keys(ShardStream(folder, seed=5))
    iterator = iter(stream)
    first = [next(iterator)["__key__"] for _ in range(20)]
    resumed = ShardStream(folder)
    resumed.load_state_dict(stream.state_dict())
    assert first + keys(resumed) == whole


def test_equal_ranks_drop_the_tail_when_asked(folder) -> None:
    lengths = [len(keys(ShardStream(folder, rank=rank, world_size=4, tail="drop"))) for rank in range(4)]
    assert lengths == [COUNT // 4] * 4


@pytest.mark.parametrize("start", [0, 50])
def test_equal_ranks_are_padded_with_the_first_of_the_epoch_when_asked(folder, start: int) -> None:
    whole = keys(ShardStream(folder))
    given = []
    for rank in range(4):
        stream = ShardStream(folder, rank=rank, world_size=4, tail="pad")
        stream.load_state_dict(stream.state_dict() | {"position": start})
        given.append(keys(stream))
        assert len(given[-1]) == -(-(COUNT - start) // 4)
    assert [given[at % 4][at // 4] for at in range(4 * len(given[0]))] == (whole + whole)[start:][: 4 * len(given[0])]


def test_facts_are_what_every_sample_says_in_index_order(folder) -> None:
    stream = ShardStream(folder)
    assert list(stream.facts()) == [json.loads(stream.sample(number)["json"]) for number in range(COUNT)]


@pytest.mark.parametrize(
    "change", [{"num_samples": 1}, {"manifest": "x"}, {"schema": "other"}, {"position": COUNT + 1}, {"shuffle": False}]
)
def test_a_state_of_other_data_is_refused(folder, change: dict) -> None:
    stream = ShardStream(folder)
    with pytest.raises(SettingsError, match="loader state"):
        stream.load_state_dict(stream.state_dict() | change)


def test_one_modality_gives_its_samples_alone(folder) -> None:
    texts = list(ShardStream(folder, modality="text", decode="auto"))
    assert len(texts) == len(range(0, COUNT, 5))
    assert all(sample["txt"].startswith("words") and sample["json"]["modality"] == "text" for sample in texts)


def test_weights_come_with_each_sample_and_as_one_array(folder) -> None:
    stream = ShardStream(folder)
    assert stream.weights().tolist() == [stream.sample(number)["__weight__"] for number in range(COUNT)]
    assert sorted(set(stream.weights().tolist())) == [0.5, 1.0]
    assert "__weight__" not in ShardStream(folder, weights=False).sample(0)


@pytest.mark.parametrize(
    "fields",
    [
        {"rank": 2, "world_size": 2},
        {"rank": -1},
        {"batch_size": 0},
        {"verify": "no"},
        {"on_corrupt": "ignore"},
        {"tail": "x"},
        {"modality": "smell"},
        {"decode": "pil"},
    ],
)
def test_unusable_arguments_are_refused(folder, fields: dict) -> None:
    with pytest.raises(SettingsError):
        ShardStream(folder, **fields)


def test_no_decoder_executes_what_it_reads(folder) -> None:
    known = ["bytes", "clip", "frames", "image", "json", "log_mel", "log_mel_128", "sound", "text"]
    assert sorted(DECODERS) == known
    with pytest.raises(SettingsError, match="pickle"):
        ShardStream(folder, decode={"pkl": "pickle"})


def test_pictures_decode_to_upright_rgb() -> None:
    from PIL import Image

    picture = Image.new("L", (4, 2), 200)
    picture.save(sink := io.BytesIO(), "PNG")
    assert DECODERS["image"](sink.getvalue()).shape == (2, 4, 3)


@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n\x1a\n", b"[" * 100_000, b"{"])
@pytest.mark.parametrize("name", ["image", "json"])
def test_junk_is_unreadable_in_our_own_words(name: str, data: bytes) -> None:
    from mmlake.errors import UnreadableItem

    with pytest.raises(UnreadableItem, match="num_bytes"):
        DECODERS[name](data)


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("verify", ["members", "full"])
def test_a_flipped_byte_of_a_member_raises_before_it_is_given_out(copy, verify: str) -> None:
    flip(copy / "image-000001.tar", 600)
    with pytest.raises(ShardCorrupt, match="image-000001"):
        list(ShardStream(copy, verify=verify))


@pytest.mark.parametrize("verify", ["fast", "members", "full"])
@pytest.mark.parametrize("name", ["image-000001.tar", "image-000001.idx"])
def test_a_truncated_or_missing_file_raises_in_every_mode(copy, verify: str, name: str) -> None:
    (copy / name).write_bytes((copy / name).read_bytes()[:-1])
    with pytest.raises(ShardCorrupt, match="image-000001"):
        list(ShardStream(copy, verify=verify))
    (copy / name).unlink()
    with pytest.raises(ShardCorrupt, match="missing"):
        list(ShardStream(copy, verify=verify))


def held_by(folder: Path, name: str) -> int:
    """The number of samples of a shard."""
    return next(shard.num_samples for shard in ShardIndex.read(folder).shards if shard.name == name)


def test_skipping_leaves_out_the_damaged_shard_and_reports_it(copy) -> None:
    flip(copy / "image-000001.tar", 600)
    stream = ShardStream(copy, on_corrupt="skip")
    assert len(keys(stream)) == COUNT - held_by(copy, "image-000001")
    assert list(stream.skipped) == ["image-000001"]


def test_an_undecodable_sample_is_skipped_alone(folder) -> None:
    stream = ShardStream(folder, on_corrupt="skip", decode={"jpg": "image"})
    assert len(keys(stream)) == len(range(0, COUNT, 5))
    assert len(stream.skipped) == COUNT - len(range(0, COUNT, 5))


def test_an_unfinished_folder_is_refused(copy) -> None:
    (copy / "index.json").unlink()
    with pytest.raises(ShardCorrupt, match="never finished"):
        ShardStream(copy)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"schema":"x","manifest":"m","shards":[]}',
        '{"schema":"mmlake.shards/2","manifest":"m","shards":[{"name":"../x"}]}',
    ],
)
def test_a_damaged_index_is_refused(copy, text: str) -> None:
    (copy / "index.json").write_text(text)
    with pytest.raises(ShardCorrupt, match="not an index"):
        ShardStream(copy)


def test_a_stream_travels_to_another_process(folder) -> None:
    stream = ShardStream(folder)
    expected = keys(stream)
    assert keys(pickle.loads(pickle.dumps(stream))) == expected


def test_importing_the_loader_loads_no_torch() -> None:
    code = "import sys, mmlake.loader; mmlake.loader.ShardStream; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_reading_loads_no_pandas(folder) -> None:
    code = (
        "import sys; from mmlake.loader import ShardStream; list(ShardStream(sys.argv[1])); "
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)


def test_the_dataset_is_a_torch_dataset_and_workers_share_its_samples(folder) -> None:
    from torch.utils.data import DataLoader, IterableDataset

    from mmlake.loader import ShardDataset

    dataset = ShardDataset(folder, seed=7, batch_size=4, rank=1, world_size=2)
    assert isinstance(dataset, IterableDataset)
    loader = DataLoader(dataset, batch_size=4, num_workers=2, collate_fn=keys)
    assert [key for batch in loader for key in batch] == keys(ShardStream(folder, seed=7, rank=1, world_size=2))


def test_training_with_workers_resumes_exactly_from_the_loops_own_count(folder) -> None:
    from torch.utils.data import DataLoader

    from mmlake.loader import ShardDataset

    dataset = ShardDataset(folder, seed=7, batch_size=4)
    batches = iter(DataLoader(dataset, batch_size=4, num_workers=2, collate_fn=keys))
    used = [key for _ in range(3) for key in next(batches)]
    with pytest.raises(SettingsError, match="num_samples"):
        dataset.state_dict()
    resumed = ShardStream(folder)
    resumed.load_state_dict(dataset.state_dict(12))
    assert used + keys(resumed) == keys(ShardStream(folder, seed=7))
