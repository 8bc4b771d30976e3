"""A Ray cluster answers what this machine answers, to the last row. The cluster is of this machine, begun and ended
here; where the extra `ray` is absent there is none, and only its error is tested."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from mmlake import dedup
from mmlake.dedup.print_columns import by_digest
from mmlake.dedup.text import fingerprints
from mmlake.engine import Engine, EngineSettings
from mmlake.errors import MissingExtra, SettingsError
from tests import make

HAS_RAY = all(importlib.util.find_spec(library) for library in ("ray", "daft"))


def with_ray(test):
    """Where the extra is there; both libraries warn of what is their own."""
    for mark in (pytest.mark.slow, pytest.mark.filterwarnings("ignore")):
        test = mark(test)
    return pytest.mark.skipif(not HAS_RAY, reason="the extra ray (ray, daft) is not installed")(test)


@pytest.fixture(scope="module")
def address():
    """Of a cluster with two processors, as other machines name it: Ray refuses to be joined by 127.0.0.1."""
    import ray

    ray.init(num_cpus=2, object_store_memory=600 << 20, include_dashboard=False, log_to_driver=False)
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


@pytest.fixture
def engines(tmp_path, address):
    """(of this machine, of the cluster)."""
    on_ray = EngineSettings(runner="ray", cluster=address, cluster_folder=str(tmp_path / "both"))
    return Engine(tmp_path / "local"), Engine(tmp_path / "local", on_ray)


def keys(seed: int, num: int = 5_000) -> list[pa.Table]:
    """Some keys several times, one of them not ASCII, in three parts of which one is empty."""
    rng = np.random.default_rng(seed)
    names = pa.array([f"{at:04x}" if at else "\u00e9" for at in rng.integers(0, 4_000, num)])
    values = pa.array(rng.integers(-99, 99, num), pa.int32())
    table = pa.table({"key": names, "value": values})
    return [table[:1_000], table[:0], table[1_000:]]


def prints(num: int = 300) -> list[pa.Table]:
    """Fingerprints of texts, a third of them with one word replaced, in parts; some rows twice."""
    pages = [make.prose(at) for at in range(num)]
    pages += [page.replace(page.split()[7], "changed") for page in pages[: num // 3]]
    rows = [
        {"digest": f"{at * 7919 % 10_007:064x}", "method": method, "hashes": hashes, "status": "ok"}
        for at, one in enumerate(fingerprints.prints(pages))
        for method, hashes in one._asdict().items()
    ]
    schema = pa.schema(
        [("digest", pa.string()), ("method", pa.string()), ("hashes", pa.list_(pa.uint64())), ("status", pa.string())]
    )
    return [pa.Table.from_pylist(part, schema) for part in (rows[:100], rows[50:400], rows[400:])]


@with_ray
def test_keys_are_joined_grouped_and_subtracted_as_here(engines):
    here, there = (engine.relations for engine in engines)
    ours, others = ([part.select(["key"]) for part in keys(seed)] for seed in (1, 2))
    for question in ("distinct", "strangers"):
        found = getattr(there, question)(ours, others)
        assert len(found)
        assert found.to_pylist() == getattr(here, question)(ours, others).to_pylist()
    assert there.least_and_count(keys(1)).equals(here.least_and_count(keys(1)))


@with_ray
def test_nothing_has_no_keys_there_either(engines):
    asked = engines[1].relations
    assert asked.distinct([], [part.select(["key"]) for part in keys(1)]).to_pylist() == []
    assert asked.strangers([pa.table({"x": ["a"]})], []).to_pylist() == ["a"]


@with_ray
def test_rows_come_sorted_and_kernels_see_whole_groups(engines):
    sides = [pa.concat_tables(engine.sorted_rows(prints(), ("digest", "method"))) for engine in engines]
    assert sides[0].num_rows == 800
    assert sides[1].combine_chunks().equals(sides[0].combine_chunks())
    kernel = partial(by_digest, methods=("shingles", "words"))  # a row per digest, where all rows of it came together
    made = [pa.concat_tables(engine.grouped(prints(), ("digest", "method"), kernel)) for engine in engines]
    assert made[1].num_rows == 400
    assert made[1].combine_chunks().equals(made[0].combine_chunks())


@with_ray
def test_a_near_join_on_a_cluster_finds_the_same_pairs(engines):
    here, there = (
        dedup.near_pairs(prints(), dedup.tiers_of("text"), settings=dedup.DedupSettings(), engine=engine)
        for engine in engines
    )
    assert "same" in here["relation"].to_pylist()
    assert there.equals(here)


JOINED = """
import sys, pyarrow as pa
from mmlake.engine import Engine, EngineSettings
engine = Engine(None, EngineSettings(runner="ray", cluster=sys.argv[1], cluster_folder=sys.argv[2]))
found = engine.relations.distinct([pa.table({"x": ["b", "a", "b"]})], [pa.table({"x": ["b", "c"]})])
import ray
print(found.to_pylist(), ray.get_runtime_context().gcs_address)
"""


@with_ray
def test_another_process_joins_a_cluster_by_its_address(address, tmp_path):
    found = subprocess.run(
        [sys.executable, "-c", JOINED, address, str(tmp_path)], capture_output=True, text=True, timeout=300, check=True
    )
    assert found.stdout.splitlines()[-1] == f"['b'] {address}"


@pytest.mark.skipif(HAS_RAY, reason="the extra ray is installed")
def test_without_the_extra_the_error_names_it(tmp_path):
    engine = Engine(tmp_path, EngineSettings(runner="ray"))
    with pytest.raises(MissingExtra, match=r"pip install 'mmlake\[ray\]'"):
        engine.relations.distinct([pa.table({"x": ["a"]})], [pa.table({"x": ["a"]})])


@pytest.mark.parametrize(
    ("given", "says"), [({"runner": "spark"}, "expected one of local, ray"), ({"cluster": "a:1"}, 'set runner = "ray"')]
)
def test_settings_of_no_runner_are_refused(given, says):
    with pytest.raises(SettingsError, match=says):
        EngineSettings(**given)
