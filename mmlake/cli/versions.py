"""Commands on versions: versions, log, show, diff, tag, branch, rollback, verify, tracks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from mmlake.cli.app import DEFAULT_LAKE, JsonOption, LakeOption, app, emit, open_lake
from mmlake.cli.diff_tables import draw_diff
from mmlake.drawing import short, table
from mmlake.errors import SettingsError, ShardCorrupt

PANEL = "Versions"


@app.command(rich_help_panel=PANEL)
def versions(lake: LakeOption = DEFAULT_LAKE, as_json: JsonOption = False) -> None:
    """Every version with its samples, diversity, scores and decision; branches and where they point.

    Example: `mmlake versions`
    """
    from mmlake.publish import version_names
    from mmlake.summary import version_label, version_summary

    opened = open_lake(lake)
    rows = [version_summary(opened, name) for name in version_names(opened)]
    data: dict[str, Any] = {"versions": rows, "branches": opened.versions.branches(), "tags": opened.versions.tags()}

    def draw(out: Console) -> None:
        lines = [
            [
                version_label(row),
                short(row["id"]),
                row["num_samples"],
                row["num_items"],
                row["num_excluded"],
                row["num_masked"],
                row["decision"] or "",
                row["baseline"] or "",
            ]
            for row in rows
        ]
        out.print(
            table(
                "Versions",
                ["version", "id", *(numbers := ["samples", "items", "excluded", "masked"]), "decision", "against"],
                lines,
                right=numbers,
            )
        )
        out.print()
        out.print(table("Branches", ["branch", "at"], [[name, short(id_)] for name, id_ in data["branches"].items()]))
        listed = {row["version"] for row in rows}
        if tags := [[name, short(id_)] for name, id_ in data["tags"].items() if name not in listed]:
            out.print()
            out.print(table("Tags", ["tag", "names"], tags))

    emit(data, as_json=as_json, draw=draw)


@app.command(rich_help_panel=PANEL)
def log(
    branch: Annotated[str, typer.Argument(help="Branch.")],
    lake: LakeOption = DEFAULT_LAKE,
    as_json: JsonOption = False,
) -> None:
    """Every move of a branch, newest first: when, how, to which version, and what that one is.

    Example: `mmlake log curated`
    """
    store = open_lake(lake).versions
    names: dict[str, list[str]] = {}
    for name, id_ in store.tags().items():
        names.setdefault(id_, []).append(name)
    rows = [
        {
            **asdict(move),
            "names": names.get(move.after, []),
            "tree": made.tree,
            "num_samples": made.num_samples,
            "recipe": made.recipe.name,
            "message": made.message,
        }
        for move in store.log(branch)
        for made in (store.read(move.after),)
    ]

    def draw(out: Console) -> None:
        lines = [
            [row["at"], row["action"], ", ".join(row["names"]), short(row["after"]), short(row["tree"]),
             row["num_samples"], row["recipe"], row["message"]]
            for row in rows
        ]  # fmt: skip
        heads = ["at", "move", "version", "id", "tree", "samples", "recipe", "message"]
        out.print(table(f"Branch {branch}", heads, lines, right=["samples"]))

    emit({"branch": branch, "moves": rows}, as_json=as_json, draw=draw)


@app.command(rich_help_panel=PANEL)
def show(
    version: Annotated[str, typer.Argument(help="Version, branch, tag, id, or BRANCH@TIME.")],
    lake: LakeOption = DEFAULT_LAKE,
    as_json: JsonOption = False,
) -> None:
    """What a version is: tree, parents, recipe, run, time, message, counts, and what it leaves out.

    Example: `mmlake show curated`
    """
    store = open_lake(lake).versions
    made, tree = store.read(version), store.tree(version)
    data: dict[str, Any] = {
        "id": made.id,
        "is_draft": store.is_draft(version),
        "names": sorted(name for name, id_ in (store.tags() | store.branches()).items() if id_ == made.id),
        "num_segments": len(tree.segments),
        "num_samples": made.num_samples,
        "num_items": made.num_items,
        "num_excluded": made.num_excluded,
        "num_masked": made.num_masked,
    }
    whole = json.loads(made.to_json())
    data |= {name: value for name, value in whole.items() if name not in ("schema", "excluded_segments")}

    def draw(out: Console) -> None:
        plain = (
            "id", "tree", "is_draft", "names", "parents", "created_at", "run", "message", "num_samples", "num_items",
            "num_excluded", "num_masked", "num_segments", "settings_digest",
        )  # fmt: skip
        lines = [[name, ", ".join(value) if isinstance(value := data[name], list) else value] for name in plain]
        recipe = f"{made.recipe.name} ({short(made.recipe.digest)}): {made.recipe.description}"
        out.print(table(version, ["", ""], [*lines, ["recipe", recipe]]))
        left = [
            [what, modality, cause, count]
            for what in ("excluded", "masked")
            for modality, causes in data[what].items()
            for cause, count in causes.items()
        ]
        if left:
            out.print()
            out.print(table("Left out", ["", "modality", "cause", "count"], left, right=["count"]))
        draw_recall(out, made.made_with.get("recall", {}))

    emit(data, as_json=as_json, draw=draw)


def draw_recall(out: Console, estimated: Mapping[str, Mapping[str, Any]]) -> None:
    """What the searches of the version found, and what they would have found with other numbers of cells or keys."""
    from mmlake.dedup import recall_words

    recall = [
        [step, modality, recall_words(found)]
        for step, modalities in estimated.items()
        for modality, found in modalities.items()
    ]
    if recall:
        out.print()
        out.print(table("Estimated recall (95 % interval)", ["step", "modality", "duplicates found"], recall))
    for step, title, over, column in (
        ("near_duplicates", "Search by keys: recall against cost", "keys", "share of keys"),
        ("semantic_duplicates", "Search of vectors: recall against cost", "cells", "cells searched"),
    ):
        draw_curve(out, title, estimated.get(step, {}), over, column)


def draw_curve(out: Console, title: str, estimated: Mapping[str, Mapping[str, Any]], over: str, step: str) -> None:
    """What a search would have found with fewer cells or keys, and what each of its units is compared with."""
    rows = [
        [
            modality,
            f"{one[over]:.4g}",
            f"{one['recall']:.3f} ({one['low']:.3f} to {one['high']:.3f})",
            one["compared"],
        ]
        for modality, found in estimated.items()
        for one in found.get("curve", ())
    ]
    if rows:
        out.print()
        names = ["modality", step, "duplicates found by them", "compared with each unit"]
        out.print(table(title, names, rows, right=names[1:]))


@app.command(rich_help_panel=PANEL)
def diff(
    before: Annotated[str, typer.Argument(help="Version, branch, tag, id, its first characters, or BRANCH@TIME.")],
    after: Annotated[str, typer.Argument(help="The same, for the newer one.")],
    samples: Annotated[
        bool, typer.Option("--samples", help="List the samples too, not only their number by cause.")
    ] = False,
    lake: LakeOption = DEFAULT_LAKE,
    as_json: JsonOption = False,
) -> None:
    """What came, went and changed between two versions, by modality and cause, and by reason: recipe, rule, threshold,
    scorer, encoder, survivor, source or code. Each sample has one cause and one reason. Of those that came and went it
    counts the edited ones: the same medium, or the same id of the source, with other words, fields or bytes.

    Example: `mmlake diff everything-v001 curated-v001`
    """
    from mmlake.versions.diff import counts_of

    found = open_lake(lake).versions.diff(before, after)
    data: dict[str, Any] = {"before": found.before, "after": found.after, **found.summary()}
    data["reasons"] = found.reasons()
    edited = found.edited()
    data["edited"] = counts_of(edited, "kept")
    if samples:
        data["samples"] = {name: getattr(found, name).to_pylist() for name in ("added", "removed", "changed")}
        data["samples"]["edited"] = edited.to_pylist()

    title = f"{before} {short(found.before)} -> {after} {short(found.after)}"
    emit(data, as_json=as_json, draw=lambda out: draw_diff(out, data, title))


ForceOption = Annotated[
    bool,
    typer.Option("--force", help="With --delete: also where a version keeps no other name, and is found by its id."),
]


@app.command(rich_help_panel=PANEL)
def tag(
    name: Annotated[str, typer.Argument(help="New name; it can never be moved.")],
    at: Annotated[str | None, typer.Argument(help="Version, branch or id.")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the tag instead; its version stays.")] = False,
    force: ForceOption = False,
    lake: LakeOption = DEFAULT_LAKE,
    as_json: JsonOption = False,
) -> None:
    """Give a version a permanent name, or take a name away. The name that a version was published under stays.

    Example: `mmlake tag release-2026-11 curated-v001`, `mmlake tag release-2026-11 --delete`
    """
    from mmlake.publish import delete_tag

    opened = open_lake(lake)
    if _is_deletion(at, delete=delete, force=force):
        id_ = delete_tag(opened, name, force=force)
        text = f"tag {name} is deleted; it named {id_}"
    else:
        id_ = opened.versions.tag(name, str(at))
        text = f"tag {name} names {id_}"
    emit({"tag": name, "id": id_, "deleted": delete}, as_json=as_json, draw=lambda out: out.print(text))


@app.command(rich_help_panel=PANEL)
def branch(
    name: Annotated[str, typer.Argument(help="New branch.")],
    at: Annotated[str | None, typer.Argument(help="Version, branch or id that it starts at.")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the branch instead; its versions stay.")] = False,
    force: ForceOption = False,
    lake: LakeOption = DEFAULT_LAKE,
    as_json: JsonOption = False,
) -> None:
    """Start a branch at a version, or delete one. No media are copied or deleted. That of a recipe stays.

    Example: `mmlake branch try-stricter-blur curated`, `mmlake branch try-stricter-blur --delete`
    """
    from mmlake.publish import delete_branch

    opened = open_lake(lake)
    if _is_deletion(at, delete=delete, force=force):
        id_ = delete_branch(opened, name, force=force)
        text = f"branch {name} is deleted; it was at {id_}"
    else:
        id_ = opened.versions.branch(name, str(at))
        text = f"branch {name} is at {id_}"
    emit({"branch": name, "id": id_, "deleted": delete}, as_json=as_json, draw=lambda out: out.print(text))


def _is_deletion(at: str | None, *, delete: bool, force: bool) -> bool:
    """Whether a name is to be deleted. Raises SettingsError where the arguments do not go together."""
    if delete and at is not None:
        raise SettingsError(f"--delete takes the name alone, and {at!r} was given as well; leave it out")
    if not delete and (at is None or force):
        raise SettingsError("--force goes with --delete" if force else "give the version to name, or --delete")
    return delete


@app.command(rich_help_panel=PANEL)
def rollback(
    name: Annotated[str, typer.Argument(help="Branch to move back.")],
    to: Annotated[str, typer.Argument(help="A version that the branch was at before; BRANCH@TIME is one.")],
    lake: LakeOption = DEFAULT_LAKE,
    as_json: JsonOption = False,
) -> None:
    """Move a branch back to an earlier version. At once: only the reference moves.

    Example: `mmlake rollback curated curated-v001`, `mmlake rollback curated curated@2026-11-30`
    """
    id_ = open_lake(lake).versions.rollback(name, to)
    emit({"branch": name, "id": id_}, as_json=as_json, draw=lambda out: out.print(f"branch {name} is back at {id_}"))


@app.command(rich_help_panel=PANEL)
def verify(
    version: Annotated[str, typer.Argument(help="Version, branch, tag, id, or BRANCH@TIME.")],
    clock: Annotated[
        int,
        typer.Option(
            "--clock", min=0, help="Hold about so many clips and segments of the shards against their items too."
        ),
    ] = 0,
    lake: LakeOption = DEFAULT_LAKE,
    as_json: JsonOption = False,
) -> None:
    """Hash a version's manifest, segments, blobs, pins and training shards again. Exit code 5 where something is wrong.

    With --clock N, sound and frames of some clips are compared with the films that they were cut from: a lag is named
    with the step that made it and how it grows from cut to cut.

    Example: `mmlake verify curated`, `mmlake verify curated --clock 24`
    """
    from mmlake.loader import mixture_problems
    from mmlake.publish.pins import verify_pins
    from mmlake.publish.shard_clock import check_clock
    from mmlake.publish.version_shards import hashed_shards
    from mmlake.shards import verify_shards

    opened = open_lake(lake)
    problems = opened.versions.verify(version)
    id_ = opened.versions.resolve(version)
    blobs = [] if problems else opened.versions.items(id_).column("parent_digest").unique().to_pylist()
    for digest in blobs:
        if (wrong := opened.store.verify(digest)) is not None:
            problems.append(f"blob {digest} is {wrong}; run `mmlake fsck`")
    problems += verify_pins(opened, id_)
    if (directory := opened.shards_dir / id_).is_dir():
        problems += verify_shards(directory, hashed=hashed_shards(opened)) or mixture_problems(directory)
        if clock and not problems:
            problems += check_clock(opened, id_, limit=clock).problems
    emit(
        {"version": version, "id": id_, "problems": problems},
        as_json=as_json,
        draw=lambda out: out.print("\n".join(problems) or f"{version} ({short(id_)}) is sound"),
    )
    if problems:
        raise typer.Exit(ShardCorrupt.exit_code)


@app.command(rich_help_panel=PANEL)
def tracks(
    version: Annotated[str, typer.Argument(help="Version, branch, tag or id; its training shards are there.")],
    out: Annotated[Path, typer.Option("--out", dir_okay=False, help="File of JSON lines.")] = Path("tracks.jsonl"),
    show: Annotated[
        int, typer.Option("--show", min=0, help="Write nothing, and draw this many films with the most to show.")
    ] = 0,
    lake: LakeOption = DEFAULT_LAKE,
    as_json: JsonOption = False,
) -> None:
    """Write a line per clip, segment, film and recording of a version: its words between anchors such as
    `<start:2.10s><end:4.50s>`, its keyframes and shots, and which shard holds its media. `mmlake.loader.read_tracks`
    reads it back.

    Example: `mmlake tracks curated --out curated.jsonl`, `mmlake tracks curated --show 3`
    """
    from mmlake.loader import write_tracks

    opened = open_lake(lake)
    directory = opened.shards_dir / opened.versions.resolve(version)
    if show:
        _show_tracks(version, directory, show, as_json=as_json)
        return
    count = write_tracks(directory, out)
    emit(
        {"version": version, "shards": str(directory), "path": str(out), "num_lines": count},
        as_json=as_json,
        draw=lambda drawn: drawn.print(f"{count} lines in {out}; their media are in {directory}"),
    )


def _show_tracks(version: str, directory: Path, count: int, *, as_json: bool) -> None:
    from mmlake.loader import track_samples
    from mmlake.track_drawing import drawn_tracks

    samples = track_samples(directory, count)

    def draw(out: Console) -> None:
        for sample in samples:
            out.print(drawn_tracks(sample, width=min(out.width, 120)))
            out.print()
        if not samples:
            out.print(f"{version} holds no film in shards of tar files")

    found = [{"sample": sample.key, "shard": sample.shard, **sample.facts} for sample in samples]
    emit({"version": version, "samples": found}, as_json=as_json, draw=draw)
