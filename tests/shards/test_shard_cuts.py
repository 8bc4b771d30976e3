"""Where a source shard is cut: by the names of its samples, so that what comes or goes changes one shard."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake.errors import ContractBroken
from mmlake.modalities import MODALITIES
from mmlake.records import digest_of
from mmlake.shards import ShardSettings
from mmlake.shards.plan import ShardPlan, plan
from mmlake.shards.samples import SampleRows
from tests.made_samples import samples_table

SMALL = ShardSettings(shard_bytes=400_000)


def row(number: int, size_bytes: int = 20_000) -> dict:
    """A sample of a picture that is in no store: what is planned reads none."""
    digest = digest_of(f"picture {number}".encode())
    part = {"position": 0, "role": "media", "modality": "image", "digest": digest, "content_type": "image/jpeg"}
    part |= {"parent_digest": digest, "size_bytes": size_bytes}
    return {
        "sample": digest, "modality": "image", "shard": "image/a.tar", "weight": 1.0, "sources": ["news"],
        "licences": ["MIT"], "sample_ids": ["s"], "num_occurrences": 1, "parts": [part],
    }  # fmt: skip


def planned(rows: list[dict], how: ShardSettings = SMALL) -> list[ShardPlan]:
    return plan(SampleRows(samples_table(rows)), modalities=tuple(MODALITIES), manifest_id="ab" * 32, settings=how)


def num_new(before: list[ShardPlan], after: list[ShardPlan]) -> int:
    """Shards that have to be written."""
    return len({shard.digest for shard in after} - {shard.digest for shard in before})


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(0, 1000))
def test_a_sample_that_comes_or_goes_changes_its_own_shard_alone(count: int, seed: int) -> None:
    """All shards behind it were cut elsewhere. Where a shard becomes too large it is two, and two may become one."""
    rows = [row(number) for number in range(400)]
    fewer = random.Random(seed).sample(rows, 400 - count)
    whole, part = planned(rows), planned(fewer)
    assert len(whole) > 20
    assert num_new(whole, part) <= count
    assert num_new(part, whole) <= 2 * count


def test_every_sample_is_in_one_shard_in_the_order_of_names() -> None:
    rows = [row(number, size_bytes=random.Random(number).choice([100, 20_000, 900_000])) for number in range(300)]
    shards = planned(rows)
    names = sorted(one["sample"] for one in rows)
    assert [number for shard in shards for number in shard.rows.tolist()] == list(range(300))
    assert [names[number] for shard in shards for number in shard.rows.tolist()] == names
    assert all(shard.size_bytes <= SMALL.shard_bytes or len(shard.rows) == 1 for shard in shards)


def test_shards_are_half_full_at_the_least_or_nearly() -> None:
    sizes = Counter(len(shard.rows) for shard in planned([row(n) for n in range(2000)], ShardSettings(max_samples=100)))
    assert max(sizes) <= 100 and 2000 / sum(sizes.values()) > 50


def test_a_source_shard_that_fits_is_one_shard() -> None:
    assert len(planned([row(number) for number in range(15)])) == 1


@pytest.mark.parametrize("name", ["fox", "f" * 15, "x" * 64])
def test_a_name_that_is_no_digest_is_refused(name: str) -> None:
    with pytest.raises(ContractBroken, match="not named by a SHA-256"):
        planned([row(1) | {"sample": name}])
