"""`mmlake bench av`: shots, damages, voices, words and clocks of films and recordings, against known truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from mmlake.cli.app import JsonOption, bars_of, emit
from mmlake.cli.bench import bench_app
from mmlake.drawing import number_of, table
from mmlake.errors import SettingsError


@bench_app.command()
def av(
    folder: Annotated[
        Path | None, typer.Argument(help="Labelled media of your own; without it media are made, with known truth.")
    ] = None,
    part: Annotated[
        list[str] | None, typer.Option("--part", help="Only this part; may be given several times. Default: all.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the media that are made.")] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Cases of each kind.")] = 6,
    list_parts: Annotated[bool, typer.Option("--list", help="Only name the parts and the truth they read.")] = False,
    out: Annotated[Path, typer.Option("--out", file_okay=False, help="Folder of av.json and av.csv.")] = Path("bench"),
    as_json: JsonOption = False,
) -> None:
    """How well shots, damages, voices, words and clocks are found: a figure per kind of case with what is wanted of it.

    Example: `mmlake bench av`, `mmlake bench av --list`, `mmlake bench av --part shots --limit 40 --seed 7`,
    `mmlake bench av ~/labelled --part vad`
    """
    from rich.progress import Progress

    from mmlake.bench.av import PARTS, measured, written

    if list_parts:
        found: dict[str, Any] = {
            "parts": [{"name": one.name, "what": one.what, "truth": one.truth} for one in PARTS.values()]
        }
        emit(found, as_json=as_json, draw=lambda screen: _draw_parts(screen, found))
        return
    unknown = sorted(set(part or ()) - set(PARTS))
    if unknown:
        raise SettingsError(f"--part {', '.join(unknown)} is none of {', '.join(PARTS)}; correct it")
    with Progress(**bars_of(as_json)) as progress:
        bar = progress.add_task("cases", total=None)
        found = measured(
            [PARTS[name] for name in part or PARTS],
            folder,
            seed=seed,
            limit=limit,
            advance=lambda count: progress.advance(bar, count),
        )
    found["files"] = written(found, out)
    emit(found, as_json=as_json, draw=lambda screen: _draw(screen, found))


def _draw_parts(out: Console, found: dict[str, Any]) -> None:
    lines = [[one["name"], one["what"], one["truth"]] for one in found["parts"]]
    out.print(table("", ["part", "what it measures", "truth next to the media of a labelled folder"], lines))


def _draw(out: Console, found: dict[str, Any]) -> None:
    says = {True: "yes", False: "NO", None: ""}
    lines = [
        [row["part"], row["case"], row["measure"], row["value"], row["floor"], says[row["is_met"]], row["num"],
         row["note"]]
        for row in found["rows"]
    ]  # fmt: skip
    columns = ["part", "case", "measure", "value", "wanted", "met", "cases", "note"]
    out.print(table(f"{found['media']}, seed {found['seed']}", columns, lines, right=["value", "cases"]))
    if found["num_missed"]:
        out.print(f"{number_of(found['num_missed'], 'figure')} below what is wanted", soft_wrap=True)
    out.print(" ".join(found["files"].values()), soft_wrap=True)
