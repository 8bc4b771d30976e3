"""A difference between two versions as tables for a terminal: causes, reasons and samples."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console

from mmlake.drawing import short, table

_MAX_CHARS = 60  # of a value that changed; the whole is in --json


def draw_diff(out: Console, data: dict[str, Any], title: str) -> None:
    """Causes, reasons and, where they are asked for, samples."""
    lines = [
        [what, modality, cause, count]
        for what in ("added", "removed", "changed")
        for modality, causes in data[what].items()
        for cause, count in causes.items()
    ]
    out.print(
        table(
            title,
            ["", "modality", "cause", "samples"],
            lines,
            right=["samples"],
        )
        if lines
        else "no difference"
    )
    kept = [[modality, kind, count] for modality, kinds in data["edited"].items() for kind, count in kinds.items()]
    if kept:
        out.print()
        title = "Edited: removed as one sample and added as another"
        out.print(table(title, ["modality", "kept", "samples"], kept, right=["samples"]))
    shares = [
        [what, reason, count, f"{count / sum(counts.values()):.1%}"]
        for what, counts in data["reasons"].items()
        for reason, count in counts.items()
    ]
    if shares:
        out.print()
        out.print(table("Reasons", ["", "reason", "samples", "share"], shares, right=["samples", "share"]))
    for name, rows in data.get("samples", {}).items():
        if rows and name == "edited":
            pairs = [[short(row["sample"]), short(row["was"]), row["modality"], row["kept"]] for row in rows]
            out.print()
            out.print(table(name, ["sample", "was", "modality", "kept"], pairs))
        elif rows:
            drawn = [
                [
                    short(row["sample"]),
                    short(row["lead"]),
                    row["modality"],
                    row.get("cause") or _change(row),
                    row["reason"],
                ]
                for row in rows
            ]
            out.print()
            out.print(table(name, ["sample", "lead", "modality", "cause", "reason"], drawn))


def _change(row: Mapping[str, Any]) -> str:
    """The field and what became of it: of parts those that came and went."""
    before, after = (_spelled(row[name]) for name in ("before", "after"))
    if row["field"] == "parts":
        moves = (*_parts("-", before, after), *_parts("+", after, before))
        return f"parts: {', '.join(moves) or 'other order'}"
    return f"{row['field']}: {_value(before)} -> {_value(after)}"


def _spelled(value: str | None) -> Any:
    return None if value is None else json.loads(value)


def _parts(sign: str, those: Iterable[Mapping[str, Any]], others: Iterable[Mapping[str, Any]]) -> list[str]:
    """The parts that are not among the others, by what makes them one part."""
    known = {_key(part) for part in others}
    return [f"{sign}{part['modality']} {short(part['digest'])}" for part in those if _key(part) not in known]


def _key(part: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(part[name] for name in ("role", "digest", "fields_json"))


def _value(value: Any) -> str:
    if isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef"):
        return short(value)
    spelled = json.dumps(value, ensure_ascii=False)
    return spelled if len(spelled) <= _MAX_CHARS else f"{spelled[: _MAX_CHARS - 3]}..."
