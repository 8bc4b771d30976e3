"""JSON that opens brackets without end: what a scan asks of its first bytes stays in bounds. 100 kB took 6 GB."""

from __future__ import annotations

import io
import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import ijson
import pytest

from mmlake.formats.json_prefixes import shallow_events
from tests.hostile.memory import rows_of

DEEP = 50_000
FILES = {
    "a list of records": b'[{"text": "a", "n": ' + b"[" * DEEP + b"]" * DEEP + b'}, {"text": "good"}]',
    "a list of records by name": b'[{"text": "a", "n": ' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b'}, {"text": "b"}]',
    "annotations": b'{"info": {}, "images": [{"id": 1, "n": ' + b"[" * DEEP + b"]" * DEEP + b"}]}",
    "annotations by name": b'{"info": {}, "images": [{"id": 1, "n": ' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}]}",
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_brackets_in_brackets_are_read_within_bounds(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.json").write_bytes(FILES[name])
    tracemalloc.start()
    rows = rows_of(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
    assert len(rows) == 1 + name.startswith("a list")


def made(rng: random.Random, deep: int) -> Any:
    kind = rng.randrange(6) if deep else rng.randrange(2)
    if kind < 2:
        return rng.choice([1, "a", None, True, 2.5])
    if kind < 4:
        return [made(rng, deep - 1) for _ in range(rng.randrange(4))]
    return {rng.choice(["item", "a", "a.b"]): made(rng, deep - 1) for _ in range(rng.randrange(4))}


@pytest.mark.parametrize("most_deep", [1, 2, 3, 9])
def test_near_the_surface_the_events_are_those_of_the_parser(most_deep: int) -> None:
    rng = random.Random(most_deep)
    for _ in range(200):
        text = json.dumps(made(rng, 6)).encode()
        expected, depth = [], 0
        for prefix, event, value in ijson.parse(io.BytesIO(text), use_float=True):
            depth -= event in ("end_map", "end_array")
            if depth <= most_deep:
                expected.append((prefix, event, value))
            depth += event in ("start_map", "start_array")
        assert list(shallow_events(text, most_deep=most_deep)) == expected, text
