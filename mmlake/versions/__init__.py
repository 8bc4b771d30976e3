"""Dataset versions: immutable manifests named by the SHA-256 of their content, and refs that move between them.

Enters: catalog rows and a recipe. Leaves: manifests, item tables, branches, tags, diffs. It never copies or reads
media.
"""

from __future__ import annotations

from mmlake.versions.diff import Diff
from mmlake.versions.manifest import Manifest
from mmlake.versions.recipe import RECIPES, Recipe, check_policy
from mmlake.versions.selection import EXCLUDED, VERSION_ITEMS, Selection, select
from mmlake.versions.store import VersionStore

__all__ = [
    "EXCLUDED",
    "RECIPES",
    "VERSION_ITEMS",
    "Diff",
    "Manifest",
    "Recipe",
    "Selection",
    "VersionStore",
    "check_policy",
    "select",
]
