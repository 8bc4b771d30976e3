"""Steps over all shards give the same tables, and refuse the same ones, with any memory."""

from __future__ import annotations

import pytest

from mmlake import schemas
from mmlake.border import InProcess
from mmlake.compute import Executor
from mmlake.engine import EngineSettings
from mmlake.errors import ContractBroken
from mmlake.lake import Lake
from mmlake.progress import silent
from mmlake.settings import Settings
from mmlake.steps import CORPUS_STEPS, run_step
from mmlake.steps.step import Job
from mmlake.tables import Slot
from tests import make
from tests.wiring import test_pairs_and_probes_of_spans as spans

MEMORIES_GIB = (1e-9, 2.0)  # a database for every question, and none


def lake_with(tmp_path, memory_gib: float) -> Lake:
    landing = make.land(tmp_path / "landing", {"audio/_keep": b"x"})
    settings = Settings(engine=EngineSettings(memory_gib=memory_gib))
    folder = tmp_path / f"lake {memory_gib}"
    lake = Lake(folder, landing=landing, settings=settings, executor=Executor("cpu"), runner=InProcess())
    spans.land(lake)
    spans.near(lake, (spans.TWO, spans.ONE))
    spans.vectors(lake, one=0.0, two=0.0, other=0.0)
    return lake


def test_corpus_steps_make_the_same_tables_with_any_memory(tmp_path):
    found = []
    for memory_gib in MEMORIES_GIB:
        lake = lake_with(tmp_path, memory_gib)
        for name in ("semantic_duplicates", "duplicate_clusters"):
            run_step(CORPUS_STEPS[name], lake, "audio")
            found.append(lake.tables.read(Slot(name, "audio")))
        assert not list((lake.root / "scratch").glob("*"))
    assert found[0].equals(found[2]) and found[1].equals(found[3])
    assert [table.num_rows for table in found[:2]] == [1, 3]


@pytest.mark.parametrize("memory_gib", MEMORIES_GIB)
def test_a_pair_of_an_unknown_digest_is_refused(tmp_path, memory_gib):
    lake = lake_with(tmp_path, memory_gib)
    job = Job(lake=lake, modality="audio", shard="all", advance=silent, runner=lake.runner)
    row = {"tier": "semantic", "method": "x", "score": 0.9, "bound": 0.8, "relation": "same", "left": spans.ONE}
    check = CORPUS_STEPS["semantic_duplicates"].check
    assert check(job, schemas.from_rows(schemas.PAIRS, [row | {"right": spans.TWO}])) == 2
    with pytest.raises(ContractBroken, match=r"audio: pairs of embeddings: 1 rows name digests .*'eeee"):
        check(job, schemas.from_rows(schemas.PAIRS, [row | {"right": "e" * 64}]))


@pytest.mark.parametrize("memory_gib", MEMORIES_GIB)
def test_clusters_that_lost_a_unit_are_refused(tmp_path, memory_gib):
    lake = lake_with(tmp_path, memory_gib)
    for name in ("semantic_duplicates", "duplicate_clusters"):
        run_step(CORPUS_STEPS[name], lake, "audio")
    clusters = lake.tables.read(Slot("duplicate_clusters", "audio"))
    job = Job(lake=lake, modality="audio", shard="all", advance=silent, runner=lake.runner)
    check = CORPUS_STEPS["duplicate_clusters"].check
    assert check(job, clusters) == 3
    with pytest.raises(ContractBroken, match="1 were lost"):
        check(job, clusters[:2])
