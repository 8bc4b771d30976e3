"""Verdicts: what is wrong with each decoded item, by rules over measures.

Two steps, so that a new threshold re-judges without decoding: `measure` (tracks and blobs to MEASURES), `judge` (pure:
tracks and measures to VERDICTS).
"""

from __future__ import annotations

from mmlake.quality.judge import judge
from mmlake.quality.measures import measure
from mmlake.quality.rule import Rule
from mmlake.quality.rules import RULES, error_codes, rules_digest
from mmlake.quality.settings import QualitySettings
from mmlake.quality.tally import tally

__all__ = ["RULES", "QualitySettings", "Rule", "error_codes", "judge", "measure", "rules_digest", "tally"]
