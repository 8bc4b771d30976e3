"""Checks on the graph: one blocking contract per border, one warning per quality rule.

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
    recheck_catalog,
    recheck_dead_letters,
    recheck_manifest,
    recheck_samples,
    recheck_shards,
    version_names,
)
from mmlake.steps import CORPUS_STEPS, Step, recheck, row_steps
from mmlake_assets.partitions import shard_of
from mmlake_resources import LakeResource

# of a modality's items breaking one rule: then inspect the rule or the source, one of them is wrong
WARN_FRACTION = 0.5


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


def rule_checks(row: Modality) -> dg.AssetChecksDefinition:
    """One warning per quality rule, a plugin's included: too large a share of the modality's items breaks it."""
    modality, rules = row.name, row.rules
    specs = [
        dg.AssetCheckSpec(rule.name, asset=dg.AssetKey([modality, "verdicts"]), description=rule.what) for rule in rules
    ]

    @dg.multi_asset_check(name=f"{modality}_rules", specs=specs)
    def _rules(lake: LakeResource) -> Iterator[dg.AssetCheckResult]:
        broken, total = quality.tally(lake.open().tables.concat("verdicts", modality, columns=["digest", "findings"]))
        for rule in rules:
            fraction = broken.get(rule.name, 0) / max(total, 1)
            metadata = {"items_broken": broken.get(rule.name, 0), "items": total, "fraction": fraction}
            yield dg.AssetCheckResult(
                check_name=rule.name,
                passed=fraction <= WARN_FRACTION,
                severity=dg.AssetCheckSeverity.WARN,
                metadata=metadata,
            )

    return _rules


@dg.asset_check(
    asset="samples",
    name="contract",
    blocking=True,
    description="Every item of every shard is in one sample, once.",
)
def samples_contract(lake: LakeResource) -> dg.AssetCheckResult:
    """Items in, parts out."""
    return _result(lambda: recheck_samples(lake.open()))


@dg.asset_check(
    asset="catalog",
    name="contract",
    blocking=True,
    description="One row per distinct digest of all items, each as it was written.",
)
def catalog_contract(lake: LakeResource) -> dg.AssetCheckResult:
    """Items in, rows out."""
    return _result(lambda: recheck_catalog(lake.open()))


@dg.asset_check(
    asset="dead_letters",
    name="contract",
    blocking=True,
    description="One letter per row that could not be read, and no other.",
)
def dead_letters_contract(lake: LakeResource) -> dg.AssetCheckResult:
    """Failures in, dead letters out."""
    return _result(lambda: recheck_dead_letters(lake.open()))


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


def checks(parts: Parts) -> list[dg.AssetChecksDefinition]:
    """Every check of a lake with these tables of parts."""
    return [
        *(
            contract_check(step, modality)
            for modality in MODALITIES
            for step in (*row_steps(MODALITIES[modality]), *CORPUS_STEPS.values())
        ),
        *(rule_checks(parts.modality(modality)) for modality in MODALITIES),
        samples_contract,
        catalog_contract,
        dead_letters_contract,
        version_contract("manifest", recheck_manifest, "Manifest and segments hash to their names, and totals add up."),
        version_contract(
            "training_shards", recheck_shards, "Every item of the manifest is in the shards, and every byte hashes."
        ),
    ]
