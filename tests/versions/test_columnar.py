"""Selecting, building, verifying and comparing run over whole columns: ten times the samples are no more calls."""

from __future__ import annotations

import sys
from collections import Counter

import pyarrow as pa
import pytest

from mmlake.versions import VersionStore, select
from tests.versions.sample_rows import _SAMPLES, CURATED, catalog_of, of_shards

COMMON = {"recipe": CURATED, "settings_digest": "s", "encoders": {}}


def calls(do) -> tuple[int, object]:
    """(calls of Python functions and of functions in C, what it returned)."""
    counts: Counter[str] = Counter()
    sys.setprofile(lambda frame, event, arg: counts.update([event]))
    try:
        made = do()
    finally:
        sys.setprofile(None)
    return counts["call"] + counts["c_call"], made


def spent(root, count: int) -> dict[str, int]:
    """Calls of each operation on so many samples of one shard, of which the second version lacks the last."""
    rows, samples = of_shards(count)
    catalog, table = catalog_of(rows, samples), pa.Table.from_pylist(samples, schema=_SAMPLES)
    store, found = VersionStore(root), {}
    found["select"], selection = calls(lambda: select(catalog, table, CURATED))
    found["build"], _ = calls(lambda: store.build(selection.samples, excluded=selection.excluded, name="a", **COMMON))
    store.build(selection.samples.slice(0, count - 1), name="b", **COMMON)
    found["verify"], damage = calls(lambda: store.verify("a"))
    found["diff"], diff = calls(lambda: store.diff("a", "b"))
    assert damage == []
    assert diff.summary()["removed"]
    return found


@pytest.fixture(scope="module")
def of_sizes(tmp_path_factory) -> list[dict[str, int]]:
    root = tmp_path_factory.mktemp("versions")
    spent(root / "warm", 30)  # what is imported at the first call
    return [spent(root / str(count), count) for count in (200, 2_000)]


@pytest.mark.parametrize("operation", ["select", "build", "verify", "diff"])
def test_ten_times_the_samples_are_no_more_calls(of_sizes, operation):
    small, large = (one[operation] for one in of_sizes)
    assert large < small + 200
