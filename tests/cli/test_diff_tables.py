"""A difference between two versions as people read it."""

from __future__ import annotations

import io
import json
from typing import Any

from rich.console import Console

from mmlake.cli.diff_tables import draw_diff

KEPT, GONE = "a" * 64, "b" * 64


def part(digest: str, modality: str) -> dict[str, Any]:
    return {"role": "media", "digest": digest, "modality": modality, "fields_json": None, "position": 0}


def drawn(*changes: tuple[str, Any, Any]) -> list[str]:
    """The lines of the table of changes, each a field before and after."""
    names = ("sample", "lead", "modality", "reason", "field", "before", "after")
    rows = [
        dict(zip(names, ("s", KEPT, "image", "recipe", field, json.dumps(was), json.dumps(now)), strict=True))
        for field, was, now in changes
    ]
    data = {
        "added": {},
        "removed": {},
        "changed": {"image": {"parts": len(rows)}},
        "reasons": {"changed": {}},
        "edited": {},
    }
    out = Console(width=200, record=True, file=io.StringIO())
    draw_diff(out, data | {"samples": {"added": [], "removed": [], "changed": rows}}, "a -> b")
    lines = out.export_text().splitlines()
    return lines[-len(rows) :]


def test_of_changed_parts_those_that_came_and_went_are_listed() -> None:
    """A line for each change: the whole of all parts took twenty."""
    both, one = [part(GONE, "audio"), part(KEPT, "image")], [part(KEPT, "image")]
    (away,) = drawn(("parts", both, one))
    assert "parts: -audio bbbbbbbbbbbb " in away
    (back,) = drawn(("parts", one, both))
    assert "parts: +audio bbbbbbbbbbbb " in back
    (order,) = drawn(("parts", both, both[::-1]))
    assert "parts: other order " in order


def test_values_are_short_and_have_their_reason() -> None:
    (lead, weight, fields) = drawn(("lead", GONE, KEPT), ("weight", 1.0, 0.5), ("fields_json", None, "x" * 500))
    assert "lead: bbbbbbbbbbbb -> aaaaaaaaaaaa " in lead
    assert "weight: 1.0 -> 0.5 " in weight
    assert "fields_json: null -> " in fields
    assert all(line.rstrip().endswith("recipe") for line in (lead, weight, fields))


def test_edited_samples_are_counted_and_listed_as_pairs() -> None:
    pair = {"sample": KEPT, "was": GONE, "modality": "image", "kept": "same medium"}
    data = {"added": {"image": {"new": 1}}, "removed": {"image": {"absent": 1}}, "changed": {}, "reasons": {}}
    out = Console(width=200, record=True, file=io.StringIO())
    draw_diff(out, data | {"edited": {"image": {"same medium": 1}}, "samples": {"edited": [pair]}}, "a -> b")
    lines = [line.split() for line in out.export_text().splitlines()]
    assert ["image", "same", "medium", "1"] in lines
    assert [KEPT[:12], GONE[:12], "image", "same", "medium"] in lines
