"""Commands around a lake: scan before it, report and probes of its versions, sample and docs without one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mmlake.cli.app import (
    DEFAULT_LAKE,
    LANDING_KINDS,
    JsonOption,
    LakeOption,
    SettingsOption,
    app,
    bars_of,
    emit,
    open_lake,
    open_landing,
)
from mmlake.drawing import key_values, number_of, table
from mmlake.errors import SettingsError

if TYPE_CHECKING:
    from rich.console import Console

    from mmlake.landing import Landing
    from mmlake.progress import Advance


@app.command(rich_help_panel="Inspect")
def scan(
    landing: Annotated[
        list[str],
        typer.Option(
            "--landing", help=f"Landing zone to inspect: {LANDING_KINDS}. Several as NAME=ADDRESS, each below its name."
        ),
    ],
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            min=1,
            help="Stop where that many samples of each landing zone are found, in the order of shard keys.",
        ),
    ] = None,
    ignored: Annotated[
        bool,
        typer.Option("--ignored", help="List the hidden, unfinished and marker files instead, which nothing reads."),
    ] = False,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Which shards a landing zone has, in which format and with which modalities. Reads only; needs no lake.

    Example: `mmlake scan --landing ./shards`, `mmlake scan --landing ./shards --ignored`,
    `mmlake scan --landing hf://datasets/HuggingFaceFW/fineweb-edu --limit 100`
    """
    from mmlake.settings import Settings
    from mmlake.sources import scan as scan_all
    from mmlake.sources.excerpt import scan_first

    section, zone = Settings.load(settings).sources, open_landing(landing)
    if ignored:
        _emit_left_out(zone, as_json=as_json)
        return
    if limit is None:
        with _opening(as_json) as advance:
            shards = scan_all(zone, settings=section, advance=advance)
    else:
        shards = scan_first(zone, limit, settings=section)
    fields = ("key", "format", "modalities", "size_bytes", "directories")
    data = [{name: getattr(shard, name) for name in fields} for shard in shards]
    rows = [
        [one.key, one.format, ", ".join(one.modalities), one.size_bytes, len(one.directories) or ""] for one in shards
    ]
    columns = ["shard", "format", "modalities", "bytes", "directories"]
    drawn = table(number_of(len(rows), "shard"), columns, rows, right=columns[3:])
    nothing = f"nothing to ingest in {zone.location}: no files but hidden, unfinished (.part, .tmp) and marker files"
    counts = Counter[str]()
    if not as_json and limit is None:
        with suppress(SettingsError):  # storage that is not on this machine
            counts.update(one.reason for one in zone.left_out())

    def draw(out: Console) -> None:
        out.print(drawn if rows else nothing, soft_wrap=not rows)
        if counts["hidden"] or counts["unfinished"]:
            named = ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items()))
            out.print(f"left out by their names: {named}; `mmlake scan --ignored` lists them", soft_wrap=True)

    emit(data, as_json=as_json, draw=draw)


@contextmanager
def _opening(as_json: bool) -> Iterator[Advance]:
    """An Advance that draws how many files were opened."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} files opened"), TimeElapsedColumn())
    with Progress(*columns, **bars_of(as_json)) as progress:
        bar = progress.add_task("landing zone", total=None)
        yield lambda count: progress.advance(bar, count)


def _emit_left_out(zone: Landing, *, as_json: bool) -> None:
    """Show what the landing zone has and nothing reads."""
    found = list(zone.left_out())
    counts = Counter(one.reason for one in found)
    data = {"counts": dict(sorted(counts.items())), "left_out": [one._asdict() for one in found]}
    drawn = table(
        f"{number_of(len(found), 'name')} left out",
        ["path", "bytes", "reason"],
        [[one.path, one.size_bytes, one.reason] for one in found],
        right=["bytes"],
    )
    nothing = f"nothing is left out of {zone.location}"
    emit(data, as_json=as_json, draw=lambda out: out.print(drawn if found else nothing, soft_wrap=not found))


@app.command(rich_help_panel="Versions")
def probes(
    pin: Annotated[
        Path | None, typer.Option("--pin", help="JSON lines of probes to measure every later version with.")
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    as_json: JsonOption = False,
) -> None:
    """The frozen probes of a lake; `--pin FILE` replaces them by your own.

    Each line: {"id", "kind": "text", "modality", "query", "relevant": [digests], "hard_negatives": []}.

    Example: `mmlake probes`, `mmlake probes --pin my-probes.jsonl`
    """
    from mmlake.evaluate import ProbeSet
    from mmlake.evaluate.probes import read_probe_file
    from mmlake.publish import pin_probes, pinned_probes

    opened = open_lake(lake)
    if pin is not None:
        pin_probes(opened, read_probe_file(pin))
    pinned = pinned_probes(opened) or ProbeSet(())
    counts = Counter(f"{probe.kind} -> {probe.modality}" for probe in pinned.probes)
    data = {"digest": pinned.digest, "num_probes": len(pinned.probes), "by_kind": dict(sorted(counts.items()))}
    emit(
        data,
        as_json=as_json,
        draw=lambda out: out.print(key_values({"probe set": pinned.digest, "probes": len(pinned.probes), **counts})),
    )


@app.command(rich_help_panel="Versions")
def report(
    version: Annotated[str, typer.Argument(help="Version to report on; the newest curated one when left out.")] = "",
    lake: LakeOption = DEFAULT_LAKE,
    as_json: JsonOption = False,
) -> None:
    """Write the self-contained HTML report of a version and print its path.

    Example: `mmlake report curated-v001`
    """
    from mmlake.version_report import write_version_report

    path = write_version_report(open_lake(lake), version or None)
    emit({"report": str(path)}, as_json=as_json, draw=lambda out: out.print(str(path), soft_wrap=True))


@app.command(rich_help_panel="Run")
def sample(
    out: Annotated[Path, typer.Option("--out", help="Empty directory to write to.")],
    scale: Annotated[float, typer.Option(help="Size of the corpus; 1 is about 700 items.")] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Generate the sample landing zone with its planted truth: equal bytes on every run.

    Example: `mmlake sample --out sample`
    """
    from mmlake.sample import SampleSettings, generate

    truth = generate(out, settings=SampleSettings(scale=scale))
    data = {"landing": str(out / "landing"), "truth": str(out / "truth.json"), "items": len(truth.items)}
    emit(data, as_json=as_json, draw=lambda screen: screen.print(key_values(data)))


@app.command("compile", rich_help_panel="Maintain")
def compile_(as_json: JsonOption = False) -> None:
    """Compile the inner loops of deduplication, films and speech now, once for this machine, instead of at the first
    run that needs them.

    Example: `mmlake compile`, in a Dockerfile `RUN mmlake compile`
    """
    from rich.progress import Progress

    from mmlake.compiled_loops import LOOPS, compile_all

    took = {}
    with Progress(**bars_of(as_json)) as progress:
        task = progress.add_task("compiling", total=len(LOOPS))
        for name, seconds in compile_all():
            took[name] = round(seconds, 2)
            progress.advance(task)
    emit({"seconds": took}, as_json=as_json, draw=lambda screen: screen.print(key_values(took)))


@app.command(rich_help_panel="Maintain", hidden=True)
def docs(
    out: Annotated[Path, typer.Option("--out", file_okay=False, help="Folder of the generated pages.")] = Path("docs"),
) -> None:
    """Write the pages that are made from the code: errors.md, cli.md and settings.md.

    Example: `mmlake docs --out docs`
    """
    from mmlake.cli.pages import cli_page, errors_page
    from mmlake.cli.settings_page import settings_page

    out.mkdir(parents=True, exist_ok=True)
    made = {"errors.md": errors_page(), "cli.md": cli_page(app), "settings.md": settings_page()}
    for name, text in made.items():
        (out / name).write_text(text, encoding="utf-8")
    typer.echo(json.dumps({"written": list(made)}))
