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
        raise SettingsError(
            f"version name {version!r} is not <recipe>-v<number>, such as 'curated-v001'; recipes are "
            f"{', '.join(RECIPES)}"
        )
    return RECIPES[match["recipe"]]


def version_names(lake: Lake, recipe: str | None = None) -> list[str]:
    """Names of the lake's versions, begun or finished, oldest first within a recipe."""
    names = set(lake.versions.tags()) | set(lake.tables.shards("manifest", "all"))
    found = [(match["recipe"], int(match["number"]), name) for name in names if (match := _NAME.fullmatch(name))]
    # by number: as text, v1000 stands before v999
    return [name for kind, _, name in sorted(found) if recipe in (None, kind)]


def next_version(lake: Lake, recipe: str) -> str:
    """The first free name of the recipe."""
    names = version_names(lake, recipe)
    return f"{recipe}-v{_number(names[-1]) + 1 if names else 1:03d}"


def earlier_versions(lake: Lake, version: str) -> list[str]:
    """The versions of the same recipe before this one, oldest first."""
    number = _number(version)
    return [name for name in version_names(lake, recipe_of(version).name) if _number(name) < number]


def slot_of(step: str, version: str) -> Slot:
    """Where the stamp of a version's step lies."""
    return Slot(step, "all", version)


def _number(version: str) -> int:
    return int(version.rpartition("-v")[2])
