"""Verdicts: what is wrong with each decoded item, by rules over measures.

Two steps, so that a new threshold re-judges without decoding: `measure` (tracks and blobs to MEASURES), `judge` (pure:
tracks and measures to VERDICTS).
"""

from __future__ import annotations

from mmlake.quality.audio import AUDIO_MEASUREMENTS, AUDIO_RULES
from mmlake.quality.check_settings import CheckSettings
from mmlake.quality.image import IMAGE_MEASUREMENTS, IMAGE_RULES
from mmlake.quality.judge import judge
from mmlake.quality.measurement import Measurement, Scorer
from mmlake.quality.measures import measure, with_measures
from mmlake.quality.rule import Rule, unmeasured
from mmlake.quality.rules import error_codes, rules_digest
from mmlake.quality.settings import QualitySettings
from mmlake.quality.tally import count_quarantined, tally
from mmlake.quality.text import TEXT_MEASUREMENTS
from mmlake.quality.text_rules import TEXT_RULES
from mmlake.quality.video import VIDEO_MEASUREMENTS, VIDEO_RULES

__all__ = [
    "AUDIO_MEASUREMENTS",
    "AUDIO_RULES",
    "IMAGE_MEASUREMENTS",
    "IMAGE_RULES",
    "TEXT_MEASUREMENTS",
    "TEXT_RULES",
    "VIDEO_MEASUREMENTS",
    "VIDEO_RULES",
    "CheckSettings",
    "Measurement",
    "QualitySettings",
    "Rule",
    "Scorer",
    "count_quarantined",
    "error_codes",
    "judge",
    "measure",
    "rules_digest",
    "tally",
    "unmeasured",
    "with_measures",
]
