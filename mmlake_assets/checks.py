"""Checks on the graph: one blocking contract per border, one check per quality rule.

`run_step` has already refused a table that breaks its contract before it was stamped; these read what is on disk now,
so that they also notice what happened to it afterwards.
"""

from collections.abc import Callable, Iterator

import dagster as dg

from mmlake import quality
from mmlake.errors import MmlakeError
from mmlake.lake import Lake
from mmlake.modalities import MODALITIES, Modality
from mmlake.parts import Parts
from mmlake.publish import (
    check_clock,
    losses_of,
    recheck_catalog,
    recheck_dead_letters,
    recheck_manifest,
    recheck_samples,
    recheck_shards,
    version_names,
)
from mmlake.steps import Step, corpus_steps, recheck, row_steps
from mmlake_assets.partitions import shard_of
from mmlake_resources import LakeResource

# of a modality's units, where the settings name no bound: then inspect the rules or the source, one of them is wrong
BOUND = 0.5
QUARANTINED = "quarantined"
CATALOG_CONTRACT = "One row per distinct digest of the modality's items, each as it was written."
DEAD_LETTERS_CONTRACT = "One letter per row that could not be read, and no other."


def contract_check(step: Step, modality: str) -> dg.AssetChecksDefinition:
    """The blocking check that the step's table has every row that went in, once, under its schema."""

    @dg.asset_check(
        asset=dg.AssetKey([modality, step.name]),
        name="contract",
        blocking=True,
        description="Every row that went in came out once, and the table hashes to its stamp.",
    )
    def _contract(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> dg.AssetCheckResult:
        try:
            tables, rows = recheck(step, lake.open(), modality, shards=run_shards(context))
        except MmlakeError as error:
            return dg.AssetCheckResult(passed=False, description=str(error))
        return dg.AssetCheckResult(passed=True, metadata={"tables": tables, "rows_accounted": rows})

    return _contract


def rule_checks(row: Modality, bounds: quality.CheckSettings) -> dg.AssetChecksDefinition:
    """One check per quality rule, a plugin's included, and one for what all of them keep out of versions: too large a
    share of the modality's units. A bound of the settings is an error, half is a warning for a rule without one."""
    modality, rules = row.name, row.rules
    asset, most = dg.AssetKey([modality, "verdicts"]), bounds.quarantined.get(row.name, BOUND)
    specs = [dg.AssetCheckSpec(rule.name, asset=asset, description=rule.what) for rule in rules]
    what = f"No more than {most:g} of the {modality} units are kept out of versions by their verdicts."
    specs.append(dg.AssetCheckSpec(QUARANTINED, asset=asset, description=what))

    @dg.multi_asset_check(name=f"{modality}_rules", specs=specs)
    def _rules(lake: LakeResource) -> Iterator[dg.AssetCheckResult]:
        verdicts = lake.open().tables.concat("verdicts", modality, columns=["digest", "status", "findings"])
        broken, total = quality.tally(verdicts)
        for rule in rules:
            yield _share(rule.name, broken.get(rule.name, 0), total, bounds.broken.get(rule.name))
        yield _share(QUARANTINED, *quality.count_quarantined(verdicts), most)

    return _rules


def _share(name: str, num: int, total: int, most: float | None) -> dg.AssetCheckResult:
    """Whether the share is within the bound; above one that nobody set is a warning."""
    fraction, bound = num / max(total, 1), BOUND if most is None else most
    return dg.AssetCheckResult(
        check_name=name,
        passed=fraction <= bound,
        severity=dg.AssetCheckSeverity.WARN if most is None else dg.AssetCheckSeverity.ERROR,
        metadata={"items_broken": num, "items": total, "fraction": fraction, "bound": bound},
    )


@dg.asset_check(
    asset="manifest",
    name="dropped",
    description="No modality has many fewer samples than in the version before ([checks] dropped in the settings).",
)
def dropped(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> dg.AssetCheckResult:
    """A warning that names the modality that lost the largest share."""
    opened, execution = lake.open(), context.op_execution_context
    names = [execution.partition_key] if execution.has_partition_key else version_names(opened)
    losses = [(loss, name, modality) for name in names for modality, loss in losses_of(opened, name).items()]
    worst, name, modality = max(losses, default=(0.0, "", ""))
    return dg.AssetCheckResult(
        passed=worst <= opened.settings.checks.dropped,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{name} has {worst:.1%} fewer samples of {modality} than the version before." if worst else None,
        metadata={"fraction": worst, "bound": opened.settings.checks.dropped},
    )


@dg.asset_check(
    asset="training_shards",
    name="clock",
    description="Sound and frames of some clips and segments are those of their items at the times that they claim.",
)
def shard_clock(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> dg.AssetCheckResult:
    """An error that names the step which shifted a cut, and how that grows from cut to cut."""
    opened, execution = lake.open(), context.op_execution_context
    names = [execution.partition_key] if execution.has_partition_key else version_names(opened)
    try:
        found = [check_clock(opened, name) for name in names]
    except MmlakeError as error:
        return dg.AssetCheckResult(passed=False, description=str(error))
    problems = [problem for one in found for problem in one.problems]
    worst_s = max((one.worst_s or 0.0 for one in found), default=0.0)
    metadata = {"cuts": sum(one.num_cuts for one in found), "largest_lag_s": worst_s}
    return dg.AssetCheckResult(passed=not problems, description="; ".join(problems) or None, metadata=metadata)


@dg.asset_check(
    asset="samples",
    name="contract",
    blocking=True,
    description="Every item of every shard is in one sample, once.",
)
def samples_contract(lake: LakeResource) -> dg.AssetCheckResult:
    """Items in, parts out."""
    return _result(lambda: recheck_samples(lake.open()))


def lane_contract(
    name: str, modality: str, recheck_part: Callable[[Lake, str], int], description: str
) -> dg.AssetChecksDefinition:
    """The blocking check of the modality's part of what is kept over all of them."""

    @dg.asset_check(asset=dg.AssetKey([modality, name]), name="contract", blocking=True, description=description)
    def _contract(lake: LakeResource) -> dg.AssetCheckResult:
        return _result(lambda: recheck_part(lake.open(), modality))

    return _contract


def version_contract(
    asset: str, recheck_version: Callable[[Lake, str], int], description: str
) -> dg.AssetChecksDefinition:
    """The blocking check of a version asset, on the version that the run is about."""

    @dg.asset_check(asset=asset, name="contract", blocking=True, description=description)
    def _contract(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> dg.AssetCheckResult:
        opened, execution = lake.open(), context.op_execution_context
        names = [execution.partition_key] if execution.has_partition_key else version_names(opened)
        return _result(lambda: sum(recheck_version(opened, name) for name in names))

    return _contract


def _result(count: Callable[[], int]) -> dg.AssetCheckResult:
    try:
        return dg.AssetCheckResult(passed=True, metadata={"rows_accounted": count()})
    except MmlakeError as error:
        return dg.AssetCheckResult(passed=False, description=str(error))


def run_shards(context: dg.AssetCheckExecutionContext) -> list[str] | None:
    """The shards that the run is about; None where it names none, which means all of them."""
    execution = context.op_execution_context
    if not execution.has_partition_key and not execution.has_partition_key_range:
        return None
    keys = [shard_of(key) for key in execution.partition_keys]
    return [key for key in keys if key] or None


def checks(parts: Parts, bounds: quality.CheckSettings) -> list[dg.AssetChecksDefinition]:
    """Every check of a lake with these tables of parts. Raises SettingsError for a bound on what does not exist."""
    rules = {rule.name for modality in MODALITIES for rule in parts.modality(modality).rules}
    bounds.check_names(MODALITIES, rules)
    return [
        *(
            contract_check(step, modality)
            for modality in MODALITIES
            for step in (*row_steps(MODALITIES[modality]), *corpus_steps(MODALITIES[modality]))
        ),
        *(rule_checks(parts.modality(modality), bounds) for modality in MODALITIES),
        samples_contract,
        *(
            check
            for modality in MODALITIES
            for check in (
                lane_contract("catalog", modality, recheck_catalog, CATALOG_CONTRACT),
                lane_contract("dead_letters", modality, recheck_dead_letters, DEAD_LETTERS_CONTRACT),
            )
        ),
        dropped,
        shard_clock,
        version_contract("manifest", recheck_manifest, "Manifest and segments hash to their names, and totals add up."),
        version_contract(
            "training_shards", recheck_shards, "Every item of the manifest is in the shards, and every byte hashes."
        ),
    ]
