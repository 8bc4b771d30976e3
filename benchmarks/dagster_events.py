"""What Dagster's events cost: a run over the text shards of a lake whose tables are all up to date, so that little but
events is made. CPU seconds (user + system), median of the rounds.

    python benchmarks/dagster_events.py [num_shards] [rounds] [before]
before: another tree of mmlake, which is the first contestant. Each contestant is a process of its own, in turn, with an
instance of its own. `steps` is the same work without Dagster: the stamps of eight tables compared, and their contracts
checked.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TREE = Path(__file__).parents[1]
MODALITY = "text"


def make_lake(base: Path, num_shards: int) -> None:
    """A lake of text shards of one document each, all of whose tables are made."""
    from mmlake import pipeline
    from mmlake.lake import Lake
    from tests import make

    files = {f"text/n{number:04d}.jsonl": make.jsonl([make.prose(number)]) for number in range(num_shards)}
    with Lake(base / "lake", landing=make.land(base / "landing", files)) as lake:
        pipeline.refresh(lake)
        pipeline.run_tables(lake, modalities=[MODALITY])
        lake.remember_landing()


def contest(base: Path) -> None:
    """Prints the CPU seconds of a run through Dagster, of the same steps alone, and what was stored."""
    import dagster as dg

    from mmlake.steps import ROW_STEPS, recheck, row_steps, run_shards
    from mmlake_assets import definitions, jobs, run
    from mmlake_assets.instance import open_instance
    from mmlake_assets.partitions import SHARD_SETS, row_key
    from mmlake_resources import CudaExecutorResource, LakeResource

    resource = LakeResource(root=str(base / "lake"))
    lake = resource.open()
    keys = lake.registry.keys(MODALITY)
    steps = row_steps(lake.parts.modality(MODALITY))
    started = time.process_time()
    for step in steps:
        assert all(done.reused for _, done in run_shards(step, lake, MODALITY, keys))
        recheck(step, lake, MODALITY, shards=keys)
    alone_s = time.process_time() - started
    with tempfile.TemporaryDirectory() as home, open_instance(Path(home)) as instance:
        instance.add_dynamic_partitions(SHARD_SETS[MODALITY], keys)
        defs = definitions.build(resource, CudaExecutorResource(device="cpu"))
        runner = run._Runner(defs, instance, run.Ran(listing=None))
        ends = {"start": row_key(MODALITY, keys[0]), "end": row_key(MODALITY, keys[-1])}
        tags = {f"dagster/asset_partition_range_{end}": key for end, key in ends.items()}
        runner.run(jobs.ROW_JOBS[MODALITY].name, tags)  # makes the databases, and is not counted
        wall, started = time.perf_counter(), time.process_time()
        runner.run(jobs.ROW_JOBS[MODALITY].name, tags)
        took_s, wall_s = time.process_time() - started, time.perf_counter() - wall
        found = instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=dg.AssetKey([MODALITY, ROW_STEPS["tracks"].name])), limit=10 * len(keys)
        ).records
        per_run = sum(record.run_id == runner._ran.runs[-1] for record in found)
        stored = len(instance.all_logs(runner._ran.runs[-1]))
    figures = {"assets": len(steps), "run": took_s, "wall": wall_s, "steps": alone_s, "events": stored}
    print(json.dumps(figures | {"events of an asset": per_run}))


def measured(tree: Path, base: Path) -> dict[str, float]:
    """What a contestant printed."""
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONWARNINGS": "ignore", "DAGSTER_HOME": ""}
    command = [sys.executable, __file__, "--one", str(base)]
    said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, cwd=tree).stdout
    return json.loads(said.splitlines()[-1])


def main(num_shards: int = 100, rounds: int = 3, before: Path | None = None) -> None:
    trees = {**({"before": before} if before else {}), "now": TREE}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    with tempfile.TemporaryDirectory() as base:
        make_lake(Path(base), num_shards)
        for _ in range(rounds):
            for name, tree in trees.items():
                found[name].append(measured(tree, Path(base)))
    for name, rows in found.items():
        medians = {what: statistics.median(row[what] for row in rows) for what in rows[0]}
        print(f"{name}: {num_shards} partitions, " + ", ".join(f"{what} {value:g}" for what, value in medians.items()))


if __name__ == "__main__":
    sys.path.insert(0, os.environ.get("PYTHONPATH", "").partition(os.pathsep)[0] or str(TREE))
    if sys.argv[1:2] == ["--one"]:
        contest(Path(sys.argv[2]))
    else:
        given = sys.argv[1:]
        main(*(int(one) for one in given[:2]), **({"before": Path(given[2])} if len(given) > 2 else {}))
