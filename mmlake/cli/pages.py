"""The docs pages that are made from the code, so that they cannot go stale: errors and commands."""

from __future__ import annotations

from typing import Any

import typer
import typer.main

from mmlake.cli.field_codes import field_codes_table
from mmlake.error_codes import CODES
from mmlake.errors import MmlakeError
from mmlake.modalities import MODALITIES
from mmlake.quality import error_codes

MADE = "<!-- made by `make docs`; do not edit -->"


def errors_page() -> str:
    """docs/errors.md: every code, what happened, what to do."""
    lines = [
        "# Error codes",
        "",
        MADE,
        "",
        "The `error_code` column of the stage tables and of the catalog. 1xxx sources, 2xxx store, 3xxx "
        "preprocess, 4xxx quality, 9xxx "
        "rules of plugins (`mmlake errors --settings FILE`).",
        "P0 must not enter a version, P1 is isolated for review, P2 stays in with a smaller weight.",
        "",
    ]
    lines += ["| code | name | severity | what happened | what to do |", "| --- | --- | --- | --- | --- |"]
    entries = sorted(
        [*CODES.values(), *error_codes(rule for row in MODALITIES.values() for rule in row.rules)],
        key=lambda entry: entry.code,
    )
    return (
        "\n".join(
            [
                *lines,
                *(
                    f"| {entry.code} | {entry.name} | {entry.severity} | {entry.what} | {entry.fix} |"
                    for entry in entries
                ),
                "",
                "## The classes of runbooks for video and audio",
                *field_codes_table(),
            ]
        )
        + "\n"
    )


def _exit_codes() -> dict[int, list[str]]:
    """Exit code -> what it says, a sentence for each kind of error."""
    meanings = {0: ["Done, also where nothing was to do."], 130: ["Stopped with Ctrl-C; what is done stays done."]}
    meanings[MmlakeError.exit_code] = [
        "A run failed for several reasons at once, `mmlake demo` missed its truth, or the disk is full or not writable."
    ]
    for kind in MmlakeError.__subclasses__():
        if kind.__module__ == MmlakeError.__module__:  # those of other modules say how such an error came about
            meanings.setdefault(kind.exit_code, []).append((kind.__doc__ or "").partition("\n")[0])
    return meanings


def cli_page(app: typer.Typer) -> str:
    """docs/cli.md: every command with its help and options."""
    group = typer.main.get_command(app)
    parts = [
        "# Commands",
        "",
        MADE,
        "",
        "Every command takes `--help`; those that print tables take `--json`. Results are on stdout; progress "
        "and errors, one line each, on stderr.",
        "",
        "| exit code | when |",
        "| --- | --- |",
        *(f"| {code} | {' '.join(meanings)} |" for code, meanings in sorted(_exit_codes().items())),
        "",
    ]
    for name, command in sorted(group.commands.items()):  # type: ignore[attr-defined]
        if command.hidden:
            continue
        parts += [f"## mmlake {name}", "", (command.help or "").strip(), ""]
        parts += _options(command)
        for inner, part in sorted(getattr(command, "commands", {}).items()):
            parts += [f"### mmlake {name} {inner}", "", (part.help or "").strip(), "", *_options(part)]
    return "\n".join(parts)


def _options(command: Any) -> list[str]:
    """A line for each option and argument, and an empty one."""
    lines = []
    for option in command.params:
        spelled = (
            ", ".join(f"`{text}`" for text in option.opts)
            if option.param_type_name == "option"
            else f"`{option.name.upper()}`"
        )
        if (help_text := getattr(option, "help", None)) is not None:
            lines.append(f"- {spelled}: {help_text}")
    return [*lines, ""]
