"""One factory for row assets and one for corpus assets; every stage file calls them with its steps.

A row asset's run covers a range of partitions. `materialize_rows` makes them, several at once where workers decode,
and stores one exact event each.
Where some partitions fail for a reason outside the data (a full disk, a lost landing zone), the good ones are logged
and the run fails for the others; damaged data never fails a run, it is rows.
"""

from collections.abc import Callable, Iterator, Mapping

import dagster as dg

from mmlake.errors import MmlakeError
from mmlake.lake import Lake
from mmlake.modalities import MODALITIES
from mmlake.publish import VersionStep, branch_of, run_version_step
from mmlake.steps import Made, Step, input_slot, run_shards, run_step
from mmlake.tables import Stamp
from mmlake_assets import events, page
from mmlake_assets.partitions import ALL_SHARDS, CORPUS, EVERYTHING, RANGE_SHARDS, ROWS, VERSIONS, shard_of
from mmlake_assets.publish_config import MANIFEST_CONFIG, ask_as_configured
from mmlake_assets.variables import whole_number
from mmlake_assets.version_columns import VERSION_COLUMNS
from mmlake_resources import CudaExecutorResource, LakeResource

# per run: one run per shard costs seconds of start-up each, and a run writes a planned event per asset and partition
BACKFILL_SHARDS = whole_number("MMLAKE_BACKFILL_SHARDS", 100)
# another number puts GPU assets into runs of their own, so that CPU stages do not wait for a GPU slot
GPU_BACKFILL_SHARDS = RANGE_SHARDS
GPU_POOL = "gpu"
EXIT_CODE = "exit code"  # metadata of a failed run: what a command that waits for it shall end with
OWNERS = ["team:data-engineering"]
# A group is a box of the drawn graph, and a node shows the last part of its key alone: by stage, a box held four nodes
# of each name. By modality it holds one lane, from items to clusters; the stage is a tag to search and select by.
LAKE_GROUP, VERSIONS_GROUP = "lake", "versions"
MODALITY_TAG, STAGE_TAG = "mmlake/modality", "mmlake/stage"

# What becomes missing is asked for, which a partition that was registered before the sensor's first scan never
# does: then, being missing is enough.
_LEFT_BEHIND = (
    dg.AutomationCondition.initial_evaluation()
    & dg.AutomationCondition.missing()
    & ~dg.AutomationCondition.any_deps_missing()
    & ~dg.AutomationCondition.in_progress()
)
# As eager(), but for two things. It asks again after every event of an input, and what was found unchanged has one too:
# here the data version counts. And it forgets that an input changed when the asset is updated, or was asked for in the
# last tick, though that run had begun before: here only a request that came after the change settles it.
_CHANGED = dg.AutomationCondition.any_deps_match(
    (dg.AutomationCondition.data_version_changed() & ~dg.AutomationCondition.executed_with_root_target())
    | dg.AutomationCondition.will_be_requested()
)
_ASKED = dg.AutomationCondition.newly_requested() | dg.AutomationCondition.initial_evaluation()
_DUE = (
    (dg.AutomationCondition.newly_missing().since_last_handled() | _CHANGED.since(_ASKED & ~_CHANGED))
    & ~dg.AutomationCondition.any_deps_missing()
    & ~dg.AutomationCondition.any_deps_in_progress()
    & ~dg.AutomationCondition.in_progress()
)
AUTOMATION = (_DUE | _LEFT_BEHIND).with_label("missing, or made from data that changed")


def input_key(name: str, modality: str) -> dg.AssetKey:
    """The asset of a step's input: of the modality, or of the one that `MODALITY/TABLE` names."""
    slot = input_slot(name, modality, "")
    return dg.AssetKey([slot.modality, slot.table])


def row_asset(step: Step, modality: str) -> dg.AssetsDefinition:
    """The asset `[modality, step]`, one partition per shard.

    An input of another modality is no edge of the graph: its partition need not exist for this shard, and a backfill
    with a parent that does not exist fails with all of its assets. The stamp names its data version all the same, so
    each run sees whether it changed.
    """

    @dg.asset(
        **_common(step, modality),
        partitions_def=ROWS[modality],
        deps=[input_key(name, modality) for name in step.inputs_of(MODALITIES[modality]) if "/" not in name],
        backfill_policy=dg.BackfillPolicy.multi_run(GPU_BACKFILL_SHARDS if step.gpu else BACKFILL_SHARDS),
    )
    def _row(
        context: dg.AssetExecutionContext, lake: LakeResource, compute: CudaExecutorResource
    ) -> Iterator[dg.MaterializeResult | dg.DagsterEvent]:
        yield from materialize_rows(context, step, modality, lake.open(compute.executor))

    return _row


def corpus_asset(step: Step, modality: str) -> dg.AssetsDefinition:
    """The asset `[modality, step]` over all shards of the modality."""

    @dg.asset(
        **_common(step, modality),
        partitions_def=CORPUS[modality],
        deps=[
            *(
                dg.AssetDep(input_key(name, modality), partition_mapping=EVERYTHING if "/" in name else ALL_SHARDS)
                for name in step.inputs_of(MODALITIES[modality])
            ),
            *(dg.AssetKey([modality, name]) for name in step.corpus_inputs),
        ],
    )
    def _corpus(
        context: dg.AssetExecutionContext, lake: LakeResource, compute: CudaExecutorResource
    ) -> dg.MaterializeResult:
        opened = lake.open(compute.executor)
        made = run_step(step, opened, modality, run_id=context.run.run_id)
        context.log.info(page.line(made))
        return dg.MaterializeResult(
            metadata=page.corpus_metadata(step, made, opened), data_version=dg.DataVersion(made.stamp.data_version)
        )

    return _corpus


def lane_asset(
    name: str,
    modality: str,
    update: Callable[..., Mapping[str, Stamp]],
    *,
    stage: str,
    rows: tuple[str, ...],
    corpus: tuple[str, ...] = (),
    description: str,
    kinds: tuple[str, ...],
    code_version: str,
    columns: dg.TableSchema,
    pool: str | None = None,
) -> dg.AssetsDefinition:
    """The asset `[modality, name]`, the modality's part of what is kept over all of them, at the end of its lane.

    update: called with the lake and the modality, gives the stamp of its part. rows, corpus: the tables of the modality
    that it reads, of all shards and over them.
    """

    @dg.asset(
        key=[modality, name],
        group_name=modality,
        tags={MODALITY_TAG: modality, STAGE_TAG: stage},
        partitions_def=CORPUS[modality],
        deps=[
            *(dg.AssetDep(dg.AssetKey([modality, table]), partition_mapping=ALL_SHARDS) for table in rows),
            *(dg.AssetKey([modality, table]) for table in corpus),
        ],
        description=description,
        kinds={"python", *kinds},
        owners=OWNERS,
        code_version=code_version,
        metadata={"dagster/column_schema": columns},
        automation_condition=AUTOMATION,
        pool=pool,
    )
    def _lane(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult:
        stamp = update(lake.open(), modality, run_id=context.run.run_id)[modality]
        measured = {"dagster/row_count": stamp.num_rows, "seconds": stamp.seconds, "bytes": stamp.size_bytes}
        return dg.MaterializeResult(
            metadata={**measured, **stamp.counts}, data_version=dg.DataVersion(stamp.data_version)
        )

    return _lane


def materialize_rows(
    context: dg.AssetExecutionContext, step: Step, modality: str, lake: Lake
) -> Iterator[dg.MaterializeResult | dg.DagsterEvent]:
    """Make every partition of the run and store one event for each, a batch at a time: what was made before the body
    raises is on record."""
    failed: dict[str, str] = {}
    exit_codes: set[int] = set()
    partitions = {shard_of(partition): partition for partition in context.partition_keys}
    upstream = {name: input_key(name, modality) for name in step.inputs_of(MODALITIES[modality]) if "/" not in name}
    pointers = events.pointers_for(context.instance, upstream.values(), list(partitions.values()))
    ready: dict[str, Made] = {}

    def stored(*, is_last: bool) -> list[dg.DagsterEvent]:
        made, total = dict(ready), page.num_rows(step, modality, lake) if is_last and ready else None
        ready.clear()
        if made:
            context.log.info("\n".join(page.line(result) for result in made.values()))
        return events.store(
            context,
            [
                events.materialization(
                    context.asset_key,
                    partition,
                    stamp=result.stamp,
                    metadata=page.row_metadata(result, num_rows=total) | page.usable_metadata(result, lake),
                    inputs={key: result.inputs[f"{modality}/{name}"] for name, key in upstream.items()},
                    pointers=pointers[partition],
                )
                for partition, result in made.items()
            ],
        )

    try:
        for shard, done in run_shards(step, lake, modality, list(partitions), run_id=context.run.run_id):
            if len(ready) == events.BATCH:
                yield from stored(is_last=False)
            if isinstance(done, Made):
                ready[partitions[shard]] = done
                continue
            failed[partitions[shard]] = str(done) if isinstance(done, MmlakeError) else f"{type(done).__name__}: {done}"
            exit_codes.add(done.exit_code if isinstance(done, MmlakeError) else MmlakeError.exit_code)
    finally:
        last = stored(is_last=True)
    yield from last
    if failed:
        first, cause = next(iter(failed.items()))
        raise dg.Failure(
            f"{len(failed)} of {len(partitions)} partitions failed, the others are done; {first}: "
            f"{cause}. Re-run with the same range after the cause is repaired",
            metadata=failed | {EXIT_CODE: exit_codes.pop() if len(exit_codes) == 1 else MmlakeError.exit_code},
        )
    yield events.result_without_event()


def _common(step: Step, modality: str) -> dict:
    return {
        "key": dg.AssetKey([modality, step.name]),
        "group_name": modality,
        "description": step.description,
        "kinds": {"python", *step.kinds},
        "owners": OWNERS,
        "code_version": step.code_version,
        "tags": {MODALITY_TAG: modality, STAGE_TAG: step.stage},
        "metadata": {
            "dagster/column_schema": page.column_schema(step.schema),
            "unit": step.unit,
            "schema_version": step.schema.version,
        },
        "automation_condition": AUTOMATION,
        "pool": GPU_POOL if step.gpu else None,
    }


def _version_inputs(name: str) -> list[dg.AssetDep]:
    """The assets that an input of a version step means: the catalog is one of each modality."""
    if name != "catalog":
        return [dg.AssetDep(dg.AssetKey([name]))]
    return [dg.AssetDep(dg.AssetKey([modality, name]), partition_mapping=EVERYTHING) for modality in MODALITIES]


def version_asset(step: VersionStep) -> dg.AssetsDefinition:
    """The asset of a version step, one partition per version. No automation: an old version never goes stale by
    itself."""

    @dg.asset(
        key=step.name,
        group_name=VERSIONS_GROUP,
        description=step.description,
        kinds={"python", *step.kinds},
        owners=OWNERS,
        code_version=step.code_version,
        tags={STAGE_TAG: step.stage},
        metadata={"dagster/column_schema": dg.TableSchema(columns=VERSION_COLUMNS[step.name])},
        config_schema=MANIFEST_CONFIG if step.name == "manifest" else None,
        pool=GPU_POOL if step.gpu else None,
        partitions_def=VERSIONS,
        deps=[dep for name in step.inputs for dep in _version_inputs(name)],
    )
    def _version(
        context: dg.AssetExecutionContext, lake: LakeResource, compute: CudaExecutorResource
    ) -> dg.MaterializeResult:
        opened = lake.open(compute.executor)
        branch_of(context.partition_key)  # raises where a partition that somebody added names no version, but a path
        if step.name == "manifest":
            ask_as_configured(opened, context.partition_key, context.op_execution_context.op_config)
        stamp, result = run_version_step(step, opened, context.partition_key, run_id=context.run.run_id)
        context.log.info(f"{step.name}[{context.partition_key}]: {stamp.num_rows} rows in {stamp.seconds:.2f} s")
        return dg.MaterializeResult(
            metadata=page.version_metadata(stamp, result.document), data_version=dg.DataVersion(stamp.data_version)
        )

    return _version
