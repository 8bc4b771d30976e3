"""Benchmarks that a user runs: `mmlake bench ann`; `mmlake bench av` stands in `bench_av.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from mmlake.cli.app import JsonOption, SettingsOption, app, bars_of, emit, open_lake
from mmlake.drawing import table
from mmlake.errors import SettingsError

bench_app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
app.add_typer(
    bench_app,
    name="bench",
    rich_help_panel="Inspect",
    help="Benchmarks on this machine, of generated data or of a lake's own.\n\n"
    "Example: `mmlake bench ann --quick`, `mmlake bench ann --lake ./lake --modality image`",
)
_SIZES, _DIMENSIONS = "2000,4000,8000,16000", "64,256"  # about 50 CPU seconds
_QUICK_SIZES, _QUICK_DIMENSIONS = "500,1000,2000", "32"


@bench_app.command()
def ann(
    sizes: Annotated[str, typer.Option("--sizes", help="Numbers of vectors, with commas between.")] = "",
    dimensions: Annotated[
        str, typer.Option("--dimensions", help="Dimensions of generated vectors, with commas between.")
    ] = "",
    bound: Annotated[float, typer.Option(help="Cosine of a duplicate; of a lake's vectors, its encoder's.")] = 0.9,
    budget_cpu_s: Annotated[
        float, typer.Option("--budget-cpu-s", min=1.0, help="CPU seconds that joining all vectors may take.")
    ] = 3_600.0,
    k: Annotated[int, typer.Option("--k", min=1, help="Neighbours in recall@k.")] = 10,
    queries: Annotated[int, typer.Option("--queries", min=10, help="Vectors that ask, a seeded sample.")] = 1_000,
    lake: Annotated[
        Path | None, typer.Option("--lake", help="Measure on the vectors of this lake instead of generated ones.")
    ] = None,
    modality: Annotated[str, typer.Option("--modality", help="Whose vectors of the lake.")] = "text",
    out: Annotated[
        Path, typer.Option("--out", file_okay=False, help="Folder of ann.json, ann.csv and ann.svg.")
    ] = Path("bench"),
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: a few CPU seconds.")] = False,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recall, speed, memory and build time of flat, IVF-Flat, IVF-PQ with refine, HNSW, ScaNN where it is installed,
    and cells; the size where brute force stops being viable; a projection to a billion vectors; and which index
    `dedup.index = "auto"` would take.

    Example: `mmlake bench ann --quick`, `mmlake bench ann --sizes 10000,40000 --dimensions 384 --budget-cpu-s 600`,
    `mmlake bench ann --lake ./lake --modality image --out bench`
    """
    from mmlake.bench import Plan
    from mmlake.dedup.vectors.proposals import FEWEST
    from mmlake.settings import Settings

    section = Settings.load(settings).dedup
    numbers = _numbers("--sizes", sizes or (_QUICK_SIZES if quick else _SIZES), least=FEWEST)
    chosen = _numbers("--dimensions", dimensions or (_QUICK_DIMENSIONS if quick else _DIMENSIONS), least=2)
    given: dict[str, Any] = {"bound": bound, "sizes": numbers, "dimensions": chosen}
    what, source = _generated(bound, section.seed) if lake is None else _held(lake, modality, settings, given, sizes)
    given |= {"budget_cpu_s": budget_cpu_s, "plan": Plan(k=k, num_queries=queries), "settings": section}
    found = {"vectors": what} | _run(source, given, as_json=as_json)

    from mmlake.bench import write

    found["files"] = write(found, out)
    emit(found, as_json=as_json, draw=lambda screen: _draw(screen, found))


def _generated(bound: float, seed: int) -> tuple[str, Any]:
    from mmlake.bench import clustered

    return "generated", lambda size, dimension: clustered(size, dimension, bound=bound, seed=seed)


def _held(lake: Path, modality: str, settings: Path | None, given: dict[str, Any], sizes: str) -> tuple[str, Any]:
    """(what is measured, the vectors of the lake); bound, sizes and dimension become those of the lake."""
    from mmlake.bench import of_lake

    vectors, bound, encoder = of_lake(open_lake(lake, settings), modality)
    shares = {min(size, len(vectors)) for size in given["sizes"]} if sizes else _shares(len(vectors))
    given |= {"bound": bound, "sizes": sorted(shares), "dimensions": [vectors.shape[1]]}
    return f"{modality} of {lake} ({encoder})", lambda size, dimension: vectors[:size]


def _run(source: Any, given: dict[str, Any], *, as_json: bool) -> dict[str, Any]:
    """What was measured, under a bar."""
    from rich.progress import Progress

    from mmlake.bench import run
    from mmlake.bench.ann import num_steps

    with Progress(**bars_of(as_json)) as progress:
        total = num_steps(given["plan"]) * sum(given["sizes"]) * len(given["dimensions"])
        bar = progress.add_task("vectors", total=total)
        return run(source, **given, advance=lambda count: progress.advance(bar, count))


def _numbers(option: str, text: str, *, least: int) -> list[int]:
    try:
        numbers = sorted({int(part) for part in text.split(",")})
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < least:
        raise SettingsError(f"{option} is {text!r}; write whole numbers of {least} and more with commas between")
    return numbers


def _shares(num: int) -> set[int]:
    """Sizes to measure of so many vectors: all, and halves of them down to an eighth."""
    from mmlake.dedup.vectors.proposals import FEWEST

    return {max(FEWEST, num // part) for part in (8, 4, 2, 1)}


def _draw(out: Console, found: dict[str, Any]) -> None:
    largest = max(row["num"] for row in found["rows"])
    columns = ["index", "parameter", "d", "recall@k", "recall at bound", "queries/CPU s", "build CPU s", "bytes/vector"]
    names = ("index", "parameter", "dimension", "recall_at_k", "recall_at_bound", "queries_per_cpu_s", "build_cpu_s",
             "bytes_per_vector")  # fmt: skip
    lines = [[row[name] for name in names] for row in found["rows"] if row["num"] == largest]
    out.print(table(f"{largest:,} vectors, {found['vectors']}", columns, lines, right=columns[2:]))
    for growth in found["growth"]:
        out.print()
        lines = [
            [name, f"{fit['scale']:.3g} x n^{fit['exponent']:.2f}", fit["r_squared"]]
            for name, fit in growth["fits"].items()
        ]
        out.print(
            table(f"CPU s to search for all, d = {growth['dimension']}", ["index", "fit", "R2"], lines, right=["R2"])
        )
        _print_break_even(out, growth, found["budget_cpu_s"])
    out.print()
    _print_projection(out, found["projection"])
    for one in found["choices"]:
        words = f"auto would take {one['index']} for {one['num']:,} vectors of {one['dimension']} numbers: {one['why']}"
        out.print(words, soft_wrap=True)
    out.print(" ".join(found["files"].values()), soft_wrap=True)


def _print_break_even(out: Console, growth: dict[str, Any], budget_cpu_s: float) -> None:
    size, cheaper = growth["brute_force_meets_budget_at"], growth["cells_are_cheaper_from"]
    if size is not None:
        out.print(f"brute force takes {budget_cpu_s:,.0f} CPU s at {size:,} vectors (n^2 from the largest size)")
    if cheaper is not None:
        out.print(f"cells are cheaper from {cheaper:,} vectors on")


def _print_projection(out: Console, one: dict[str, Any]) -> None:
    out.print(
        f"{one['num']:,} vectors of {one['dimension']} numbers: {one['float32_bytes'] / 1e12:.2f} TB of float32, "
        f"{one['code_bytes'] / 1e9:,.0f} GB of codes ({one['bytes_arithmetic']})",
        soft_wrap=True,
    )
    lines = [[name, cost["cpu_hours"], f"n^{cost['exponent']:.2f}"] for name, cost in one["joins"].items()]
    title = f"CPU hours to join them, by growth measured at d = {one['measured_at_dimension']}"
    out.print(table(title, ["index", "CPU hours", "growth"], lines, right=["CPU hours"]))
