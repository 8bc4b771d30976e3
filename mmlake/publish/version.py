"""The steps of a version: manifest first, then everything that is made from it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from mmlake.errors import BlobCorrupt, RefMissing
from mmlake.lake import Lake
from mmlake.progress import Advance, silent
from mmlake.publish import version_outputs
from mmlake.publish.catalog import catalog_is_current
from mmlake.publish.publication import is_overtaken, publication, was_at
from mmlake.publish.requests import request_of
from mmlake.publish.results import made_from, read_result
from mmlake.publish.samples import samples_are_current
from mmlake.publish.selected import is_selected_from, selected_from
from mmlake.publish.version_names import branch_of, next_version, slot_of, version_names
from mmlake.recipes import Recipe, find_recipe
from mmlake.tables import Stamp, Stopwatch

_LOG = logging.getLogger("mmlake.steps")


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionStep:
    """One row of the table of version steps."""

    name: str  # of the asset
    stage: str
    description: str
    make: Callable[[Lake, str, Advance], version_outputs.Result]
    inputs: tuple[str, ...] = ("manifest",)
    settings: tuple[str, ...] = ()
    code_version: str = "1"
    kinds: tuple[str, ...] = ("json",)
    gpu: bool = False


VERSION_STEPS: dict[str, VersionStep] = {
    step.name: step
    for step in (
        VersionStep(
            name="manifest",
            stage="versions",
            inputs=("catalog", "samples"),
            make=version_outputs.manifest,
            code_version="3",
            description="The immutable, content-addressed list of the samples that the version holds and of what it "
            "leaves out, with diversity, licences and parents: a draft until its checks have passed.",
        ),
        VersionStep(
            name="diversity",
            stage="evaluate",
            make=version_outputs.diversity,
            description="Cluster histogram, entropy and largest cluster per embedding space, from the manifest.",
        ),
        VersionStep(
            name="training_shards",
            stage="shards",
            make=version_outputs.training_shards,
            code_version="5",
            settings=("shards", "cuts"),
            kinds=("webdataset", "ffmpeg"),
            description="WebDataset tars with index and checksums, films and recordings cut to their spans; versions "
            "share those with equal samples.",
        ),
        VersionStep(
            name="probe_scores",
            stage="evaluate",
            make=version_outputs.probe_scores,
            settings=("evaluate", "embed"),
            gpu=True,
            kinds=("pytorch",),
            description="Recall@k, reciprocal rank and nDCG of the frozen probes on this version.",
        ),
        VersionStep(
            name="decision",
            stage="evaluate",
            inputs=("probe_scores",),
            make=version_outputs.decision,
            settings=("evaluate",),
            code_version="2",
            description="Keep, reject or inconclusive: this version against the one before, or against everything.",
        ),
        VersionStep(
            name="publication",
            stage="versions",
            inputs=("manifest", "training_shards", "decision"),
            make=publication,
            description="The blocking checks of the version: contracts, licence policy, and the decision where the "
            "recipe asks for one. Where all pass its branch moves to it, by compare and swap.",
        ),
        VersionStep(
            name="stage_costs",
            stage="costs",
            make=version_outputs.stage_costs,
            description="Measured seconds and bytes of every stage, and what they would cost.",
        ),
        VersionStep(
            name="precompute_plan",
            stage="costs",
            inputs=("stage_costs",),
            make=version_outputs.precompute_plan,
            description="For each artifact: keep it, or make it again when it is read.",
        ),
        VersionStep(
            name="provenance",
            stage="provenance",
            make=version_outputs.provenance_chain,
            description=(
                "The chain of tables, runs, code and settings behind the version, exported next to its manifest."
            ),
        ),
    )
}


def version_inputs(step: VersionStep, lake: Lake, version: str) -> dict[str, str]:
    """Data version of every input of the step."""
    if step.name == "manifest":
        return selected_from(lake)
    stamps = {name: lake.tables.stamp(slot_of(name, version)) for name in step.inputs}
    return {f"all/{name}": stamp.data_version if stamp else "" for name, stamp in stamps.items()}


def run_version_step(
    step: VersionStep, lake: Lake, version: str, *, advance: Advance = silent, run_id: str = ""
) -> tuple[Stamp, version_outputs.Result]:
    """(stamp, result) of the step for this version, made now."""
    with lake.turn(f"results/{version}/writer"):
        return _made(step, lake, version, advance, run_id)


def _made(
    step: VersionStep, lake: Lake, version: str, advance: Advance, run_id: str
) -> tuple[Stamp, version_outputs.Result]:
    started = Stopwatch()
    inputs = version_inputs(step, lake, version)
    with lake.naming_blobs():  # until the manifest is written, nothing but the catalog names what it will hold
        make = partial(version_outputs.manifest, run_id=run_id) if step.name == "manifest" else step.make
        result = make(lake, version, advance)
    stamp = Stamp(
        data_version=result.data_version,
        schema_version=1,
        num_rows=result.num_rows,
        size_bytes=result.size_bytes,
        code_version=step.code_version,
        settings_digest=lake.settings.digest(step.settings),
        inputs=inputs | result.inputs,
        counts=result.counts,
        run_id=run_id,
        **started.fields(),
    )
    lake.tables.mark(slot_of(step.name, version), stamp)
    _LOG.info(
        "%s[%s]: %d rows in %.2f s",
        step.name,
        version,
        stamp.num_rows,
        stamp.seconds,
        extra={"slot": slot_of(step.name, version)},
    )
    return stamp, result


def version_is_complete(lake: Lake, version: str) -> bool:
    """Whether every step of the version has been made from what the steps before it hold now."""
    for step in VERSION_STEPS.values():
        stamp = lake.tables.stamp(slot_of(step.name, version))
        if stamp is None or stamp.code_version != step.code_version:
            return False
        if step.name != "manifest" and stamp.inputs != version_inputs(step, lake, version):
            return False
    return True


def unfinished_steps(lake: Lake, version: str) -> list[str]:
    """The steps of a version on its branch that were never made, in their order: `publication`, where its writer died
    as the branch had moved, and what follows it. Empty for a draft, which has steps ahead, and for a version of an
    earlier release, which had others. Raises MmlakeError where its refs or results are damaged."""
    names = list(VERSION_STEPS)
    late = names[names.index("publication") :]
    missing = [name for name in late if lake.tables.stamp(slot_of(name, version)) is None]
    # asked first: of versions without end hardly one lacks a step, and what follows reads the log of its branch
    if not missing or not lake.versions.is_tagged(version) or lake.versions.is_draft(version):
        return []
    begun = read_result(lake, version, "manifest")
    if "base" not in begun or not was_at(lake, begun["branch"], lake.versions.resolve(version)):
        return []
    return missing


def needs_version(
    lake: Lake, branch: str, recipe: Recipe | None = None, *, is_current: bool | None = None
) -> tuple[str, bool]:
    """(name, whether it is new): the version of the branch that holds samples and catalog as they are now, by this
    recipe. recipe: the one of the branch's name where None. A draft that cannot be published, because its branch was
    moved meanwhile, is followed by another, and so is a version whose branch was deleted.

    is_current: what `can_be_selected_from` has just said, for who asks for many branches; None asks it."""
    names = version_names(lake, branch)
    if names and is_current is None:
        is_current = can_be_selected_from(lake)
    if names and is_current and not is_overtaken(lake, names[-1]) and not _is_without_branch(lake, names[-1]):
        held, asked = made_from(lake, names[-1]), recipe or find_recipe(lake.root, branch)
        is_same = held is None or is_selected_from(lake, held)
        if is_same and request_of(lake, names[-1]).recipe.digest == asked.digest:
            return names[-1], False
    return next_version(lake, branch), True


def _is_without_branch(lake: Lake, version: str) -> bool:
    """Whether the branch that the version was published on is no more."""
    if not lake.tables.has("publication", "all", version):
        return False
    with suppress(BlobCorrupt):  # damaged is not gone: `fsck` puts it back
        try:
            lake.versions.resolve(branch_of(version))
        except RefMissing:
            return True
    return False


def can_be_selected_from(lake: Lake) -> bool:
    """Whether catalog and samples hold what the stage tables hold now. It inspects the stamp of every table."""
    return catalog_is_current(lake) and samples_are_current(lake)


def publish_version(lake: Lake, version: str, *, advance: Advance = silent) -> dict[str, Any]:
    """Every step of the version in order; step -> stamp."""
    return {step.name: run_version_step(step, lake, version, advance=advance)[0] for step in VERSION_STEPS.values()}
