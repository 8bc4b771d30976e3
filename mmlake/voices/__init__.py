"""Who speaks when.

Enters: tracks with their spans of speech, and the store. Leaves: the SPEAKERS table. Nothing is decoded, and nobody is
named: a speaker is a number within one recording.
"""

from __future__ import annotations

from mmlake.voices.diarizers import DIARIZERS, Diarizer
from mmlake.voices.settings import SpeakerSettings
from mmlake.voices.speakers import speakers, with_sound

__all__ = ["DIARIZERS", "Diarizer", "SpeakerSettings", "speakers", "with_sound"]
