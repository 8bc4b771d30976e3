"""Names of versions: `<recipe>-v<number>`."""

from __future__ import annotations

import re

from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.tables import Slot
from mmlake.versions import RECIPES, Recipe

_NAME = re.compile(r"(?P<recipe>[a-z0-9][a-z0-9_-]*)-v(?P<number>[0-9]{3,6})")


def recipe_of(version: str) -> Recipe:
    """The recipe in a version's name. Raises SettingsError where the name has none that is known."""
    match = _NAME.fullmatch(version)
    if match is None or match["recipe"] not in RECIPES:
        raise SettingsError(f"version name {version!r} is not <recipe>-v<number>, such as 'curated-v001'; recipes are {', '.join(RECIPES)}")
    return RECIPES[match["recipe"]]


def version_names(lake: Lake, recipe: str | None = None) -> list[str]:
    """Names of the lake's versions, begun or finished, oldest first within a recipe."""
    names = set(lake.versions.tags()) | set(lake.tables.shards("manifest", "all"))
    return sorted(name for name in names if (match := _NAME.fullmatch(name)) and recipe in (None, match["recipe"]))


def next_version(lake: Lake, recipe: str) -> str:
    """The first free name of the recipe."""
    names = version_names(lake, recipe)
    number = int(names[-1].rpartition("-v")[2]) + 1 if names else 1
    return f"{recipe}-v{number:03d}"


def previous_version(lake: Lake, version: str) -> str | None:
    """The version of the same recipe before this one."""
    earlier = [name for name in version_names(lake, recipe_of(version).name) if name < version]
    return earlier[-1] if earlier else None


def slot_of(step: str, version: str) -> Slot:
    """Where the stamp of a version's step lies."""
    return Slot(step, "all", version)
