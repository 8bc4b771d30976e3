"""What a unit of the catalog is called where people read of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TITLE_COLUMNS = ("sample_ids", "text", "span_start_s", "span_end_s")
_TEXT_CHARS = 60


def title_of(row: Mapping[str, Any]) -> str:
    """Its first sample, and of a span the seconds of it."""
    place = f" {row['span_start_s']:.1f}-{row['span_end_s']:.1f} s" if row["span_start_s"] is not None else ""
    return f"{(row['sample_ids'] or [''])[0]}{place}"


def title_with_text(row: Mapping[str, Any]) -> str:
    """The same, and how its text begins."""
    return f"{title_of(row)} {' '.join((row['text'] or '').split())[:_TEXT_CHARS]}".strip()
