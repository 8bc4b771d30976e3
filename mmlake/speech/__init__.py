"""Speech: where somebody speaks in a recording or film.

Enters: mono 16 kHz sound. Leaves: spans in seconds. What is said, and by whom, others find.
"""

from __future__ import annotations

from mmlake.speech.vad import SILERO, VOICE_DETECTORS, VoiceDetector

__all__ = ["SILERO", "VOICE_DETECTORS", "VoiceDetector"]
