"""The command that draws a review set next to a rule's bound, and reads what people say of it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mmlake.cli.app import DEFAULT_LAKE, JsonOption, LakeOption, SettingsOption, app, emit, open_lake
from mmlake.drawing import table


@app.command(rich_help_panel="Inspect")
def review(
    rule: Annotated[str, typer.Argument(help="Name of the rule, as `mmlake errors` has it.")],
    out: Annotated[
        Path, typer.Option("--out", file_okay=False, help="Directory of review.html and verdicts.csv.")
    ] = Path("review"),
    count: Annotated[int, typer.Option("--count", min=1, max=500, help="Units on either side of the bound.")] = 20,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the draw.")] = 0,
    modality: Annotated[
        str | None, typer.Option("--modality", help="Only text, image, video or audio, where several have the rule.")
    ] = None,
    verdicts: Annotated[
        Path | None,
        typer.Option("--verdicts", help="Draw nothing; read this verdicts.csv, filled in with yes (fault) or no."),
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Units next to a rule's bound as a page of pictures and players, and what people say of them.

    The page mixes both sides of the bound and shows no value. From the filled CSV: precision of those that break the
    rule and miss rate of those that do not, next to the bound, with 95 % intervals.

    Example: `mmlake review blurred --out review`, `mmlake review blurred --verdicts review/verdicts.csv`
    """
    from mmlake.review import draw, rules_of, shares, write_review

    opened = open_lake(lake, settings)
    rules = rules_of(opened, rule, modality=modality)
    if verdicts is not None:
        found = [asdict(one) for one in shares(verdicts, rules)]

        def show(screen: Console) -> None:
            names = ["name", "share", "low", "high", "num_faulty", "num_judged", "num_units"]
            screen.print(table(rule, names, [[one[name] for name in names] for one in found], right=names[1:]))

        emit({"rule": rule, "shares": found}, as_json=as_json, draw=show)
        return
    drawn = draw(opened, rules, count=count, seed=seed)
    page, lines = write_review(opened, drawn, out)
    broken = sum(one.is_broken for one in drawn)
    data = {"page": str(page), "verdicts": str(lines), "num_broken": broken, "num_kept": len(drawn) - broken}

    def draw_files(screen: Console) -> None:
        screen.print(f"{page}: {broken} units that break the rule and {len(drawn) - broken} that keep it, mixed")
        screen.print(f"{lines}: write yes or no into the column verdict, then give it as --verdicts")

    emit(data, as_json=as_json, draw=draw_files)
