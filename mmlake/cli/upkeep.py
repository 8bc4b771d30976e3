"""Commands that maintain the store and list failures: fsck, gc, usage, failed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmlake.cli.app import DEFAULT_LAKE, JsonOption, LakeOption, app, bars_of, emit, open_lake
from mmlake.drawing import key_values, number_of, short, shown, table
from mmlake.errors import BlobCorrupt, LakeLocked

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

RepairOption = Annotated[
    bool,
    typer.Option(
        "--repair",
        help="Make again what can be made again: blobs from the landing zone, files of versions from tables; tables "
        "and catalog go, and the next run makes them. What cannot is named. What killed writers left a day ago goes.",
    ),
]
_LEFTOVER_S = 86_400.0  # longer than any write takes
_NUM_NAMED = 10  # of files that are not of a lake
_NUM_LETTERS = 20  # that fit on a page below their causes

KindOption = Annotated[
    list[str] | None,
    typer.Option("--kind", help="Only this kind of files, such as refs; may be given several times."),
]
CodeOption = Annotated[
    list[int] | None, typer.Option("--code", help="Only failures with this error code; may be given several times.")
]
ShardOption = Annotated[
    list[str] | None, typer.Option("--shard", help="Only failures of this shard; may be given several times.")
]
TransientOption = Annotated[
    bool, typer.Option("--transient", help="Only failures that may pass by themselves: networks, busy servers.")
]


@app.command(rich_help_panel="Maintain")
def fsck(
    repair: RepairOption = False,
    kind: KindOption = None,
    sample: Annotated[
        float, typer.Option(help="Fraction of the blobs, tables, shards, ... to check; each day takes others.")
    ] = 1.0,
    lake: LakeOption = DEFAULT_LAKE,
    as_json: JsonOption = False,
) -> None:
    """Check every file of the lake against its checksum. Exit code 5 where something is missing or changed and stays
    so. The kinds of files stand in docs/upkeep.md.

    Example: `mmlake fsck --lake ./lake`, `mmlake fsck --sample 0.05`, `mmlake fsck --kind refs --kind catalog --repair`
    """
    from rich.progress import Progress

    from mmlake.upkeep import checked_all, named, refuse_pipes, remove_leftovers, sampled, strangers

    refuse_pipes(lake)
    opened, wanted, day = open_lake(lake), named(kind or ()), datetime.now(UTC).date().isoformat()
    has_blobs = any(one.name == "blobs" for one in wanted)
    rebuilt = opened.store.rebuild_indexes() if repair and has_blobs else 0
    broken = [
        f"pack {path.name} has lost its index, or it is damaged: run `mmlake fsck --repair`"
        for path in (opened.store.broken_packs() if has_blobs else ())
    ]
    units = [(one, sampled(one.units(opened), sample, seed=day)) for one in wanted if one.units is not None]
    with Progress(**bars_of(as_json)) as progress:
        tasks = {one.name: progress.add_task(one.name, total=len(names)) for one, names in units}
        found = checked_all(
            opened, units, repair=repair, advance_of=lambda one: partial(progress.advance, tasks[one.name])
        )
    if repair and has_blobs:
        with suppress(LakeLocked), opened.collecting_blobs():  # else a step is running, whose files they may be
            remove_leftovers(opened, older_than_s=_LEFTOVER_S, now_s=time.time())
    unknown = [] if kind else strangers(opened)
    problems = broken + [problem for one in found for problem in one.left]
    repaired = [unit if one.kind == "blobs" else f"{one.kind} {unit}" for one in found for unit in one.repaired]
    data = {
        "blobs": sum(one.num_units for one in found if one.kind == "blobs"),
        "tables": sum(one.num_units for one in found if one.kind == "tables"),
        "kinds": {one.kind: one.to_dict() for one in found},
        "problems": problems,
        "repaired": repaired,
        "rebuilt_indexes": rebuilt,
        "strangers": unknown,
    }
    counts = ", ".join(f"{one.num_units:,} {one.kind}" for one in found if one.num_units)
    done = (
        f"{len(repaired)} repaired, "
        f"{f'{rebuilt} pack indexes rebuilt, ' if rebuilt else ''}{number_of(len(problems), 'problem')}"
    )
    remarks = [remark for one in found for remark in one.remarks]
    lines = [*problems, *remarks, *_unknown(unknown), f"checked {counts or 'nothing'}: {done}"]
    emit(data, as_json=as_json, draw=lambda out: out.print(shown("\n".join(lines)), soft_wrap=True))
    if problems:
        raise typer.Exit(BlobCorrupt.exit_code)


def _unknown(paths: list[str]) -> Iterator[str]:
    """A line for the files that are of no kind, where there are any."""
    if paths:
        rest = f" and {len(paths) - _NUM_NAMED} more" if len(paths) > _NUM_NAMED else ""
        yield f"{', '.join(paths[:_NUM_NAMED])}{rest}: of no kind of file of a lake; nothing reads or checks them"


@app.command(rich_help_panel="Maintain")
def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count only; nothing is condemned or deleted.")] = False,
    grace_hours: Annotated[
        float, typer.Option(min=0, help="Hours that a blob must have been condemned before it is deleted.")
    ] = 24.0,
    lake: LakeOption = DEFAULT_LAKE,
    as_json: JsonOption = False,
) -> None:
    """Delete blobs that no table, version, probe or hold names, in two passes: the first condemns, one after the grace
    period deletes.

    Training shards that no version has go at once. Nothing is inspected while a step is running. Files in
    `<lake>/holds` keep the digests that stand in them, one a line.

    Example: `mmlake gc --dry-run`, `mmlake gc`, `mmlake gc --grace-hours 0`
    """
    from rich.progress import Progress

    from mmlake.upkeep import collect

    with Progress(**bars_of(as_json)) as progress:
        task = progress.add_task("blobs", total=None)
        found = collect(
            open_lake(lake),
            now_s=time.time(),
            grace_s=grace_hours * 3600,
            dry_run=dry_run,
            advance=lambda count: progress.advance(task, count),
        )
    counts = {name.replace("_", " "): f"{count:,}" for name, count in found.to_dict().items()}
    emit(found.to_dict() | {"dry_run": dry_run}, as_json=as_json, draw=lambda out: out.print(key_values(counts)))


@app.command(rich_help_panel="Inspect")
def usage(lake: LakeOption = DEFAULT_LAKE, as_json: JsonOption = False) -> None:
    """Bytes in the store by source and by version, how much each has alone, and how much nothing names.

    Example: `mmlake usage --lake ./lake`
    """

    from mmlake.upkeep import usage as measure

    found = measure(open_lake(lake))

    def draw(out: Console) -> None:
        columns = ["name", "items", "blobs", "bytes", "bytes of its own"]
        for title, shares in (("Sources", found.sources), ("Versions", found.versions)):
            rows = [
                [share.name, share.num_items, share.num_blobs, share.size_bytes, share.exclusive_bytes]
                for share in shares
            ]
            out.print(table(title, columns, rows, right=columns[1:]))
            out.print()
        out.print(
            f"{found.num_blobs:,} blobs, {found.size_bytes:,} bytes; {found.unnamed_blobs:,} blobs, "
            f"{found.unnamed_bytes:,} bytes that nothing names (`mmlake gc`)"
        )
        if found.missing_blobs:
            out.print(f"{number_of(found.missing_blobs, 'blob')} missing, which count no bytes (`mmlake fsck`)")

    emit(found.to_dict(), as_json=as_json, draw=draw)


@app.command(rich_help_panel="Inspect")
def failed(
    code: CodeOption = None,
    shard: ShardOption = None,
    transient: TransientOption = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Items listed; --json has all.")] = _NUM_LETTERS,
    lake: LakeOption = DEFAULT_LAKE,
    as_json: JsonOption = False,
) -> None:
    """The dead letters: how many items could not be read for which cause, and what to do about each; then the items,
    why, since when, and how often each was tried.

    Example: `mmlake failed`, `mmlake failed --transient`, `mmlake failed --code 1002`
    """
    from mmlake.upkeep import failed_rows

    rows = failed_rows(open_lake(lake), codes=code or (), shards=shard or (), transient=transient)

    def draw(out: Console) -> None:
        if not rows:
            nothing = "nothing of that failed; `mmlake failed` without options lists all"
            out.print(nothing if code or shard or transient else "nothing failed")
            return
        if len({row["error_code"] for row in rows}) > 1 or len(rows) > limit:
            out.print(_causes(rows))
            out.print()
        out.print(_letters(rows, limit))

    emit(rows, as_json=as_json, draw=draw)


def _causes(letters: list[dict[str, Any]]) -> Table:
    """How often each code stands there, the most frequent one first, and what to do about it."""
    from mmlake.error_codes import CODES

    counts = Counter((letter["error_code"], letter["name"]) for letter in letters)
    lines = [
        [str(code), name, count, CODES[code].fix if code in CODES else ""]
        for (code, name), count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    ]
    return table("Causes", ["code", "name", "items", "what to do"], lines, right=["items"])


def _letters(letters: list[dict[str, Any]], limit: int) -> Table:
    columns = ["stage", "shard", "where", "code", "name", "attempts", "since", "reason"]
    lines = [
        [
            letter["stage"],
            letter["shard"],
            _place(letter),
            str(letter["error_code"]),
            letter["name"],
            letter["attempts"],
            letter["first_failed_at"][:16],
            letter["reason"],
        ]
        for letter in letters[:limit]
    ]
    title = f"{len(letters):,} failed"
    if len(letters) > limit:
        title = f"{limit:,} of {title}; more: --limit {len(letters)}, --code, --shard, --json"
    return table(title, columns, lines, right=["attempts"])


def _place(letter: dict[str, Any]) -> str:
    """What a person searches for: the file and its member, and of what was read the item that `mmlake why` explains."""
    from mmlake.records import SourceRef

    ref, item = SourceRef.parse(letter["source_ref"]), short(letter["digest"] or letter["key"])
    if ref is None:
        return item
    place = f"{ref.path}#{ref.member}" if ref.member else ref.path
    return place if letter["stage"] == "sources" else f"{place} ({item})"


@app.command(rich_help_panel="Maintain")
def migrate(lake: LakeOption = DEFAULT_LAKE, as_json: JsonOption = False) -> None:
    """Bring a lake of an earlier release to the format of this one. Media, tables and catalog are not touched.

    Versions of the release before become versions of this one with their branches, tags and logs; their ids change, and
    `<lake>/versions/migrated.json` says which became which; their training shards are found by either. Older ones,
    which list items instead of samples, and damaged ones are put aside into `<lake>/versions/old`, and the next run
    (`mmlake run`) publishes anew. Tables are made again by the run where they have to be.

    Example: `mmlake migrate --lake ./lake`
    """
    from mmlake.shards import name_again
    from mmlake.versions.migration import read_table

    opened = open_lake(lake)
    done = opened.versions.migrate()
    name_again(opened.shards_dir, read_table(opened.versions.root))
    lines = [
        f"{text}: {', '.join(done[what])}"
        for what, text in (
            ("converted", "branches and tags of versions that were converted"),
            ("set_aside", f"put aside into {lake}/versions/old, run `mmlake run --lake {lake}`"),
        )
        if done[what]
    ]
    emit(
        dict(done),
        as_json=as_json,
        draw=lambda out: out.print("\n".join(lines) if lines else "nothing to do, the lake is of this release"),
    )
