"""The policy of a recipe held against the samples of a version, once more, before it is published."""

from __future__ import annotations

import pyarrow as pa

from mmlake.errors import ContractBroken
from mmlake.recipes import RECIPES, Recipe

__all__ = ["RECIPES", "Recipe", "check_policy"]


def check_policy(samples: pa.Table, recipe: Recipe) -> None:
    """Raises ContractBroken where a sample's licence or a part's role is not admitted by the recipe: nothing denied is
    ever published."""
    for row in samples.select(["sample", "licences", "parts"]).to_pylist():
        if (licence := recipe.denied_licence(row["licences"])) is not None:
            raise ContractBroken(
                f"sample {row['sample']} has the licence {licence}, which recipe '{recipe.name}' denies; select the "
                "samples with that recipe"
            )
        if foreign := sorted({part["role"] for part in row["parts"]} - set(recipe.roles)):
            raise ContractBroken(
                f"sample {row['sample']} has a part of the role {foreign[0]}, which recipe '{recipe.name}' does not "
                "admit; select the samples with that recipe"
            )
