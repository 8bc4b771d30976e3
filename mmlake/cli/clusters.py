"""The command that lists clusters of duplicates and makes a page of one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from mmlake.cli.app import DEFAULT_LAKE, JsonOption, LakeOption, app, emit, open_lake
from mmlake.drawing import table

_NAMES = ["size", "modality", "radius", "tiers", "survivor", "why it stays"]


@app.command(rich_help_panel="Inspect")
def clusters(
    digest: Annotated[
        str | None, typer.Argument(help="Digest of any unit of a cluster, or its first characters: makes its page.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", dir_okay=False, help="The page to write; cluster-DIGEST.html when left out.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=2_000, help="Clusters listed, or duplicates shown.")] = 20,
    modality: Annotated[str | None, typer.Option("--modality", help="Only text, image, video or audio.")] = None,
    tier: Annotated[str | None, typer.Option("--tier", help="Only with duplicates of near or semantic.")] = None,
    lake: LakeOption = DEFAULT_LAKE,
    as_json: JsonOption = False,
) -> None:
    """The largest clusters of duplicates, or one of them as a page: its survivor, every duplicate, and why it goes.

    Example: `mmlake clusters`, `mmlake clusters --modality image --tier near`, `mmlake clusters 3f2a9c41 --limit 200`
    """
    from mmlake.cluster_pages import cluster_of, largest, write_cluster

    opened = open_lake(lake)
    if digest is None:
        found = largest(opened, modality=modality, tier=tier, count=limit)
        lines = [
            [one.size, one.modality, f"{one.radius:.4f}", _counted(one.tiers), one.survivor[:12], _counted(one.reasons)]
            for one in found
        ]
        listed = [{name: value for name, value in asdict(one).items() if name != "members"} for one in found]
        emit(
            {"clusters": listed},
            as_json=as_json,
            draw=lambda screen: screen.print(table("Largest clusters of duplicates", _NAMES, lines, right=["size"])),
        )
        return
    one = cluster_of(opened, digest, modality=modality)
    page = out or Path(f"cluster-{one.survivor[:12]}.html")
    num_shown = write_cluster(opened, one, page, limit=limit)
    data: dict[str, Any] = {"page": str(page), "num_shown": num_shown} | asdict(one)

    def draw(screen: Console) -> None:
        screen.print(f"{page}: {one.survivor[:12]} and {num_shown} of its {one.size - 1} duplicates", soft_wrap=True)

    emit(data, as_json=as_json, draw=draw)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} ({num})" for name, num in counts.items())
