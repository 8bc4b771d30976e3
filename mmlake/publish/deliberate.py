"""Deliberate cuts: probes whose answers are out because somebody chose it, in the recipe or by another bound of a rule.
Not to find them is no loss of retrieval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.evaluate import Probe
from mmlake.lake import Lake
from mmlake.records import ADMITTED

_CLAUSES = ("where", "size", "language")
_CHOSEN = ("licence:", "source:", "quota:", "role:", "required:")
_JUDGED = ("rule:", "status:")


def cut_on_purpose(
    lake: Lake, version: str, probes: tuple[Probe, ...], owners: Mapping[str, str], *, baseline: str | None
) -> dict[str, str]:
    """Probe id -> the cause that keeps all of its answers out by choice: a clause of the recipe, a status that recipes
    admit and this one does not, or a rule whose bound is not that of the baseline."""
    causes = _chosen_causes(lake, version, baseline)
    if not causes:
        return {}
    held = {owners.get(digest, digest) for digest in lake.versions.items(version)["digest"].to_pylist()}
    found = {}
    for probe in probes:
        right = sorted({owners.get(digest, digest) for digest in probe.relevant})
        if not held.intersection(right) and all(digest in causes for digest in right):
            found[probe.id] = causes[right[0]]
    return found


def _chosen_causes(lake: Lake, version: str, baseline: str | None) -> dict[str, str]:
    """Digest -> the cause that keeps it out, where that was chosen."""
    excluded = lake.versions.excluded(version).select(["digest", "cause"])
    changed = changed_rules(lake, version, baseline)
    chosen = [cause for cause in pc.unique(excluded["cause"]).to_pylist() if _is_chosen(cause, changed)]
    rows = excluded.filter(pc.is_in(excluded["cause"], value_set=pa.array(chosen, pa.string()))).to_pylist()
    judged = [cause for cause in pc.unique(excluded["cause"]).to_pylist() if cause.startswith(_JUDGED)]
    refused = excluded.filter(pc.is_in(excluded["cause"], value_set=pa.array(judged, pa.string())))
    if refused.num_rows:  # flagged items, which a recipe leaves out that asks for the best alone
        known = lake.catalog.read(["digest", "status"])
        admitted = known.filter(pc.is_in(known["status"], value_set=pa.array(ADMITTED)))["digest"]
        rows += refused.filter(pc.is_in(refused["digest"], value_set=admitted.combine_chunks())).to_pylist()
    return {row["digest"]: row["cause"] for row in rows if row["digest"] is not None}


def changed_rules(lake: Lake, version: str, baseline: str | None) -> set[str]:
    """Names of the rules that have another bound than in the baseline."""
    if baseline is None:
        return set()
    old, new = (_bounds(lake.versions.read(name).made_with) for name in (baseline, version))
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


def _bounds(made_with: Mapping[str, Any]) -> dict[str, Any]:
    return dict(made_with.get("settings", {}).get("quality", {}).get("bounds", {}))


def _is_chosen(cause: str, changed: set[str]) -> bool:
    return cause in _CLAUSES or cause.startswith(_CHOSEN) or cause.removeprefix("rule:") in changed
