"""Recipes: documents that say which samples a version admits, how many of each group, and how often each is trained on.

Enters: TOML, catalog rows, samples of a version. Leaves: causes that keep rows and samples out, positions of groups.
It knows no lake and reads no table.
"""

from __future__ import annotations

from mmlake.recipes.document import parse, read
from mmlake.recipes.files import (
    RECIPES,
    VERSION_NAME,
    check_branch,
    find_recipe,
    is_file,
    recipes_of,
    refuse_version_name,
)
from mmlake.recipes.groups import groups_of
from mmlake.recipes.mixture import Mixture
from mmlake.recipes.quotas import Quota
from mmlake.recipes.recipe import CARRIED_BY, Recipe
from mmlake.recipes.sql import Condition, near

__all__ = [
    "CARRIED_BY",
    "RECIPES",
    "VERSION_NAME",
    "Condition",
    "Mixture",
    "Quota",
    "Recipe",
    "check_branch",
    "find_recipe",
    "groups_of",
    "is_file",
    "near",
    "parse",
    "read",
    "recipes_of",
    "refuse_version_name",
]
