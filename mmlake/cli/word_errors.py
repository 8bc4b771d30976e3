"""The command that compares the transcripts of a lake with gold texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mmlake.cli.app import DEFAULT_LAKE, JsonOption, LakeOption, app, emit, open_lake
from mmlake.drawing import table


@app.command(rich_help_panel="Inspect")
def wer(
    gold: Annotated[
        Path,
        typer.Argument(help="Folder of gold texts: NAME.txt, .srt or .vtt, or *.trans.txt."),
    ],
    lake: LakeOption = DEFAULT_LAKE,
    as_json: JsonOption = False,
) -> None:
    """Word and character error rates of transcripts against gold texts, by source, before and after correction.

    Example: `mmlake wer ./gold --lake ./lake`
    """
    from mmlake.word_errors import word_errors

    found = [one.to_dict() for one in word_errors(open_lake(lake), gold)]

    def draw(out: Console) -> None:
        if not found:
            out.print("no recording or film with a transcript has the name of a gold text")
            return
        names = ["source", "transcript", "written_by", "num_texts", "num_words", "wer", "cer"]
        lines = [[one[name] for name in names] for one in found]
        out.print(table("error rates", names, lines, right=names[3:]))

    emit({"rows": found}, as_json=as_json, draw=draw)
