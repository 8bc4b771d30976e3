"""The typer application, the options that commands share, and the one place where output and errors leave the
program."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from mmlake.drawing import json_shown, shown
from mmlake.errors import MmlakeError, SettingsError

# the library with Arrow takes a second to load, which `--help` and a mistyped option need not wait for
if TYPE_CHECKING:
    from mmlake.lake import Lake
    from mmlake.landing import Landing

app = typer.Typer(
    name="mmlake",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

PANELS = ("Run", "Inspect", "Versions", "Maintain")  # of `mmlake --help`, in this order


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"mmlake {version('mmlake')}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Raw multimodal shards in, versioned, deduplicated, evaluated training data out."""


LakeOption = Annotated[
    Path, typer.Option("--lake", envvar="MMLAKE_LAKE", help="Directory of the lake.", show_default=True)
]
SettingsOption = Annotated[
    Path | None, typer.Option("--settings", envvar="MMLAKE_SETTINGS", help="TOML file with one table per stage.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table for people.")]
LANDING_KINDS = (
    "a directory, s3://BUCKET/PREFIX, hf://datasets/ORG/NAME, http(s)://HOST/DIRECTORY/ or another storage of "
    "docs/remote.md (gs://, az://, sftp://, ...)"
)
LandingOption = Annotated[
    list[str] | None,
    typer.Option(
        "--landing",
        help=f"A landing zone instead of a lake: {LANDING_KINDS}. Several as NAME=ADDRESS, each below its name.",
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit",
        min=0,
        help="Take only that many samples of each landing zone, in the order of shard keys; 0 takes all. Default: what "
        "the lake remembers.",
    ),
]
DEFAULT_LAKE = Path("lake")
# a person can repair these
_ENVIRONMENT = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ESTALE,
}
_DATABASE = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
}
# with less to spare, what a database cannot write is taken for a full disk: SQLite often has no more to say than EIO
_FULL_BYTES = 1 << 20


def open_lake(root: Path, settings: Path | None = None, *, landing: Path | None = None) -> Lake:
    """The lake of an existing directory. Raises SettingsError where there is none."""
    # a lake that sensors of an earlier release made has tables and remembers no landing zone
    if landing is None and not ((root / "lake.json").exists() or (root / "tables").is_dir()):
        raise SettingsError(
            f"{root} holds no lake; make one with `mmlake run --landing DIR --lake {root}`, or name another with --lake"
        )
    from mmlake.lake import Lake
    from mmlake.settings import Settings

    return Lake(root, landing=landing, settings=Settings.load(settings))


def open_landing(texts: list[str]) -> Landing:
    """The landing zone that the texts of --landing name. Raises SettingsError where they do not go together, or name
    what is no directory."""
    from mmlake.landing import addresses_of, as_landing

    given = addresses_of([text for text in texts if text])
    if given is None or (isinstance(given, dict) and not all(given.values())):
        raise SettingsError(
            "--landing names no landing zone; write --landing DIR, or --landing NAME=DIR for each of several"
        )
    return as_landing(given)


def console() -> Console:
    """Where tables and bars are drawn; wide enough for a table when the output is no terminal. Text is drawn as it
    is: brackets in data are no markup."""
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160
    return Console(width=width, highlight=False, markup=False, emoji=False)


def messages() -> Console:
    """stderr, for bars and errors; text is drawn as it is."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def bars_of(as_json: bool) -> dict[str, Any]:
    """How rich draws a bar: on stderr, and only where somebody sees it move."""
    screen = messages()
    return {"console": screen, "disable": as_json or not screen.is_terminal, "transient": True}


def emit(data: Any, *, as_json: bool, draw: Callable[[Console], None]) -> None:
    """Print the data as JSON, or let `draw` show it."""
    if as_json:
        typer.echo(json_shown(data))
    else:
        draw(console())


def main(application: typer.Typer = app) -> None:
    """Run the command line: an error that a person must act on is one line on stderr and its own exit code, never a
    traceback."""
    try:
        application(standalone_mode=True)
    except MmlakeError as error:
        messages().print(Text.assemble(("error:", "bold red"), " ", shown(str(error))), soft_wrap=True)
        raise SystemExit(error.exit_code) from None
    except BrokenPipeError:
        raise SystemExit(0) from None
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):
            raise SystemExit(0) from None  # of a page of help, whose reader has seen enough
        raise
    except (OSError, sqlite3.Error) as error:
        found = error if isinstance(error, OSError) else of_the_disk(error)
        if found is None or found.errno not in _ENVIRONMENT:
            raise  # a mistake of ours, whose place the traceback shows
        place = f": {found.filename}" if found.filename else ""
        messages().print(
            Text.assemble(
                ("error:", "bold red"),
                " ",
                shown(f"the disk or its rights{place}: {found.strerror}; repair that, then run the same command again"),
            ),
            soft_wrap=True,
        )
        raise SystemExit(MmlakeError.exit_code) from None


def of_the_disk(error: sqlite3.Error, place: Path | None = None) -> OSError | None:
    """What a database could not do, as an error of the disk that it lies on; None where the disk is not to blame.
    place: of the database, where it is known."""
    number = _DATABASE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
    if number is None:
        return None
    if number == errno.EIO and place is not None and shutil.disk_usage(place).free < _FULL_BYTES:
        number = errno.ENOSPC
    return OSError(number, os.strerror(number), *([str(place)] if place else []))
