"""The command that takes rows out: `mmlake rows`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from mmlake.cli.app import (
    DEFAULT_LAKE,
    JsonOption,
    LakeOption,
    LandingOption,
    SettingsOption,
    app,
    bars_of,
    emit,
    open_lake,
    open_landing,
)
from mmlake.drawing import number_of, shown, table
from mmlake.errors import RowsUnreadable, SettingsError
from mmlake.progress import Advance

if TYPE_CHECKING:
    from mmlake.rows.batch import RowBatch
    from mmlake.rows.export import Exported
    from mmlake.rows.materialize import Places
    from mmlake.rows.row_writer import WriteSettings
    from mmlake.settings import Settings

PANEL = "Versions"


@dataclass(frozen=True)
class _Source:
    """Where rows come from."""

    batches: Callable[[Callable[[int], None]], Iterator[RowBatch]]
    places: Places
    num_shards: int
    about: dict[str, Any] = field(default_factory=dict)
    num_absent: int = 0  # digests of the version that the items have no more


VersionArgument = Annotated[
    str,
    typer.Argument(
        help="Version, branch, tag or id whose items are written; everything that was ingested when left out."
    ),
]
ShardOption = Annotated[list[str] | None, typer.Option("--shard", help="Only this shard; may be given several times.")]
ToOption = Annotated[str, typer.Option("--to", help="parquet or webdataset.")]
OutOption = Annotated[Path, typer.Option("--out", help="Directory of the files and of their _provenance.json.")]
FieldsOption = Annotated[
    str | None,
    typer.Option("--fields", help="Fields of the records to keep, with commas between; all when left out."),
]
PerImageFieldsOption = Annotated[
    str, typer.Option("--per-image-fields", help="With --landing: list fields that have one value per image.")
]
PerTextFieldsOption = Annotated[
    str, typer.Option("--per-text-fields", help="With --landing: list fields that have one value per text.")
]
MaterializeOption = Annotated[
    str,
    typer.Option(
        "--materialize",
        help="When bytes of media are read into the rows: read (before the filters), write (after them) or never.",
    ),
]
OnErrorOption = Annotated[
    str,
    typer.Option(
        "--on-error",
        help="Rows whose bytes cannot be read, and what of a version no source has any more: error, warn, drop_row or "
        "drop_sample.",
    ),
]
FiltersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        help="NAME or NAME=LOW:HIGH, either end may be left out; `--filter list` shows them. May be given several "
        "times.",
    ),
]
KeepInvalidOption = Annotated[
    bool, typer.Option("--keep-invalid", help="Keep rows of unknown modalities and at impossible positions.")
]
DistinctOption = Annotated[
    bool,
    typer.Option(
        "--distinct", help="Of a lake: write each digest once, in the first sample that has it; others lose that part."
    ),
]
CompressionOption = Annotated[str, typer.Option("--compression", help="Parquet: snappy, zstd, gzip or none.")]
RowGroupRowsOption = Annotated[int, typer.Option("--row-group-rows", help="Parquet: rows of a row group.")]
SamplesPerFileOption = Annotated[
    int, typer.Option("--samples-per-file", help="Samples of a file; it is also closed at 1 GiB.")
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace what this command wrote there before.")]
AppendOption = Annotated[bool, typer.Option("--append", help="Write next to what is there.")]


@app.command(rich_help_panel=PANEL)
def rows(
    version: VersionArgument = "",
    lake: LakeOption = DEFAULT_LAKE,
    landing: LandingOption = None,
    shard: ShardOption = None,
    to: ToOption = "parquet",
    out: OutOption = Path("rows"),
    fields: FieldsOption = None,
    per_image_fields: PerImageFieldsOption = "",
    per_text_fields: PerTextFieldsOption = "",
    materialize: MaterializeOption = "write",
    on_error: OnErrorOption = "error",
    filters: FiltersOption = None,
    keep_invalid: KeepInvalidOption = False,
    distinct: DistinctOption = False,
    compression: CompressionOption = "snappy",
    row_group_rows: RowGroupRowsOption = 16_384,
    samples_per_file: SamplesPerFileOption = 100_000,
    overwrite: OverwriteOption = False,
    append: AppendOption = False,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write interleaved rows as Parquet or WebDataset: texts and media of a sample in order, with the fields of its
    record.

    Nothing is left under `--out` where a write fails. Rows read = rows written + rows dropped, each with its reason.

    Example: `mmlake rows curated --to webdataset --out export`,
    `mmlake rows --landing ./shards --out pq --filter aspect_ratio=1:2 --filter blur=100: --on-error drop_row`
    """
    from mmlake.rows.row_writer import WriteSettings
    from mmlake.settings import Settings

    if filters == ["list"]:
        _show_filters(as_json)
        return
    chosen = _chosen(filters or [], keep_invalid=keep_invalid)
    how = WriteSettings(
        mode=_mode(overwrite=overwrite, append=append),
        on_error=on_error,
        compression=compression,
        row_group_rows=row_group_rows,
        samples_per_file=samples_per_file,
    )
    lists = _lists(fields, per_image_fields, per_text_fields)
    if landing:
        if distinct:
            raise SettingsError("--distinct compares digests, which a lake has; leave it out, or --landing")
        is_read = materialize != "never"
        source = _of_landing(landing, version, shard, lists, settings, with_bytes=is_read, batch_bytes=how.part_bytes)
    else:
        source = _of_lake(lake, version, shard, lists, settings, distinct=distinct, on_error=on_error)
    tree = Settings.load(settings)
    with _bar(source.num_shards, quiet=as_json) as bars:
        done = _export(source, out, bars, to=to, chosen=chosen, moment=materialize, how=how, tree=tree, lists=lists)
    files = [file.name for file in done.written.files]
    data = {"out": str(out), "files": files, "provenance": str(out / "_provenance.json"), **done.to_dict()}
    data["num_absent"] = source.num_absent
    emit(data, as_json=as_json, draw=lambda screen: _draw(screen, data))


def _export(
    source: _Source,
    out: Path,
    bars: tuple[Advance, Advance],
    *,
    to: str,
    chosen: list[Any],
    moment: str,
    how: WriteSettings,
    tree: Settings,
    lists: dict[str, Any],
) -> Exported:
    from mmlake.rows.export import export_rows

    advance_shards, advance_rows = bars
    with tree.compute.pool() as runner:
        return export_rows(
            source.batches(advance_shards),
            out,
            to=to,
            places=source.places,
            filters=chosen,
            moment=moment,
            settings=how,
            models=tree.embed,
            runner=runner,
            about={"from": source.about, **lists},
            advance=advance_rows,
        )


def _lists(fields: str | None, per_image_fields: str, per_text_fields: str) -> dict[str, Any]:
    return {
        "fields": None if fields is None else _names(fields),
        "per_image_fields": _names(per_image_fields),
        "per_text_fields": _names(per_text_fields),
    }


def _mode(*, overwrite: bool, append: bool) -> str:
    if overwrite and append:
        raise SettingsError("--overwrite and --append exclude one another; give one of them")
    return "overwrite" if overwrite else "append" if append else "error"


def _chosen(texts: list[str], *, keep_invalid: bool) -> list[Any]:
    from mmlake.rows.filter import parse_filter
    from mmlake.rows.filters import FILTERS

    chosen = [parse_filter(text, FILTERS) for text in texts]
    if keep_invalid or any(one.name == "validity" for one in chosen):
        return chosen
    return [FILTERS["validity"], *chosen]


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _of_lake(
    root: Path,
    version: str,
    shards: list[str] | None,
    lists: dict[str, Any],
    settings: Path | None,
    *,
    distinct: bool,
    on_error: str,
) -> _Source:
    from mmlake.rows.lake_rows import absent, lake_rows, lake_shards
    from mmlake.rows.materialize import Places
    from mmlake.tables import Slot

    if lists["per_image_fields"] or lists["per_text_fields"]:
        raise SettingsError(
            "--per-image-fields and --per-text-fields are read with --landing; for a lake set "
            "sources.per_image_fields before the ingest"
        )
    opened = open_lake(root, settings)
    id_ = opened.versions.resolve(version) if version else None
    digests = None if id_ is None else opened.versions.items(id_).column("parent_digest").unique().to_pylist()
    gone = [] if digests is None else absent(opened.tables, digests)
    if gone and on_error == "error":
        raise RowsUnreadable(
            f"{version} has {len(gone)} texts and media, such as {gone[0]}, that no source of the lake has any more: "
            f"there are no rows of them; all of them are in {opened.shards_dir / str(id_)} (docs/loader.md), and "
            "`--on-error warn` writes the rows that are left"
        )
    chosen = list(dict.fromkeys(shards)) if shards else lake_shards(opened.tables)
    stamps = {
        str(slot): stamp.data_version
        for key in chosen
        for modality in opened.tables.modalities("items")
        if (stamp := opened.tables.stamp(slot := Slot("items", modality, key)))
    }
    about = {"lake": str(root), "version": version or None, "manifest": id_, "tables": stamps, "num_absent": len(gone)}

    def batches(advance: Callable[[int], None]) -> Iterator[RowBatch]:
        return lake_rows(
            opened.tables, shards=chosen, digests=digests, is_distinct=distinct, fields=lists["fields"], advance=advance
        )

    places = Places(store=opened.store, settings=opened.settings.sources)
    return _Source(batches, places, len(chosen), about, len(gone))


def _of_landing(
    addresses: list[str],
    version: str,
    shards: list[str] | None,
    lists: dict[str, Any],
    settings: Path | None,
    *,
    with_bytes: bool,
    batch_bytes: int,
) -> _Source:
    from mmlake.rows.landing_rows import landing_rows, pick_shards
    from mmlake.rows.materialize import Places
    from mmlake.settings import Settings

    if version:
        raise SettingsError(f"version {version!r} is of a lake; give --landing or a version, not both")
    landing, section = open_landing(addresses), Settings.load(settings).sources
    chosen = pick_shards(landing, shards or None, settings=section)

    def batches(advance: Callable[[int], None]) -> Iterator[RowBatch]:
        return landing_rows(
            chosen,
            landing=landing,
            settings=section,
            with_bytes=with_bytes,
            batch_bytes=batch_bytes,
            advance=advance,
            **lists,
        )

    return _Source(
        batches,
        Places(landing=landing, settings=section),
        len(chosen),
        {"landing": landing.provenance(), "shards": {one.key: one.revision for one in chosen}},
    )


@contextmanager
def _bar(num_shards: int, *, quiet: bool) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """(advance by shards, advance by rows) of a bar on stderr."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("shards"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, **bars_of(quiet)) as progress:
        task = progress.add_task("rows", total=num_shards, rows=0)

        def advance_rows(count: int) -> None:
            progress.update(task, rows=progress.tasks[0].fields["rows"] + count)

        yield lambda count: progress.advance(task, count), advance_rows


def _draw(screen: Console, data: dict[str, Any]) -> None:
    lines = [
        ["read", data["num_rows_in"]],
        *([f"dropped: {reason}", count] for reason, count in data["dropped"].items()),
        ["written", data["num_rows"]],
    ]
    lines += [
        [name, data[key]]
        for name, key in (
            ("written without bytes (warn)", "num_failed"),
            ("of the version, in no source any more (warn)", "num_absent"),
            ("samples", "num_samples"),
            ("samples renamed", "num_renamed"),
        )
        if data[key]
    ]
    screen.print(
        table(f"{number_of(len(data['files']), 'file')} in {data['out']}", ["rows", "count"], lines, right=["count"])
    )
    for text in (*data["examples"][:3], *data["problems"]):
        screen.print(shown(text), style="dim", soft_wrap=True)


def _show_filters(as_json: bool) -> None:
    from dataclasses import asdict

    from mmlake.rows.filters import FILTERS

    data = [
        {
            name: value
            for name, value in asdict(one).items()
            if name in ("name", "what", "measure", "unit", "low", "high")
        }
        for one in FILTERS.values()
    ]
    lines = [[one["name"], one["low"], one["high"], one["unit"], one["what"]] for one in data]
    emit(
        data,
        as_json=as_json,
        draw=lambda out: out.print(
            table("Filters", ["filter", "low", "high", "unit", "keeps out"], lines, right=["low", "high"])
        ),
    )
