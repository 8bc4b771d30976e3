"""The docs pages that are made from the code, so that they cannot go stale: errors and commands."""

from __future__ import annotations

import typer
import typer.main

from mmlake.errors import CODES
from mmlake.quality import error_codes

_MADE = "<!-- made by `make docs`; do not edit -->"


def errors_page() -> str:
    """docs/errors.md: every code, what happened, what to do."""
    lines = [
        "# Error codes",
        "",
        _MADE,
        "",
        "The `error_code` column of the stage tables and of the catalog. 1xxx sources, 2xxx store, 3xxx preprocess, 4xxx quality.",
        "P0 must not enter a version, P1 is isolated for review, P2 stays in with a smaller weight.",
        "",
    ]
    lines += ["| code | name | severity | what happened | what to do |", "| --- | --- | --- | --- | --- |"]
    entries = sorted([*CODES.values(), *error_codes()], key=lambda entry: entry.code)
    return "\n".join([*lines, *(f"| {entry.code} | {entry.name} | {entry.severity} | {entry.what} | {entry.fix} |" for entry in entries)]) + "\n"


def cli_page(app: typer.Typer) -> str:
    """docs/cli.md: every command with its help and options."""
    group = typer.main.get_command(app)
    parts = [
        "# Commands",
        "",
        _MADE,
        "",
        "Every command takes `--help`; those that print tables take `--json`. Errors are one line on stderr; exit codes are in `mmlake/errors.py`.",
        "",
    ]
    for name, command in sorted(group.commands.items()):  # type: ignore[attr-defined]
        if command.hidden:
            continue
        parts += [f"## mmlake {name}", "", (command.help or "").strip(), ""]
        for option in command.params:
            spelled = ", ".join(f"`{text}`" for text in option.opts) if option.param_type_name == "option" else f"`{option.name.upper()}`"
            if (help_text := getattr(option, "help", None)) is not None:
                parts.append(f"- {spelled}: {help_text}")
        parts.append("")
    return "\n".join(parts)
