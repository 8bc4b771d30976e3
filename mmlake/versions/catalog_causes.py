"""What keeps a digest out of a version wherever it stands: its status, then its licences."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.versions.recipe import Recipe
from mmlake.versions.sample_schemas import piece


def causes_of(rows: pa.Table, recipe: Recipe) -> pa.Array:
    """rule:<name>, status:<name> or licence:<id> of each row of the catalog; null where nothing keeps it out."""
    status, rule = (piece(rows[name]) for name in ("status", "rule"))
    by_rule = pc.binary_join_element_wise("rule", rule, ":")
    by_status = pc.binary_join_element_wise("status", pc.fill_null(status, "None"), ":")
    judged = pc.if_else(pc.fill_null(pc.not_equal(rule, ""), False), by_rule, by_status)
    admitted = pc.is_in(status, value_set=pa.array(recipe.statuses))
    return pc.if_else(admitted, _denied(piece(rows["licences"]), recipe), judged)


def details_of(rows: pa.Table, causes: pa.Array) -> pa.Array:
    """What says more of the cause of each row: of a licence the sources that state it, of others the reason."""
    by_licence = pc.fill_null(pc.starts_with(causes, "licence:"), False)
    reasons = piece(rows["reason"])
    if not pc.any(by_licence, min_count=0).as_py():
        return reasons
    return pc.if_else(by_licence, pc.fill_null(pc.binary_join(piece(rows["sources"]), ", "), ""), reasons)


def _denied(licences: pa.Array, recipe: Recipe) -> pa.Array:
    """The cause of each row whose licences the recipe denies."""
    joined = pc.binary_join(licences, "\n").dictionary_encode()
    lists = [text.split("\n") if text else [] for text in joined.dictionary.to_pylist()]
    causes = [None if (denied := recipe.denied_licence(one)) is None else f"licence:{denied}" for one in lists]
    return pa.array(causes, pa.string()).take(joined.indices)
