"""What a recipe would admit, without publishing: how many samples each clause takes away, alone and in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.lake import Lake
from mmlake.publish.mixtures import mixture_counts
from mmlake.publish.selected import catalog_rows, selected
from mmlake.recipes import Recipe
from mmlake.records import ROLES, STATUSES
from mmlake.versions import Selection

# cause, up to its colon -> the clause of the recipe that it comes from
_CLAUSES = {
    "rule": "statuses", "status": "statuses", "licence": "licences", "role": "roles", "source": "sources",
    "size": "size", "language": "languages", "where": "where", "contaminated": "where",
    "caption_score": "min_caption_score", "tier": "drop_tiers", "carried": "drop_carried", "required": "required_roles",
    "quota": "quotas",
}  # fmt: skip
_ORDER = tuple(dict.fromkeys(_CLAUSES.values()))
_OF_NO_CLAUSE = "unreadable or without a lead"


@dataclass(frozen=True, kw_only=True)
class ClauseCount:
    """The samples that one clause takes away."""

    clause: str
    alone: int  # were it the only one
    in_order: int  # of what the clauses above it leave


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """What a version by the recipe would hold."""

    recipe: Recipe
    num_samples: int  # that there are
    num_admitted: int
    clauses: tuple[ClauseCount, ...]
    causes: dict[str, int]  # samples by the first cause that keeps them out
    masked: dict[str, int]  # parts left out of samples that stay
    mixture: dict[str, dict[str, int]]  # group -> its samples, and positions of an epoch

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        clauses = [{"clause": one.clause, "alone": one.alone, "in_order": one.in_order} for one in self.clauses]
        return {
            "recipe": self.recipe.name,
            "digest": self.recipe.digest,
            "num_samples": self.num_samples,
            "num_admitted": self.num_admitted,
            "clauses": clauses,
            "causes": self.causes,
            "masked": self.masked,
            "mixture": self.mixture,
        }


def dry_run(lake: Lake, recipe: Recipe) -> DryRun:
    """The counts for the lake as it is now; nothing is written. Raises SettingsError as a publishing would: for an
    unknown column, a condition that does not run, a quota that cannot be met, a group without samples."""
    rows = catalog_rows(lake, recipe)
    bare = _bare(recipe)
    whole = selected(lake, recipe, recipe.name, rows=rows)
    without = selected(lake, bare, recipe.name, rows=rows)
    out, always = _out(whole), _out(without)
    causes = Counter(out["cause"].to_pylist())
    # what no recipe admits has the rule that says why, as what a clause keeps out has
    of_clauses = out.filter(pc.invert(pc.is_in(out["sample"], value_set=always["sample"])))
    in_order = Counter(map(_clause_of, of_clauses["cause"].to_pylist()))
    clauses = []
    for name, only in _each(recipe, bare):
        num_out = _out(selected(lake, only, recipe.name, rows=rows)).num_rows
        clauses.append(ClauseCount(clause=name, alone=num_out - always.num_rows, in_order=in_order.pop(name, 0)))
    if rest := always.num_rows + sum(in_order.values()):
        clauses.insert(0, ClauseCount(clause=_OF_NO_CLAUSE, alone=always.num_rows, in_order=rest))
    masked = whole.excluded.filter(pc.invert(whole.excluded["is_whole"]))
    return DryRun(
        recipe=recipe,
        num_samples=whole.samples.num_rows + sum(causes.values()),
        num_admitted=whole.samples.num_rows,
        clauses=tuple(clauses),
        causes=dict(sorted(causes.items())),
        masked=dict(sorted(Counter(masked["cause"].to_pylist()).items())),
        mixture=mixture_counts(whole.samples, recipe),
    )


def _bare(recipe: Recipe) -> Recipe:
    """The recipe with no clause."""
    return Recipe(
        name=recipe.name,
        description="",
        statuses=STATUSES[:-1],
        drop_tiers=(),
        roles=ROLES,
        weighted=recipe.weighted,
        seed=recipe.seed,
        origin=recipe.origin,
    )


def _each(recipe: Recipe, bare: Recipe) -> Iterator[tuple[str, Recipe]]:
    """(clause, a recipe with that clause alone) of every clause that the recipe has, in the order of causes."""
    for clause in _ORDER:
        names = ("allow_licences", "deny_licences") if clause == "licences" else (clause,)
        only = replace(bare, **{name: getattr(recipe, name) for name in names})
        if clause == "quotas":  # of samples that stay by themselves, one quota may not be met where all are there
            only = replace(only, quotas=tuple(replace(quota, at_least=None) for quota in recipe.quotas if _cuts(quota)))
        if only != bare:
            yield clause, only


def _cuts(quota: Any) -> bool:
    return quota.at_most is not None or quota.share is not None


def _out(selection: Selection) -> pa.Table:
    """sample, cause: the samples that are kept out, and what keeps their first part out."""
    whole = selection.excluded.filter(selection.excluded["is_whole"])
    first = whole.group_by("sample", use_threads=False).aggregate([("cause", "first")])
    return first.rename_columns(["sample", "cause"])


def _clause_of(cause: str) -> str:
    return _CLAUSES.get(cause.partition(":")[0], _OF_NO_CLAUSE)
