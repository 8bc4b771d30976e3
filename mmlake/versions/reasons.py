"""Why a sample came, went or changed between two versions: which of recipe, rule, threshold, scorer, encoder, survivor,
source and code made the difference. Each sample has one reason, so that they add up to all.

The reason of a cause is the first of these that differs between the two versions: the recipe's clause behind it, the
set of rules, the bounds of that rule, the scorers, the encoders, the code of the tables behind it. Where none does, it
is what the source brought, or, for a duplicate, that another copy of it survives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmlake.versions.manifest import Manifest

REASONS = ("recipe", "rule", "threshold", "scorer", "encoder", "survivor", "source", "code")
_JUDGING = ("tracks", "alignments", "units", "measures", "verdicts")
_COMPARING = (
    "fingerprints", "embeddings", "near_duplicates", "semantic_duplicates", "duplicate_clusters",
    "component_fingerprints", "cross_pairs",
)  # fmt: skip
_ALWAYS_OF_SOURCE = ("sources", "licences", "sample_ids", "num_occurrences", "fields_json")


class Reasons:
    """The reasons of one pair of versions."""

    def __init__(self, before: Manifest, after: Manifest) -> None:
        self._before, self._after = before, after

    def of_cause(self, cause: str) -> str:
        """The reason why a sample with this cause, as `Diff` has it, came or went."""
        cause = cause.removeprefix("was ")
        kind, _, name = cause.partition(":")
        if cause in ("new", "absent", "shard_gone", "sample:no_lead") or kind == "part":
            return "source"
        if kind in ("rule", "status"):
            return "recipe" if self._recipe_differs("statuses") else self._judged(name if kind == "rule" else None)
        if kind == "tier":
            return "recipe" if self._recipe_differs("drop_tiers") else self._compared(name)
        if kind == "carried":
            return "recipe" if self._recipe_differs("drop_carried") else self._compared(kind, otherwise="source")
        if kind == "caption_score" and not self._recipe_differs("min_caption_score"):
            return self._scored()
        if kind == "contaminated" and not self._recipe_differs("where"):
            return "threshold" if self._eval_sets_differ() else "source"
        # clauses and quotas are the recipe's; where it is the same, what the sources say has changed
        return "recipe" if self._before.recipe.digest != self._after.recipe.digest else "source"

    def of_field(self, field: str) -> str:
        """The reason why this field of a sample that stays has another value."""
        if field in _ALWAYS_OF_SOURCE:
            return "source"
        of_parts = ("where", "min_caption_score") if field == "parts" else ()
        if self._recipe_differs("statuses", "weighted", "roles", *of_parts):
            return "recipe"
        judged = self._judged(None)
        if field == "parts" and judged == "source" and self._eval_sets_differ():
            return "threshold"
        return judged

    def _judged(self, rule: str | None) -> str:
        """Why a verdict is another. rule: the one behind it; None where it is not known."""
        rules = [_merged(side.made_with.get("rules", {})) for side in (self._before, self._after)]
        if (rule in rules[0]) != (rule in rules[1]) if rule is not None else rules[0] != rules[1]:
            return "rule"
        bounds = [_section(side, "quality") for side in (self._before, self._after)]
        if _of_rule(bounds[0], rule) != _of_rule(bounds[1], rule):
            return "threshold"
        if self._differs("scorers"):
            return "scorer"
        if any(
            _section(self._before, name) != _section(self._after, name)
            for name in ("preprocess", "decode", "align", "units")
        ):
            return "threshold"
        return "code" if self._code_differs(_JUDGING) else "source"

    def _compared(self, tier: str, *, otherwise: str = "survivor") -> str:
        """Why a duplicate is one, or is none any more. otherwise: where nothing that compares differs."""
        if _section(self._before, "dedup") != _section(self._after, "dedup"):
            return "threshold"
        if tier == "semantic" and self._before.encoders != self._after.encoders:
            return "encoder"
        return "code" if self._code_differs(_COMPARING) else otherwise

    def _scored(self) -> str:
        """Why the score of a caption is another."""
        if _section(self._before, "embed") != _section(self._after, "embed"):
            return "encoder"
        return "code" if self._code_differs(("embeddings", "caption_scores")) else "source"

    def _eval_sets_differ(self) -> bool:
        return _section(self._before, "decontaminate") != _section(self._after, "decontaminate")

    def _recipe_differs(self, *clauses: str) -> bool:
        old, new = self._before.recipe.body, self._after.recipe.body
        return any(old.get(name) != new.get(name) for name in clauses)

    def _differs(self, what: str) -> bool:
        return bool(self._before.made_with.get(what) != self._after.made_with.get(what))

    def _code_differs(self, tables: tuple[str, ...]) -> bool:
        old, new = (side.made_with.get("code", {}) for side in (self._before, self._after))
        return any(old.get(table) != new.get(table) for table in tables)


def _section(side: Manifest, name: str) -> Mapping[str, Any]:
    return dict(side.made_with.get("settings", {}).get(name, {}))


def _of_rule(quality: Mapping[str, Any], rule: str | None) -> Any:
    """The settings that a rule is judged by; all of them where it is not known."""
    if rule is None:
        return quality
    return quality.get("bounds", {}).get(rule), rule in quality.get("disabled", ())


def _merged(rules: Mapping[str, list[str]]) -> set[str]:
    return {name for names in rules.values() for name in names}
