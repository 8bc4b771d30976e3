"""Clips of films and segments of recordings, cut when they are needed and kept.

Enters: a local film or recording and the spans that are wanted of it. Leaves: media files of their own. It knows
neither the store nor the lake: whoever asks brings the file.
"""

from __future__ import annotations

from mmlake.cuts.cache import Cut, CutCache
from mmlake.cuts.renditions import preview
from mmlake.cuts.settings import CutSettings
from mmlake.cuts.sound import Cleaner, Segment, cut_recording, cut_sound
from mmlake.cuts.transcoding import Rendition, transcoded
from mmlake.cuts.uncut import UNCUT_FILE, Uncut, version_of
from mmlake.cuts.video import Clip, Span, cut_film

__all__ = [
    "Cleaner",
    "UNCUT_FILE",
    "Clip",
    "Cut",
    "CutCache",
    "CutSettings",
    "Rendition",
    "Segment",
    "Span",
    "Uncut",
    "cut_film",
    "cut_recording",
    "cut_sound",
    "preview",
    "transcoded",
    "version_of",
]
