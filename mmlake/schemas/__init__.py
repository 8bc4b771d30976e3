"""One versioned Arrow schema per stage table: the contract at each border between stages."""

from __future__ import annotations

from mmlake.schemas.captions import CAPTIONS
from mmlake.schemas.samples import SAMPLES
from mmlake.schemas.speakers import SPEAKERS
from mmlake.schemas.stages import (
    BLOBS,
    CLUSTERS,
    CONTAMINATION,
    DEAD_LETTERS,
    EMBEDDINGS,
    FINGERPRINTS,
    ITEMS,
    MEASURES,
    PAIRS,
    TABLES,
    VERDICTS,
    contamination_of,
)
from mmlake.schemas.table import TableSchema, conform, empty, from_columns, from_rows, is_sorted, whole
from mmlake.schemas.tracks import ALIGNMENTS, TRACKS, UNITS

__all__ = [
    "ALIGNMENTS",
    "BLOBS",
    "CAPTIONS",
    "CLUSTERS",
    "CONTAMINATION",
    "DEAD_LETTERS",
    "EMBEDDINGS",
    "FINGERPRINTS",
    "ITEMS",
    "MEASURES",
    "PAIRS",
    "SAMPLES",
    "SPEAKERS",
    "TABLES",
    "TRACKS",
    "UNITS",
    "VERDICTS",
    "TableSchema",
    "conform",
    "contamination_of",
    "empty",
    "from_columns",
    "from_rows",
    "is_sorted",
    "whole",
]
