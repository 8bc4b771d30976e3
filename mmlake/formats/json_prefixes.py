"""What stands near the surface of a JSON text, with the path to it, as far as the bytes go.

`ijson.parse` gives each value the names of all that it lies in: a file of 100 kB that opens 50,000 brackets took
6 GB.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

_OPENING, _CLOSING = frozenset(("start_map", "start_array")), frozenset(("end_map", "end_array"))


def shallow_events(head: bytes, *, most_deep: int) -> Iterator[tuple[str, str, Any]]:
    """(path, event, value) as `ijson.parse` gives them, of what lies in at most so many objects and lists. A text that
    ends or breaks ends the events."""
    import ijson

    paths = [""]  # to the objects and lists that are open, the first ones; the last is the path to what comes next
    depth = 0
    try:
        for event, value in ijson.basic_parse(io.BytesIO(head), use_float=True):
            if event in _CLOSING:
                depth -= 1
                del paths[depth + 1 :]
            if depth <= most_deep:
                if event == "map_key":
                    yield paths[depth - 1], event, value
                    paths[depth] = _below(paths[depth - 1], value)
                else:
                    yield paths[depth], event, value
            if event in _OPENING:
                depth += 1
                if depth <= most_deep:
                    paths.append(_below(paths[-1], "item") if event == "start_array" else paths[-1])
    except (ijson.JSONError, ValueError, OverflowError):
        return


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
