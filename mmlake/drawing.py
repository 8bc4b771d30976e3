"""Plain tables for a terminal. What stands in data is drawn as it is: no markup, no control characters."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

# control characters (C0, C1), what turns writing around (bidirectional marks, embeddings, isolates), line separators
_UNSEEN = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u206f\\ud800-\\udfff]"
)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> Table:
    """A plain table. right: columns of numbers."""
    heading = Text(shown(title), style="bold", no_wrap=True, overflow="ignore") if title else None
    drawn = Table(
        title=heading, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for name in columns:
        drawn.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(_spelled(cell)) for cell in row))
    return drawn


def number_of(count: int, noun: str) -> str:
    """The count with its noun, "1 shard" or "1,024 shards"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _spelled(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.4g}" if isinstance(cell, float) else shown(str(cell))


def shown(text: str) -> str:
    """The text with what could move a terminal's cursor or turn its writing around spelled out; line breaks and tabs
    stay."""
    return _UNSEEN.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def json_shown(data: Any) -> str:
    """The data as JSON for a program or a person: what `shown` spells out is escaped as JSON has it, so that it is read
    back as it was."""
    text = json.dumps(data, indent=2, ensure_ascii=False, default=str)
    return _UNSEEN.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def short(digest: str | None) -> str:
    """The first 12 characters of a digest: enough to distinguish items, and accepted wherever a digest is asked for."""
    return digest[:12] if digest else ""


def key_values(rows: Mapping[str, object]) -> Table:
    """Two columns: what, and its value."""
    drawn = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name, value in rows.items():
        drawn.add_row(Text(name, style="dim"), Text(shown(str(value))))
    return drawn


def end_of(title: str) -> str:
    """The title without the directories that its sample lies in but for the last: those of a lake begin alike."""
    path, blank, words = title.partition(" ")
    return "/".join(path.split("/")[-2:]) + blank + words
