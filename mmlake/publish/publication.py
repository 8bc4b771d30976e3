"""From draft to published version: every blocking check, then the branch. Nothing but this moves a branch to a version
that was made."""

from __future__ import annotations

from collections.abc import Callable

from mmlake.errors import ContractBroken, LakeLocked, MmlakeError
from mmlake.lake import Lake
from mmlake.progress import Advance
from mmlake.publish.contamination import refuse_contaminated
from mmlake.publish.rechecks import recheck_manifest
from mmlake.publish.requests import request_of
from mmlake.publish.results import read_result, write_result
from mmlake.publish.version_outputs import Result
from mmlake.shards import ShardIndex
from mmlake.versions import check_policy


def publication(lake: Lake, version: str, advance: Advance) -> Result:
    """What the checks found. Where all passed the branch is at the version; one that it was at before stays where it
    is, however often this runs. Raises ContractBroken, which names the check that failed, and LakeLocked where somebody
    else moved the branch: the version stays a draft."""
    made = lake.versions.read(version)
    begun = read_result(lake, version, "manifest")
    checks = {name: _outcome(check, lake, version) for name, check in CHECKS.items()}
    branch = begun.get("branch")
    failed = {name: problem for name, problem in checks.items() if problem is not None}
    document = {"version": version, "id": made.id, "tree": made.tree, "branch": branch, "checks": checks}
    document["published"] = not failed
    digest = write_result(lake, version, "publication", document)
    if failed:
        reasons = "; ".join(f"{name}: {problem}" for name, problem in failed.items())
        raise ContractBroken(
            f"{version} stays a draft and branch '{branch}' where it is: the check {reasons}; correct that and publish "
            "again"
        )
    # a version of an older release does not say what it followed, and is published
    if branch is not None and "base" in begun and not was_at(lake, branch, made.id):
        lake.versions.publish(made.id, branch, expect=begun["base"])
    advance(len(checks))
    return Result(data_version=digest, num_rows=len(checks), document=document, counts={"checks": len(checks)})


def is_overtaken(lake: Lake, version: str) -> bool:
    """Whether the version is a draft that was begun upon what its branch is not at any more, so that it cannot be
    published."""
    if not lake.versions.is_tagged(version) or not lake.versions.is_draft(version):
        return False
    begun = read_result(lake, version, "manifest")
    return bool(lake.versions.branches().get(begun["branch"]) != begun["base"])


def was_at(lake: Lake, branch: str, id_: str) -> bool:
    """Whether the branch is at the version or has been, and the version is no draft."""
    if branch not in lake.versions.branches() or lake.versions.is_draft(id_):
        return False
    return any(move.after == id_ for move in lake.versions.log(branch))


def _outcome(check: Callable[[Lake, str], object], lake: Lake, version: str) -> str | None:
    """What is wrong, in a sentence; None where nothing is."""
    try:
        check(lake, version)
    except LakeLocked:
        raise
    except MmlakeError as error:
        return str(error)
    return None


def _licences(lake: Lake, version: str) -> None:
    recipe = request_of(lake, version).recipe
    for samples in lake.versions.iter_samples(version):
        check_policy(samples, recipe)


def _shards(lake: Lake, version: str) -> None:
    made = lake.versions.read(version)
    written = ShardIndex.read(lake.shards_dir / made.id).num_samples
    if written != made.num_samples:
        raise ContractBroken(
            f"the manifest holds {made.num_samples} samples, its shards {written}; materialize training_shards again"
        )


def _decision(lake: Lake, version: str) -> None:
    if not request_of(lake, version).recipe.needs_decision:
        return
    decided = read_result(lake, version, "decision")
    if decided["outcome"] == "reject":
        raise ContractBroken(f"the probes reject it against {decided['baseline']}: {decided['explanation']}")


# name of a check, as `publish` prints it -> what raises where it fails
CHECKS: dict[str, Callable[[Lake, str], object]] = {
    "manifest contract": recheck_manifest,
    "shards contract": _shards,
    "licence policy": _licences,
    "decontamination": refuse_contaminated,
    "decision": _decision,
}
