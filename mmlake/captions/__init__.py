"""Captions: what language models say of units, checked: transcripts corrected, clips described with event tags and
times.

Enters: tracks of units, keyframes in the store. Leaves: the CAPTIONS table. No medium is decoded, and no time of a
transcript is ever read from an answer. Without settings nothing is asked, and the table is empty.
"""

from __future__ import annotations

from mmlake.captions.captioning import captions
from mmlake.captions.models import MODELS, Model, ModelRow
from mmlake.captions.settings import CaptionSettings

__all__ = ["MODELS", "CaptionSettings", "Model", "ModelRow", "captions"]
