"""A whole run through Dagster, in this process: register, materialize what is stale, publish a version.

Row partitions are run in contiguous ranges as a backfill would, so the events and the history are those of the UI's own
backfills.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import dagster as dg

from mmlake import errors
from mmlake.errors import MmlakeError, SettingsError
from mmlake.lake import Lake
from mmlake.modalities import MODALITIES
from mmlake.pipeline import refresh, stale_corpus, stale_shards
from mmlake.progress import Advance, silent
from mmlake.publish import (
    VERSION_STEPS,
    Request,
    all_wanted,
    ask_for,
    can_be_selected_from,
    catalog_is_current,
    dead_letters_are_current,
    drop_damaged_catalog,
    needs_version,
    samples_are_current,
    unfinished_steps,
    version_is_complete,
    version_names,
)
from mmlake.registry import Listing
from mmlake.remote import open_files
from mmlake.steps import corpus_steps, row_steps
from mmlake_assets import asset_graph, jobs
from mmlake_assets.factory import EXIT_CODE
from mmlake_assets.partitions import SHARD_SETS, VERSION_SET, range_tags, ranges
from mmlake_resources import CudaExecutorResource, LakeResource

Phase = Callable[[str, int], None]  # called with the name of what begins and how many tables it will make

# whether each table over all modalities is up to date
_OF_ALL = (samples_are_current, catalog_is_current, dead_letters_are_current)
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(kw_only=True)
class Ran:
    """What a run did."""

    listing: Listing
    runs: list[str] = field(default_factory=list)  # ids of the Dagster runs
    versions: dict[str, str] = field(default_factory=dict)  # branch -> name of the version that it now is at
    made: list[str] = field(default_factory=list)  # versions that are new


def run_lake(
    lake: LakeResource,
    compute: CudaExecutorResource,
    instance: dg.DagsterInstance,
    *,
    recipes: Sequence[str | Request],
    phase: Phase,
    scanned: Advance = silent,
    before_versions: Callable[[Lake], None] | None = None,
) -> Ran:
    """Bring every table, the catalog and the newest version of each recipe up to date. Does nothing where nothing
    changed.

    scanned: called as files of the landing zone are opened to see what they are.
    before_versions: called with the lake once its catalog is up to date, before the first version is made.
    """
    open_files.ensure(os.cpu_count() or 1)
    opened = lake.open(compute.executor)
    with opened.locked("run"):
        drop_damaged_catalog(opened)
        asked = list(all_wanted(opened, recipes))
        ran = Ran(listing=refresh(opened, advance=scanned))
        if not opened.registry.known() and not opened.tables.root.exists():
            _refuse_failures(ran.listing)
            raise SettingsError(
                f"landing zone {opened.landing.location} holds nothing to ingest; put files, tars, Parquet or "
                "JSONL there, or name another directory with --landing"
            )
        opened.remember_landing()
        runner = _Runner(asset_graph.build(lake, compute), instance, ran)
        for modality in MODALITIES:
            _register(instance, opened, modality)
            # the order of arrival, in which a range run counts
            order = instance.get_dynamic_partitions(SHARD_SETS[modality])
            for first, last, count in ranges(order, set(stale_shards(opened, modality)) - ran.listing.unseen):
                phase(f"{modality}: shards", count * len(row_steps(MODALITIES[modality])))
                runner.run(
                    jobs.ROW_JOBS[modality].name,
                    {
                        **range_tags(modality, first, last),
                        "mmlake/modality": modality,
                    },
                )
        for modality in MODALITIES:  # behind all rows: pictures are compared with the keyframes of films
            if not ran.listing.failures and stale_corpus(opened, modality):
                phase(f"{modality}: duplicates", len(corpus_steps(MODALITIES[modality])))
                runner.run(jobs.CORPUS_JOBS[modality].name, {"mmlake/modality": modality}, partition=modality)
        _refuse_failures(ran.listing)
        _update_all(opened, runner, phase)
        if before_versions is not None:
            before_versions(opened)
        _publish_all(opened, asked, runner, phase)
        _finish(opened, runner, phase)
    return ran


def _publish_all(lake: Lake, asked: Sequence[Request], runner: "_Runner", phase: Phase) -> None:
    """Make the versions that are lacking. Whether the catalog is up to date is asked again where one was made, which
    takes long enough for others to make tables."""
    is_current = can_be_selected_from(lake)
    for request in asked:
        num_made = len(runner.ran.made)
        _publish(lake, request, runner, phase, is_current=is_current)
        if len(runner.ran.made) > num_made:
            is_current = can_be_selected_from(lake)


def _finish(lake: Lake, runner: "_Runner", phase: Phase) -> None:
    """Make what published versions lack, of which the writer died. A version whose results are damaged is left to
    `fsck`."""
    for name in version_names(lake):
        missing: list[str] = []
        with suppress(MmlakeError):
            missing = unfinished_steps(lake, name)
        if missing:
            phase(f"version {name}", len(missing))
            runner.instance.add_dynamic_partitions(VERSION_SET, [name])  # its history may be lost
            runner.run(jobs.VERSION_JOB.name, {}, partition=name, assets=missing)


def _update_all(lake: Lake, runner: "_Runner", phase: Phase) -> None:
    """Samples, and catalog and dead letters of each modality whose tables changed."""
    if not samples_are_current(lake):
        phase("samples", 1)
        runner.run(jobs.SAMPLES_JOB.name, {})
    for modality in MODALITIES:
        if not (catalog_is_current(lake, modality) and dead_letters_are_current(lake, modality)):
            phase(f"{modality}: catalog", 2)
            runner.run(jobs.CATALOG_JOBS[modality].name, {"mmlake/modality": modality}, partition=modality)


def publish_one(
    lake: LakeResource,
    compute: CudaExecutorResource,
    instance: dg.DagsterInstance,
    *,
    request: Request,
    phase: Phase,
) -> Ran:
    """Bring the version of one recipe and branch up to date, of what the lake holds: nothing is ingested. Raises
    SettingsError where the lake's catalog is not up to date with its tables."""
    opened = lake.open(compute.executor)
    with opened.locked("run"):
        if not all(is_current(opened) for is_current in _OF_ALL):
            raise SettingsError(
                f"the catalog of lake {opened.root} is not up to date with its tables; run `mmlake run` first, then "
                "publish again"
            )
        ran = Ran(listing=Listing(new=(), changed=(), gone=(), unchanged=len(opened.registry.known())))
        _publish(opened, request, _Runner(asset_graph.build(lake, compute), instance, ran), phase)
    return ran


def _publish(lake: Lake, request: Request, runner: "_Runner", phase: Phase, *, is_current: bool | None = None) -> None:
    """Make the version of the request, where the newest of its branch is another or unfinished. is_current: see
    `needs_version`."""
    name, is_new = needs_version(lake, request.branch, request.recipe, is_current=is_current)
    runner.ran.versions[request.branch] = name
    if is_new or not version_is_complete(lake, name):
        ask_for(lake, name, request)
        phase(f"version {name}", len(VERSION_STEPS))
        runner.instance.add_dynamic_partitions(VERSION_SET, [name])
        tags = {"mmlake/recipe": request.recipe.name, "mmlake/branch": request.branch}
        before = lake.cuts.uncut.now()
        try:
            runner.run(jobs.VERSION_JOB.name, tags, partition=name)
        except MmlakeError:
            if lake.cuts.uncut.now().keys() <= before.keys():
                raise
            # units that cannot be cut are known now, and the next version leaves them out
            _update_all(lake, runner, phase)
            _publish(lake, request, runner, phase)
            return
        runner.ran.made.append(name)


def _refuse_failures(listing: Listing) -> None:
    """Raises the error of the first landing zone that could not be inspected, with those of the others."""
    if listing.failures:
        reasons = "; ".join(str(error) for error in listing.failures)
        raise type(listing.failures[0])(
            f"{reasons}; the shards of the other landing zones are read, and nothing is published until all can be "
            "inspected: repair it, then run again"
        )


def _register(instance: dg.DagsterInstance, lake: Lake, modality: str) -> None:
    name = SHARD_SETS[modality]
    known = set(instance.get_dynamic_partitions(name))
    if new := [key for key in lake.registry.keys(modality) if key not in known]:
        instance.add_dynamic_partitions(name, new)


@contextmanager
def _silent_console() -> Iterator[None]:
    """Without Dagster's console log, which repeats what the UI keeps; failures are raised."""
    logger = logging.getLogger("dagster")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


class _Runner:
    """Launches jobs in this process and keeps their run ids."""

    def __init__(self, defs: dg.Definitions, instance: dg.DagsterInstance, ran: Ran) -> None:
        self._defs, self.instance, self.ran = defs, instance, ran

    def run(
        self, job: str, tags: dict[str, str], *, partition: str | None = None, assets: Sequence[str] | None = None
    ) -> None:
        """Run the job, or those of its assets alone. Raises MmlakeError naming the failed asset and the run to inspect,
        and KeyboardInterrupt where a person stopped it, which Dagster takes for a failure."""
        with _silent_console():
            result = self._defs.resolve_job_def(job).execute_in_process(
                instance=self.instance,
                tags=tags,
                partition_key=partition,
                run_config=_QUIET,
                raise_on_error=False,
                asset_selection=None if assets is None else [dg.AssetKey(name) for name in assets],
            )
        self.ran.runs.append(result.run_id)
        if result.success:
            return
        failures = [event for event in result.all_events if event.is_step_failure]
        if any(_was_interrupted(event) for event in failures):
            raise KeyboardInterrupt
        causes = [(event.step_key, *root_cause(event)) for event in failures]
        reasons = "; ".join(f"{step}: {cause}" for step, cause, _ in causes) or "a blocking check"
        raised = MmlakeError(
            f"run {result.run_id} of job {job} failed in {reasons}; inspect it with `mmlake ui`, repair the cause, run "
            "again: what is done stays done"
        )
        if len(codes := {code for _, _, code in causes}) == 1:
            raised.exit_code = codes.pop()
        raise raised


def _was_interrupted(event: dg.DagsterEvent) -> bool:
    error = event.step_failure_data.error
    while error is not None and error.cls_name != dg.DagsterExecutionInterruptedError.__name__:
        error = error.cause
    return error is not None


def root_cause(event: dg.DagsterEvent) -> tuple[str, int]:
    """(what went wrong in one line, exit code) of a failed step: in our words alone where the error is ours, else
    with its class before them."""
    failure = event.step_failure_data.user_failure_data
    if failure is not None and failure.description:  # of a row asset: it says itself which partitions failed
        code = failure.metadata.get(EXIT_CODE)
        return failure.description, int(str(code.value)) if code is not None else MmlakeError.exit_code
    error, causes = event.step_failure_data.error, []
    while error is not None:
        causes.append((error.message.strip().splitlines() or ["unknown"])[0].partition(": "))
        error = error.cause
    # ours say what to do about the cause that they have: the innermost of them knows most
    for name, _, words in reversed(causes):
        kind = getattr(errors, name.rpartition(".")[2], None)
        if isinstance(kind, type) and issubclass(kind, MmlakeError):
            return words, kind.exit_code
    name, _, words = causes[-1] if causes else ("unknown", "", "")
    name = name.rpartition(".")[2]
    return f"{name}: {words}" if words else name, MmlakeError.exit_code
