"""Versions that follow the catalog: what `[publish] follow` names is published whenever the lake has settled on another
catalog.

A run has the name of its version and the catalog that the version holds as its key, so that each is asked for once,
whatever happens to the tick.
"""

import dagster as dg
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES

from mmlake.publish import (
    all_wanted,
    ask_for,
    can_be_selected_from,
    needs_version,
    selected_from,
    version_is_complete,
)
from mmlake.recipes import find_recipe, recipes_of
from mmlake.records import canonical_json, digest_of
from mmlake_assets.jobs import VERSION_JOB
from mmlake_assets.partitions import VERSIONS
from mmlake_resources import LakeResource


def publishing(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SensorResult | dg.SkipReason:
    """A run for the first recipe that has no version of the catalog as it is now. One at a time: a version is compared
    with those before it."""
    opened = lake.open()
    if not (follow := opened.settings.publish.follow):
        return dg.SkipReason("no recipe is followed: the settings have no [publish] follow")
    known = recipes_of(opened.root)
    recipes = [find_recipe(opened.root, name, known=known).digest for name in follow]
    held = digest_of(canonical_json([recipes, selected_from(opened)]).encode())
    if context.cursor == held:
        return dg.SkipReason(f"{', '.join(follow)}: the newest versions hold the catalog as it is")
    if under_way := context.instance.get_run_ids(dg.RunsFilter(statuses=NOT_FINISHED_STATUSES), limit=1):
        return dg.SkipReason(f"run {under_way[0]} is under way")
    if not can_be_selected_from(opened):
        return dg.SkipReason("the catalog is about to change")
    for request in all_wanted(opened, follow):  # raises here, on the sensor's page, for a recipe that cannot be used
        name, is_new = needs_version(opened, request.branch, request.recipe, is_current=True)
        if is_new or not version_is_complete(opened, name):
            ask_for(opened, name, request)
            return dg.SensorResult(
                run_requests=[
                    dg.RunRequest(
                        run_key=f"{name}@{held}",
                        partition_key=name,
                        job_name=VERSION_JOB.name,
                        tags={"mmlake/recipe": request.recipe.name, "mmlake/branch": request.branch},
                    )
                ],
                dynamic_partitions_requests=[VERSIONS.build_add_request([name])],
            )
    return dg.SensorResult(cursor=held)
