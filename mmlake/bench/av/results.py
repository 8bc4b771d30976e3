"""One run of `mmlake bench av`: the figures of its parts, as JSON and CSV."""

from __future__ import annotations

import csv
import json
import os
import platform
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from mmlake.bench.av.rows import AvRow, Part, Run
from mmlake.errors import SettingsError
from mmlake.progress import Advance, silent


def measured(
    parts: Sequence[Part], folder: Path | None, *, seed: int, limit: int, advance: Advance = silent
) -> dict[str, Any]:
    """Everything that was measured, as plain data. folder: labelled media; None: media made with the seed.

    Raises SettingsError where the folder is none, or a part reads no labels.
    """
    if folder is not None and not folder.is_dir():
        raise SettingsError(f"{folder} is no folder; name one with media and their truth, or none to have them made")
    rows: list[AvRow] = []
    for part in parts:
        with tempfile.TemporaryDirectory(prefix="mmlake-bench-av-") as scratch:
            run = Run(seed=seed, limit=limit, scratch=Path(scratch), advance=advance)
            if folder is None:
                rows += part.generated(run)
            elif part.labelled is None:
                raise SettingsError(f"part {part.name!r} reads no labelled folder; leave the folder out")
            else:
                rows += part.labelled(folder, run)
    return {
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "media": "generated" if folder is None else str(folder),
        "seed": seed,
        "limit": limit,
        "rows": [asdict(row) | {"is_met": row.is_met} for row in rows],
        "num_missed": sum(row.is_met is False for row in rows),
    }


def written(found: dict[str, Any], out: Path) -> dict[str, str]:
    """The files that hold what was measured: `av.json` and `av.csv` in this folder."""
    out.mkdir(parents=True, exist_ok=True)
    files = {"json": out / "av.json", "csv": out / "av.csv"}
    files["json"].write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    with files["csv"].open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, [*(field.name for field in fields(AvRow)), "is_met"])
        writer.writeheader()
        writer.writerows(found["rows"])
    return {kind: str(path) for kind, path in files.items()}
