"""Dataset versions: immutable manifests named by the SHA-256 of their content, and refs that move between them.

Enters: samples, catalog rows and a recipe. Leaves: manifests, samples, branches, tags, diffs. It never copies or reads
media.
"""

from __future__ import annotations

from mmlake.recipes import RECIPES, Recipe
from mmlake.versions.diff import Diff
from mmlake.versions.manifest import Manifest, PinnedRecipe, Tree
from mmlake.versions.policy import check_policy
from mmlake.versions.refs import utc_now
from mmlake.versions.sample_schemas import CATALOG_COLUMNS, EXCLUDED, VERSION_SAMPLES
from mmlake.versions.selection import Selection, select
from mmlake.versions.store import VersionStore

__all__ = [
    "CATALOG_COLUMNS",
    "EXCLUDED",
    "RECIPES",
    "VERSION_SAMPLES",
    "Diff",
    "Manifest",
    "PinnedRecipe",
    "Recipe",
    "Selection",
    "Tree",
    "VersionStore",
    "check_policy",
    "select",
    "utc_now",
]
