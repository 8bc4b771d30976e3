"""Commands that make Python environments for libraries whose requirements conflict with ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mmlake.cli.app import JsonOption, app, bars_of, emit
from mmlake.drawing import table

environments_app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
app.add_typer(
    environments_app,
    name="environments",
    rich_help_panel="Maintain",
    help="Python environments of their own: whisperx, pyannote, demucs, resemblyzer.\n\n"
    "Example: `mmlake environments list`, `mmlake environments add demucs`",
)
NameArgument = Annotated[str, typer.Argument(help="whisperx, pyannote, demucs or resemblyzer.")]
FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        file_okay=False,
        envvar="MMLAKE_ENVIRONMENTS",
        help="Where environments lie; a lake finds them by `preprocess.environments`. Default: the user's cache.",
    ),
]


@environments_app.command()
def add(
    name: NameArgument,
    folder: FolderOption = None,
    python: Annotated[
        Path | None, typer.Option("--python", help="Python to make it with; default: one whose version fits.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make an environment, or go on making it; one that is whole is left as it is. Model weights are no part of it.

    Example: `mmlake environments add pyannote`, `mmlake environments add whisperx --python python3.12`
    """
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from mmlake.environments import add_environment

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, **bars_of(as_json)) as progress:
        bar = progress.add_task(name, total=None)
        found = add_environment(
            name, folder=folder, python=python, report=lambda text: progress.update(bar, description=text)
        )
    emit(
        found.to_dict(),
        as_json=as_json,
        draw=lambda out: out.print(f"{name} is ready in {found.folder} ({found.size_bytes / 1e9:.2f} GB)"),
    )


@environments_app.command(name="list")
def list_environments(folder: FolderOption = None, as_json: JsonOption = False) -> None:
    """Which environments there are, what each is for, and whether it is here.

    Example: `mmlake environments list`
    """
    from mmlake.environments import ENVIRONMENTS, installed

    found = [installed(name, folder) for name in ENVIRONMENTS]
    data = [
        one.to_dict() | {"what": row.what, "requirements": row.requirements, "licence": row.licence}
        for one, row in zip(found, ENVIRONMENTS.values(), strict=True)
    ]
    rows = [
        [one.name, one.status, f"{one.size_bytes / 1e9:.2f} GB" if one.size_bytes else row.size, row.what]
        for one, row in zip(found, ENVIRONMENTS.values(), strict=True)
    ]
    drawn = table("environments", ["name", "status", "size", "for"], rows, right=["size"])
    emit(data, as_json=as_json, draw=lambda out: out.print(drawn))


@environments_app.command()
def remove(name: NameArgument, folder: FolderOption = None, as_json: JsonOption = False) -> None:
    """Delete an environment.

    Example: `mmlake environments remove whisperx`
    """
    from mmlake.environments import remove_environment

    was_there = remove_environment(name, folder=folder)
    said = f"{name} is removed" if was_there else f"there is no environment {name}"
    emit({"name": name, "removed": was_there}, as_json=as_json, draw=lambda out: out.print(said))
