"""The command that lists what is least like the rest of a lake."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from mmlake.cli.app import DEFAULT_LAKE, JsonOption, LakeOption, app, emit, open_lake
from mmlake.drawing import end_of, table

_NAMES = ["distance", "modality", "unit", "title", "nearest", "at", "its title"]


@app.command(rich_help_panel="Inspect")
def outliers(
    modality: Annotated[str | None, typer.Option("--modality", help="Only text, image, video or audio.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Units listed of each modality.")] = 10,
    lake: LakeOption = DEFAULT_LAKE,
    as_json: JsonOption = False,
) -> None:
    """The units that are least like the others of their modality: strays, damage that no rule knows, rare subjects.

    Distances are cosine distances of the vectors of the catalog: the mean to the nearest five, and that to the nearest
    one. Duplicates and what no version may hold are left out.

    Example: `mmlake outliers`, `mmlake outliers --modality image --limit 50 --json`
    """
    from mmlake.publish.outliers import outliers as found_in

    opened = open_lake(lake)
    names = opened.parts.modalities if modality is None else (opened.parts.modality(modality).name,)
    found = found_in(opened, modalities=list(names), count=limit)
    lines = [
        [
            f"{one.distance:.4f}", one.modality, one.digest[:12], end_of(one.title), one.nearest[:12],
            f"{one.nearest_distance:.4f}", end_of(one.nearest_title),
        ]
        for one in found
    ]  # fmt: skip
    emit(
        {"outliers": [asdict(one) for one in found]},
        as_json=as_json,
        draw=lambda screen: screen.print(table("Least like the others", _NAMES, lines, right=["distance", "at"])),
    )
