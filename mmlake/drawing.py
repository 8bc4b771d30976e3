"""Plain tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> Table:
    """A plain table. right: columns of numbers."""
    drawn = Table(title=title or None, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        drawn.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(
            *(
                "" if cell is None else cell if isinstance(cell, str) else f"{cell:,}" if isinstance(cell, int) else f"{cell:.4g}" if isinstance(cell, float) else str(cell)
                for cell in row
            )
        )
    return drawn


def short(digest: str | None) -> str:
    """The first 12 characters of a digest: enough to tell items apart, and accepted wherever a digest is asked for."""
    return digest[:12] if digest else ""


def key_values(rows: Mapping[str, object]) -> Table:
    """Two columns: what, and its value."""
    drawn = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name, value in rows.items():
        drawn.add_row(f"[dim]{name}[/dim]", str(value))
    return drawn
