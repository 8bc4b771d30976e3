"""Deleting branches and tags of a lake, of which some are needed by what publishes."""

from __future__ import annotations

from mmlake.errors import RefInUse
from mmlake.lake import Lake
from mmlake.publish.results import result_path
from mmlake.recipes import RECIPES, VERSION_NAME, recipes_of


def delete_branch(lake: Lake, name: str, *, force: bool = False) -> str:
    """The id that the branch was at, which is no more. Its versions stay under their names.
    force: also where a version that it is or was at has no other name. Raises RefMissing, and RefInUse for a branch
    that a recipe of the lake publishes on."""
    if name in lake.versions.branches() and (recipe := recipes_of(lake.root).get(name)) is not None:
        remedy = "" if name in RECIPES else f"; move {recipe.origin} away first"
        raise RefInUse(f"branch '{name}' is that of a recipe, on which each `mmlake run` goes on{remedy}")
    return lake.versions.delete("branches", name, force=force)


def delete_tag(lake: Lake, name: str, *, force: bool = False) -> str:
    """The id that the tag named, which is no more. force: also where the version has no other name. Raises RefMissing,
    and RefInUse for the name that a version was published under: its results and steps lie under it."""
    is_published = lake.tables.has("manifest", "all", name) or result_path(lake, name, "manifest").exists()
    if VERSION_NAME.fullmatch(name) and is_published:
        raise RefInUse(
            f"{name} is the name that the version was published under, with its results and shards; it stays as long "
            "as the version does"
        )
    return lake.versions.delete("tags", name, force=force)
