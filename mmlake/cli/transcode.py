"""The command that makes training renditions of films."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mmlake.cli.app import DEFAULT_LAKE, JsonOption, LakeOption, SettingsOption, app, emit, open_lake
from mmlake.drawing import table


@app.command(rich_help_panel="Run")
def transcode(
    out: Annotated[
        Path,
        typer.Argument(file_okay=False, help="Folder of the renditions; what it holds already is not made again."),
    ],
    lake: LakeOption = DEFAULT_LAKE,
    settings: SettingsOption = None,
    codec: Annotated[str, typer.Option(help="h264, or hevc.")] = "h264",
    height: Annotated[int, typer.Option(help="Pixels; lower films keep theirs.")] = 480,
    rate: Annotated[float, typer.Option(help="Frames per second; 0 keeps the times of the film.")] = 0.0,
    gop: Annotated[int, typer.Option(help="Frames from one keyframe to the next, at most.")] = 30,
    crf: Annotated[int, typer.Option(help="Of the encoder, 0 to 51, smaller is better.")] = 23,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many films.")] = None,
    as_json: JsonOption = False,
) -> None:
    """One codec, height and rate for every film that decodes, as MP4s with what each was made of and by.

    Example: `mmlake transcode ./renditions --lake ./lake --height 360 --rate 10`
    """
    from mmlake.cuts import Rendition
    from mmlake.transcoding import LINES, transcode_films

    rendition = Rendition(codec=codec, height_px=height, frame_rate=rate, keyframe_every_frames=gop, crf=crf)
    rows = transcode_films(open_lake(lake, settings), out, rendition, limit=limit)

    def draw(console: Console) -> None:
        lines = [
            [row["digest"][:12], row["status"], row.get("num_frames"), row.get("size_bytes"), row["error"] or ""]
            for row in rows
        ]
        console.print(table(f"{out / LINES}", ["film", "status", "frames", "bytes", "reason"], lines))

    emit({"rows": rows}, as_json=as_json, draw=draw)
