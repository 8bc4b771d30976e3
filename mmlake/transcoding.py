"""Training renditions of the films of a lake: a folder with one MP4 per film, and a line per film that says what
became of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from mmlake.border import Failure, attempt
from mmlake.cuts import Rendition, transcoded
from mmlake.lake import Lake
from mmlake.progress import Advance, silent
from mmlake.store import checked_file, write_atomically

LINES = "renditions.jsonl"
_FAILED = 3303


def transcode_films(
    lake: Lake, folder: Path, rendition: Rendition, *, limit: int | None = None, advance: Advance = silent
) -> list[dict[str, Any]]:
    """A row per film that decodes, by digest: its rendition, or why it has none. What an earlier call made and is
    still sound stays; `cuts.workers` programs run at a time. limit: at most so many films."""
    digests = sorted(set(_films(lake)))[:limit]
    folder.mkdir(parents=True, exist_ok=True)
    make = partial(_row, lake, folder, rendition)
    rows = []
    with ThreadPoolExecutor(lake.settings.cuts.workers) as threads:
        for row in threads.map(make, digests):
            rows.append(row)
            advance(1)
    lines = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
    write_atomically(folder / LINES, lines.encode())
    return rows


def _films(lake: Lake) -> Iterator[str]:
    for tracks in lake.tables.scan_parts("tracks", "video", columns=["digest", "status"]):
        yield from (row["digest"] for row in tracks.to_pylist() if row["status"] == "ok")


def _row(lake: Lake, folder: Path, rendition: Rendition, digest: str) -> dict[str, Any]:
    made = attempt(
        partial(_made, lake, folder, rendition), digest, code=_FAILED, what="no rendition can be made of the film"
    )
    if isinstance(made, Failure):
        return {"digest": digest, "status": "unreadable", "error_code": made.code, "error": made.reason}
    return {"digest": digest, "status": "ok", "error_code": None, "error": None} | made


def _made(lake: Lake, folder: Path, rendition: Rendition, digest: str) -> dict[str, Any]:
    with checked_file(lake.store, digest) as film:
        cut = transcoded(film, digest, folder, rendition, settings=lake.settings.cuts)
    place = str(cut.path.relative_to(folder))
    return {"path": place, "sha256": cut.sha256, "size_bytes": cut.size_bytes} | cut.facts
