"""Where recipes are found: those of the package, those of a lake (`<lake>/recipes/*.toml`), and any file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from mmlake.errors import SettingsError
from mmlake.recipes.document import NAME, read
from mmlake.recipes.recipe import Recipe
from mmlake.recipes.sql import near

_PACKAGE = Path(__file__).parent
VERSION_NAME = re.compile(r"(?P<branch>[a-z0-9][a-z0-9_-]*)-v(?P<number>[0-9]{3,6})")  # of the versions of a branch
# two small files of this package, read once: they are data of the code, as its tables are
RECIPES: dict[str, Recipe] = {name: read(_PACKAGE / f"{name}.toml") for name in ("everything", "curated")}


def recipes_of(lake: Path) -> dict[str, Recipe]:
    """Name -> recipe, the package's first, then those of the lake's folder by name. Raises SettingsError where a file
    is no recipe, or two recipes have one name."""
    found = dict(RECIPES)
    for path in sorted((lake / "recipes").glob("*.toml")):
        recipe = read(path)
        if (other := found.get(recipe.name)) is not None:
            raise SettingsError(
                f"two recipes are called '{recipe.name}': {other.origin} and {path}; give one of them another name"
            )
        found[recipe.name] = recipe
    own = sorted(found.keys() - RECIPES.keys())
    return RECIPES | {name: found[name] for name in own}


def find_recipe(lake: Path, name: str, *, known: Mapping[str, Recipe] | None = None) -> Recipe:
    """The recipe of that name, or of the file, where it is the path of one. Raises SettingsError with near names.

    A file outside of the lake may have no name of a recipe that is there and says something else.
    known: what `recipes_of` gives, for who asks for many; each would read all files of the folder.
    """
    known = recipes_of(lake) if known is None else known
    if not is_file(name):
        if name in known:
            return known[name]
        if Path(name).exists():
            raise SettingsError(f"{name} is a file of another kind; the file of a recipe ends in .toml")
        raise SettingsError(
            f"there is no recipe {name!r}{near(name, known)}; expected one of {', '.join(known)}, a file of TOML, or "
            f"put one into {lake / 'recipes'}"
        )
    recipe = read(Path(name))
    other = known.get(recipe.name)
    if other is not None and other.digest != recipe.digest:
        raise SettingsError(
            f"two recipes are called '{recipe.name}': {other.origin} and {name}; give one of them another name"
        )
    return recipe


def is_file(name: str) -> bool:
    """Whether it is the path of a recipe, and not the name of one."""
    return name.endswith(".toml") or "/" in name or "\\" in name


def refuse_version_name(name: str, kind: str) -> None:
    """Raises SettingsError where a version may be published under the name: what else is called so would be taken for
    one, or keep it from its name. kind: of what was to be called so, "tag" or "branch"."""
    if VERSION_NAME.fullmatch(name):
        raise SettingsError(
            f"{kind} {name!r} has the form of the versions of a branch (<branch>-v<number>), which `mmlake run` and "
            "`mmlake publish` give; choose another name"
        )


def check_branch(name: str) -> str:
    """The name, when versions can be called after it. Raises SettingsError."""
    if not NAME.fullmatch(name):
        raise SettingsError(
            f"branch {name!r} cannot name versions; expected 1 to 63 of a-z, 0-9, - and _, such as 'captioned'"
        )
    refuse_version_name(name, "branch")
    return name
