"""The verdicts step: pure, no media are touched."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any

import pyarrow as pa

from mmlake import schemas
from mmlake.error_codes import CODES
from mmlake.errors import ContractBroken
from mmlake.quality.measurement import Measures
from mmlake.quality.rule import NUM_FAILURES, Rule
from mmlake.quality.settings import QualitySettings

_log = logging.getLogger(__name__)
_UNDECODABLE = 3001
_SLICE_ROWS = 16_384  # of measures, held as Python objects at once


def judge(
    tracks: pa.Table, measures: pa.Table, rules: Iterable[Rule], *, settings: QualitySettings | None = None
) -> pa.Table:
    """The VERDICTS table: one row per track.

    P0 and P1 findings quarantine, P2 flags, tracks that did not decode stay unreadable. A measure that is null breaks
    no rule.
    Raises ContractBroken where a decoded track was never measured.
    """
    settings = settings or QualitySettings()
    applied = [(rule, *_bounds(rule, settings)) for rule in rules if rule.name not in settings.disabled]
    values, failures = _by_digest(measures)
    rows = []
    for track in tracks.select(["digest", "role", "status", "error_code", "error"]).to_pylist():
        digest = track["digest"]
        if track["status"] == "unreadable":
            rows.append(_verdict(digest, [_unreadable(track)], "unreadable", 0.0))
            continue
        if digest not in values:
            raise ContractBroken(f"verdicts: track {digest} has no measures; re-materialize the measures of its shard")
        findings = _findings(applied, track["role"], values[digest], failures.get(digest))
        rows.append(_verdict(digest, findings, *_status(findings, settings)))
    counts = Counter(str(row["status"]) for row in rows)
    _log.info(
        "verdicts: %d = %s",
        len(rows),
        " + ".join(f"{counts[status]} {status}" for status in ("ok", "flagged", "quarantined", "unreadable")),
    )
    return schemas.from_rows(schemas.VERDICTS, rows)


def _bounds(rule: Rule, settings: QualitySettings) -> tuple[float | None, float | None]:
    low, high = settings.bounds.get(rule.name, (rule.low, rule.high))
    return low, high


def _by_digest(measures: pa.Table) -> tuple[dict[str, Measures], dict[str, str]]:
    """(the measures of each digest, why there are none of those that failed)."""
    values: dict[str, Measures] = {}
    failures: dict[str, str] = {}
    # a text per row of its digest and of its measure is most of what a million rows would take
    for part in measures.select(["digest", "measure", "value", "error"]).to_batches(max_chunksize=_SLICE_ROWS):
        for digest, name, value, error in zip(*(column.to_pylist() for column in part.columns), strict=True):
            values.setdefault(digest, {})[intern(name)] = value
            if error is not None:
                failures[digest] = error
    return values, failures


def _findings(
    rules: list[tuple[Rule, float | None, float | None]], role: str, values: Measures, failure: str | None
) -> list[dict[str, object]]:
    """The broken rules, gravest first."""
    broken = []
    for rule, low, high in rules:
        value = values.get(rule.measure)
        if role not in rule.roles or value is None or rule.is_exempt(values):
            continue
        if not rule.holds(value, low, high):
            reason = rule.reason(value, low, high)
            if rule.measure == NUM_FAILURES and failure is not None:
                reason += f": {failure}"
            if places := [f"{name}={at:.9g}" for name in rule.places if (at := values.get(name)) is not None]:
                reason += f", first at {' '.join(places)}"
            broken.append((rule.severity, rule.error_code, rule.name, reason))
    return [
        {"rule": name, "severity": severity, "error_code": code, "reason": reason}
        for severity, code, name, reason in sorted(broken)
    ]


def _status(findings: list[dict[str, object]], settings: QualitySettings) -> tuple[str, float]:
    """(status, weight)."""
    if not findings:
        return "ok", 1.0
    if findings[0]["severity"] in ("P0", "P1"):
        return "quarantined", 0.0
    return "flagged", settings.flagged_weight


def _unreadable(track: Mapping[str, Any]) -> dict[str, object]:
    code = track["error_code"] if track["error_code"] in CODES else _UNDECODABLE
    return {
        "rule": CODES[code].name,
        "severity": CODES[code].severity,
        "error_code": code,
        "reason": track["error"] or CODES[code].what,
    }


def _verdict(digest: str, findings: list[dict[str, object]], status: str, weight: float) -> dict[str, object]:
    gravest = findings[0] if findings else {}
    columns = {name: gravest.get(name) for name in ("severity", "error_code", "rule", "reason")}
    return {"digest": digest, "status": status, "weight": weight, "findings": findings, **columns}
