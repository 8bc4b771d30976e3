"""RULES: what is wrong with an item, per modality. A rule and its measure stand together in the modality's file;
adding one touches that file only."""

from __future__ import annotations

from dataclasses import asdict

from mmlake.error_codes import ErrorCode
from mmlake.quality.audio import AUDIO_RULES
from mmlake.quality.image import IMAGE_RULES
from mmlake.quality.rule import Rule
from mmlake.quality.text import TEXT_RULES
from mmlake.quality.video import VIDEO_RULES
from mmlake.records import canonical_json, digest_of

RULES: dict[str, tuple[Rule, ...]] = {
    "text": TEXT_RULES,
    "image": IMAGE_RULES,
    "video": VIDEO_RULES,
    "audio": AUDIO_RULES,
}


def error_codes() -> tuple[ErrorCode, ...]:
    """The 4xxx part of the error catalogue, by code."""
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
        for rules in RULES.values()
        for rule in rules
    }
    return tuple(entries[code] for code in sorted(entries))


def rules_digest() -> str:
    """First 8 hex characters of the SHA-256 of every rule: a rule that is added, moved or dropped makes every older
    verdict stale."""
    return digest_of(
        canonical_json({modality: [asdict(rule) for rule in rules] for modality, rules in RULES.items()}).encode()
    )[:8]
