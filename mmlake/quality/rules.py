"""What the catalogue of errors and the stamps say of rules. The rules stand in their modality's file, a tuple each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from mmlake.error_codes import ErrorCode
from mmlake.quality.rule import Rule
from mmlake.records import canonical_json, digest_of


def error_codes(rules: Iterable[Rule]) -> tuple[ErrorCode, ...]:
    """Entries of the error catalogue for these rules, by code."""
    entries = {
        rule.error_code: ErrorCode(
            code=rule.error_code,
            name=rule.name,
            severity=rule.severity,
            what=rule.what
            if rule.name != "unmeasured"
            else "The measures of the item could not be taken although it decoded.",
            fix=rule.fix,
        )
        for rule in rules
    }
    return tuple(entries[code] for code in sorted(entries))


def rules_digest(rules: Mapping[str, Sequence[Rule]]) -> str:
    """First 8 hex characters of the SHA-256 of the rules by modality: one that is added, moved or dropped makes every
    older verdict stale."""
    return digest_of(
        canonical_json({modality: [asdict(rule) for rule in group] for modality, group in rules.items()}).encode()
    )[:8]
