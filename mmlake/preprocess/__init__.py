"""Tracks: what a decoder can say about each distinct blob of a partition, in one pass over its bytes; and alignments:
transcripts laid on their sound.

Enters: items and the store. Leaves: the TRACKS table, and in the store the keyframes (JPEG) and mono 16 kHz sound
(FLAC) made on the way.
Nothing is judged here but whether an item can be decoded at all.
"""

from __future__ import annotations

from mmlake.preprocess.decoding import (
    AUDIO_DECODER,
    IMAGE_DECODER,
    TEXT_DECODER,
    VIDEO_DECODER,
    Decoded,
    Decoder,
    Encoded,
)
from mmlake.preprocess.settings import AlignSettings, PreprocessSettings, UnitSettings
from mmlake.preprocess.tiling.check import check_tiling
from mmlake.preprocess.tiling.unit_tracks import GAP, UNIT_TRACKS, WHOLE, spans_of, unit_tracks
from mmlake.preprocess.tiling.units import FILM_SPLITTER, RECORDING_SPLITTER, Splitter, units
from mmlake.preprocess.tracks import ITEM_COLUMNS, track_parts, tracks
from mmlake.preprocess.transcripts.alignments import alignments, has_words
from mmlake.preprocess.transcripts.recognition import RECOGNIZERS, Recognizer

__all__ = [
    "AUDIO_DECODER",
    "FILM_SPLITTER",
    "GAP",
    "IMAGE_DECODER",
    "ITEM_COLUMNS",
    "RECOGNIZERS",
    "RECORDING_SPLITTER",
    "TEXT_DECODER",
    "UNIT_TRACKS",
    "VIDEO_DECODER",
    "WHOLE",
    "AlignSettings",
    "Decoded",
    "Decoder",
    "Encoded",
    "PreprocessSettings",
    "Recognizer",
    "Splitter",
    "UnitSettings",
    "alignments",
    "check_tiling",
    "has_words",
    "spans_of",
    "track_parts",
    "tracks",
    "unit_tracks",
    "units",
]
