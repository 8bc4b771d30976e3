"""What judged and chose the items of a version: settings, rules, scorers and code as they are now. A version keeps it,
so that two versions can say which of these made the difference."""

from __future__ import annotations

import dataclasses
from typing import Any

from mmlake.dedup import recall_of
from mmlake.lake import Lake
from mmlake.tables import Slot

_SECTIONS = (
    "sources", "preprocess", "decode", "align", "speakers", "units", "captions", "quality", "dedup", "decontaminate",
    "embed",
)  # fmt: skip
_TABLES = (
    "tracks", "alignments", "speakers", "units", "captions", "measures", "verdicts", "fingerprints", "embeddings",
    "near_duplicates", "semantic_duplicates", "duplicate_clusters", "contamination",
    "component_fingerprints", "cross_pairs", "caption_scores",
)  # fmt: skip
_APPROXIMATE = ("near_duplicates", "semantic_duplicates")


def made_with(lake: Lake) -> dict[str, Any]:
    """Settings by section, names of rules by modality, revision of each scorer, code versions of each table, and the
    recall of each approximate step by modality."""
    return {
        "settings": {name: _plain(dataclasses.asdict(getattr(lake.settings, name))) for name in _SECTIONS},
        "rules": {name: sorted(rule.name for rule in row.rules) for name, row in lake.parts.modalities.items()},
        "scorers": _scorers(lake),
        "code": {table: _code(lake, table) for table in _TABLES},
        "recall": {step: found for step in _APPROXIMATE if (found := _recall(lake, step))},
    }


def _recall(lake: Lake, step: str) -> dict[str, Any]:
    """Modality -> the estimate with its interval, as the stamp of the step counts it."""
    stamps = {modality: lake.tables.stamp(Slot(step, modality)) for modality in lake.parts.modalities}
    found = {name: recall_of(stamp.counts) for name, stamp in stamps.items() if stamp is not None}
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def _code(lake: Lake, table: str) -> list[str]:
    stamps = (stamp for modality in lake.parts.modalities for stamp in lake.tables.stamps(table, modality).values())
    return sorted({stamp.code_version for stamp in stamps})


def _scorers(lake: Lake) -> dict[str, list[str]]:
    """Producer of measures -> its revisions."""
    found: dict[str, set[str]] = {}
    for modality in lake.parts.modalities:
        for rows in lake.tables.scan_parts("measures", modality, columns=["producer", "revision"]):
            for row in rows.group_by(["producer", "revision"]).aggregate([]).to_pylist():
                found.setdefault(str(row["producer"]), set()).add(str(row["revision"]))
    return {name: sorted(revisions) for name, revisions in sorted(found.items())}


def _plain(value: Any) -> Any:
    """The value as JSON has it; what it has no number for as text."""
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(one) for one in value]
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return str(value)
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
