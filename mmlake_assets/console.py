"""The `mmlake` command: the library's commands, and those that go through Dagster (`run`, `publish`, `retry`,
`demo`, `ui`)."""

import gc
import os
import signal
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from mmlake.cli.app import (
    DEFAULT_LAKE,
    LANDING_KINDS,
    PANELS,
    JsonOption,
    LakeOption,
    LimitOption,
    SettingsOption,
    app,
    console,
    emit,
    main,
)
from mmlake.cli.upkeep import CodeOption, ShardOption, TransientOption
from mmlake.errors import SettingsError
from mmlake.locks import lasting_lock
from mmlake.optional import kept_imports

RecipeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--recipe",
        help="Recipes to publish, by name or file; may be given twice. Default: everything and curated.",
    ),
]
LandingZonesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--landing",
        help=f"Landing zone: {LANDING_KINDS}. The revision of a data set on the hub is pinned anew when it is "
        "named here. Several as NAME=ADDRESS, each below its "
        "name; NAME= takes one away. Default: MMLAKE_LANDING, with blanks between several, then what the "
        "lake remembers.",
    ),
]
DeviceOption = Annotated[str, typer.Option("--device", envvar="MMLAKE_DEVICE", help="auto, cpu or cuda.")]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=0,
        envvar="MMLAKE_WORKERS",
        help="Processes that decode; 0 for as many as there are cores. Default: what the settings file says, else 0.",
    ),
]
DEFAULT_RECIPES = ("everything", "curated")  # in this order: the curated version is compared with everything
# Rows of a table as Python objects set the search for garbage off again and again: a tenth of the CPU time of a run
# over 50,000 pictures. Peak memory is the same.
RARELY = (10_000, 20, 20)
_SERVICES = ("-m", "mmlake_assets.door_services", "--log-level", "warning")  # at info, each tick is two lines


@app.command(rich_help_panel="Run")
def run(
    landing: LandingZonesOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    settings: SettingsOption = None,
    device: DeviceOption = "auto",
    recipe: RecipeOption = None,
    limit: LimitOption = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring a lake up to date with its landing zone, through Dagster: every table, the catalog, a version per recipe,
    the report.

    What is done is not done again; a run that was stopped goes on where it was.

    Example: `mmlake run --landing ./shards --lake ./lake`,
    `mmlake run --landing hf://datasets/HuggingFaceFW/fineweb-edu --limit 1000`,
    `mmlake run --landing coco=/data/coco --landing speech=s3://corpora/LibriSpeech`
    """
    with nullcontext() if gc.get_freeze_count() else kept_imports():  # once in a process
        from mmlake_assets.show import run_and_show

    data = run_and_show(
        lake,
        landing=_given(landing),
        settings=settings,
        device=device,
        recipes=recipe or DEFAULT_RECIPES,
        quiet=as_json,
        limit=limit,
        workers=workers,
    )
    emit(data.to_dict(), as_json=as_json, draw=data.draw)


def _given(landing: list[str] | None) -> str | dict[str, str] | None:
    """The landing zones that the options name, else the environment; None where neither does."""
    from mmlake.landing import absolute, addresses_in, addresses_of

    found = addresses_of(landing) if landing else addresses_in(os.environ.get("MMLAKE_LANDING", ""))
    if isinstance(found, dict):  # an empty address takes a landing zone away
        return {name: absolute(address) if address else "" for name, address in found.items()}
    return absolute(found) if found else None


@app.command(rich_help_panel="Run")
def publish(
    recipe: Annotated[
        str, typer.Option("--recipe", help="Name of a recipe of the package or the lake, or a file of TOML.")
    ],
    branch: Annotated[
        str | None, typer.Option("--branch", help="Branch to move; versions are called after it. Default: the recipe.")
    ] = None,
    message: Annotated[str, typer.Option("--message", help="A sentence to keep with the version.")] = "",
    is_dry: Annotated[
        bool,
        typer.Option("--dry-run", help="Say how many samples each clause takes away, alone and in order; no more."),
    ] = False,
    lake: LakeOption = DEFAULT_LAKE,
    settings: SettingsOption = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Publish a version of what the lake holds, by a recipe, on a branch of any name. Nothing is ingested; where the
    newest version of the branch is that already, nothing is made.

    Example: `mmlake publish --recipe captioned.toml --branch try-captions --dry-run`
    """
    from mmlake.cli.app import open_lake
    from mmlake.cli.recipes import draw_dry_run
    from mmlake.publish import wanted
    from mmlake.publish.dry_run import dry_run
    from mmlake_assets.show import publish_and_show

    opened = open_lake(lake, settings)
    request = wanted(opened, recipe, branch=branch, message=message)
    if is_dry:
        found = dry_run(opened, request.recipe)
        emit(found.to_dict(), as_json=as_json, draw=lambda out: draw_dry_run(out, found, lake))
        return
    data = publish_and_show(lake, request, settings=settings, device=device, quiet=as_json)
    emit(
        data,
        as_json=as_json,
        draw=lambda out: out.print(
            f"{data['version']}: {data['num_samples']} samples, branch {data['branch']}, "
            f"{'new' if data['is_new'] else 'nothing to do'}"
        ),
    )


@app.command(rich_help_panel="Run")
def retry(
    code: CodeOption = None,
    shard: ShardOption = None,
    transient: TransientOption = False,
    lake: LakeOption = DEFAULT_LAKE,
    settings: SettingsOption = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Try the failed items of a finished run again, and only those; then bring everything that follows from them up to
    date.

    `mmlake failed` lists them. Items that were read before are not read again.

    Example: `mmlake retry`, `mmlake retry --transient`, `mmlake retry --code 1002 --shard text/a.jsonl`
    """
    from mmlake.cli.app import open_lake
    from mmlake.drawing import key_values
    from mmlake.upkeep import failed_rows, request_retries
    from mmlake_assets.show import run_and_show

    opened = open_lake(lake, settings)
    before = failed_rows(opened, codes=code or (), shards=shard or (), transient=transient)
    tried = request_retries(opened, before)
    if tried:
        run_and_show(lake, landing=None, settings=settings, device=device, recipes=DEFAULT_RECIPES, quiet=as_json)
    still = {row["letter"] for row in failed_rows(open_lake(lake, settings))}
    data = {
        "failed": len(before),
        "tried_again": tried,
        "read_now": sum(row["letter"] not in still for row in before),
        "failed_again": sum(row["letter"] in still for row in before),
    }
    emit(data, as_json=as_json, draw=lambda out: out.print(key_values(data)))


@app.command(rich_help_panel="Run")
def demo(
    directory: Annotated[Path, typer.Option("--dir", help="Where the sample landing zone and the lake go.")] = Path(
        "demo"
    ),
    scale: Annotated[float, typer.Option(help="Size of the sample corpus; 1 is about 700 items.")] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Generate the sample corpus with its planted truth, run the whole lake on it, publish a third version by a recipe
    file on a branch of its own, and hold the result against the truth.

    Example: `mmlake demo --dir demo`
    """
    from mmlake.publish import Request
    from mmlake.recipes import read
    from mmlake.sample import write_recipe
    from mmlake.truth import prepare_sample
    from mmlake_assets.show import run_and_show
    from mmlake_assets.watching import generating

    started = time.perf_counter()
    with generating(as_json) as advance:
        truth = prepare_sample(directory / "sample", scale=scale, advance=advance)
    recipe = write_recipe(directory / "lake" / "recipes")
    data = run_and_show(
        directory / "lake",
        landing=str((directory / "sample" / "landing").absolute()),
        settings=None,
        device="auto",
        recipes=(*DEFAULT_RECIPES, Request(recipe=read(recipe), branch="try-captions")),
        quiet=as_json,
        truth=truth,
    )
    data.seconds = time.perf_counter() - started
    emit(data.to_dict(), as_json=as_json, draw=data.draw)
    raise typer.Exit(0 if data.is_truth_met else 1)


@app.command(rich_help_panel="Run")
def ui(
    lake: LakeOption = DEFAULT_LAKE,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port of the web server, on 127.0.0.1.")] = 3000,
    settings: SettingsOption = None,
    device: DeviceOption = "auto",
    landing: LandingZonesOption = None,
) -> None:
    """Open the Dagster UI on the lake, with its sensors, history and partitions. Stop it with Ctrl-C.

    With a landing zone, the lake need not be there yet: the sensors make it. The web server has no login and listens on
    this machine only; it refuses what the pages of other sites send. docs/deploy.md says how to serve others.

    Example: `mmlake ui --lake ./lake`, `mmlake ui --landing ./shards --lake ./lake`
    """
    from mmlake.cli.app import open_lake
    from mmlake.lake import Lake
    from mmlake_assets.caller_watch import become
    from mmlake_assets.instance import EVENT_BATCHES, dagster_home
    from mmlake_assets.show import ready_history

    if (given := _given(landing)) is None:
        open_lake(lake)
    else:
        _ = Lake(lake, landing=given).landing  # raises here what every tick of a sensor would
    _refuse_taken(port)
    ready_history(lake)
    environment = os.environ | {
        "DAGSTER_HOME": str(dagster_home(lake)),
        "MMLAKE_LAKE": str(lake.absolute()),
        # empty: what the lake remembers
        "MMLAKE_LANDING": " ".join(f"{name}={address}" for name, address in given.items())
        if isinstance(given, dict)
        else given or "",
        "MMLAKE_DEVICE": device,
        **EVENT_BATCHES,
    }
    if settings:
        environment["MMLAKE_SETTINGS"] = str(settings.absolute())
    address = f"http://127.0.0.1:{port}"

    def taken(note: str) -> str:
        return (
            f"lake {lake} has a UI already, {note or 'which is starting'}; open that one, or stop it first: of two, "
            "each would start the runs of the sensors"
        )

    held = lasting_lock(lake / ".ui.lock", taken=taken, note=f"{address} (process {os.getpid()})")
    console().print(f"Dagster UI of {lake}: {address}")
    # before what Dagster says; and where this process becomes Dagster, what stays in the buffer is lost
    sys.stdout.flush()
    # A shell that starts a job in the background lets it ignore Ctrl-C, and Dagster then ignores SIGTERM too, and the
    # word of its parent to end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise typer.Exit(
        become(
            [sys.executable, *_SERVICES, "--port", str(port)],
            environment,
            held=held,
        )
    )


def _refuse_taken(port: int) -> None:
    """Raises SettingsError where something listens on the port: Dagster would say so in a log line and go on without
    its web server."""
    import socket

    with socket.socket() as probe:
        probe.settimeout(1)
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise SettingsError(
                f"port {port} of 127.0.0.1 is in use, perhaps by the UI of this lake; open "
                f"http://127.0.0.1:{port}, or give another one with --port"
            )


# What a person begins with stands first, and not what was imported first.
app.registered_commands.sort(
    key=lambda command: (PANELS.index(str(command.rich_help_panel)), getattr(command.callback, "__name__", ""))
)


def entry() -> None:
    """What the `mmlake` script calls."""
    gc.set_threshold(*RARELY)
    main(app)
