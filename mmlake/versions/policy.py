"""Nothing that a recipe denies is ever published, and nothing twice, whoever selected it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.engine.digest_index import piece
from mmlake.errors import ContractBroken
from mmlake.recipes import Recipe


def check_policy(samples: pa.Table, recipe: Recipe) -> None:
    """Raises ContractBroken where a sample's licence or a part's role is not admitted by the recipe."""
    joined = pc.binary_join(samples["licences"], "\n")
    for text in pc.unique(joined).to_pylist():
        if (licence := recipe.denied_licence(text.split("\n") if text else [])) is not None:
            sample = samples["sample"].filter(pc.equal(joined, text))[0]
            raise ContractBroken(
                f"sample {sample} has the licence {licence}, which recipe '{recipe.name}' denies; select the "
                "samples with that recipe"
            )
    start = 0
    for lists in samples["parts"].chunks:
        roles = pc.struct_field(lists.flatten(), "role")
        foreign = pc.invert(pc.is_in(roles, value_set=pa.array(recipe.roles)))
        if pc.any(foreign, min_count=0).as_py():
            at = start + pc.list_parent_indices(lists).filter(foreign)[0].as_py()
            raise ContractBroken(
                f"sample {samples['sample'][at]} has a part of the role {roles.filter(foreign)[0]}, which recipe "
                f"'{recipe.name}' does not admit; select the samples with that recipe"
            )
        start += len(lists)


def check_once(samples: pa.Table, excluded: pa.Table) -> None:
    """Raises ContractBroken where a sample is there twice, or is in the version and out of it at once."""
    names, out = samples["sample"], excluded.filter(excluded["is_whole"])["sample"]
    if names.null_count or pc.count_distinct(names).as_py() != len(names):
        raise ContractBroken(
            f"{len(names)} rows selected hold {pc.count_distinct(names).as_py()} distinct samples; every sample must "
            "stand there once"
        )
    both = names.filter(pc.is_in(names, value_set=piece(out)))
    if len(both):
        raise ContractBroken(
            f"{len(both)} samples are selected and excluded at once, such as {both[0]}; select them again"
        )
