"""Commands that inspect a lake: status, search, why, costs, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from mmlake.cli.app import DEFAULT_LAKE, JsonOption, LakeOption, SettingsOption, app, emit, messages, open_lake
from mmlake.drawing import short, shown, table
from mmlake.error_codes import CODES
from mmlake.errors import SettingsError

PANEL = "Inspect"


@app.command(rich_help_panel=PANEL)
def status(lake: LakeOption = DEFAULT_LAKE, as_json: JsonOption = False) -> None:
    """Rows by status, duplicates by tier, versions, seconds and cost per stage.

    Example: `mmlake status --lake ./lake`
    """
    from mmlake.summary import summarize

    found = summarize(open_lake(lake))

    def draw(out: Console) -> None:
        for part in (*found.tables(), *found.stages()):
            out.print(part)
            out.print()

    emit(found.to_dict(), as_json=as_json, draw=draw)


@app.command(rich_help_panel=PANEL)
def search(
    query: Annotated[str | None, typer.Argument(help="Words to search for.")] = None,
    like: Annotated[
        Path | None,
        typer.Option("--like", help="Find items that resemble this file; its type is detected from its bytes."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            help="SQL condition over columns, measures and source fields of the catalog, such as "
            "\"status = 'ok' AND snr_db > 10\".",
        ),
    ] = None,
    modality: Annotated[str | None, typer.Option("--modality", help="Only text, image, video or audio.")] = None,
    words_only: Annotated[
        bool, typer.Option("--words-only", help="Full-text search alone, without the vector of the words.")
    ] = False,
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder", help="Compare these vectors; by default those of the lake's encoder for the modality."
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Rows to show.")] = 10,
    lake: LakeOption = DEFAULT_LAKE,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search the catalog by words (full text and meaning), by example, by SQL, or by all of these together.

    Example: `mmlake search "ferry timetable" --modality text`, `mmlake search --like photo.jpg`,
    `mmlake search --where "snr_db > 10"`, `mmlake search --where "metadata.label = 'cat'"`,
    `mmlake search --like photo.jpg --encoder clip-b32`

    Films and recordings that were cut are found by their clips and segments, each with its place in the item.
    """
    opened = open_lake(lake, settings)
    rows, note = _search(
        opened,
        query.strip() or None if query else None,
        like,
        where=where,
        modality=modality,
        words_only=words_only,
        encoder=encoder,
        limit=limit,
    )
    emit(rows, as_json=as_json, draw=lambda out: out.print(_drawn(rows) if rows else "nothing found"))
    if note is not None:
        messages().print(note)


@app.command(rich_help_panel=PANEL)
def why(
    digest: Annotated[
        str,
        typer.Argument(
            help="Digest of an item, keyframe or audio track, or its first characters; or the path of a file: one "
            "that landed, by itself or as the landing zone names it, or one in the store."
        ),
    ],
    version: Annotated[
        str | None,
        typer.Option(
            "--version",
            help="Only why this version holds it or leaves it out, as the version itself says: version, branch, tag, "
            "id, or BRANCH@TIME. Answers of items that are erased since, too.",
        ),
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    as_json: JsonOption = False,
) -> None:
    """The whole story of one item: where it came from, what each stage found, which run made it, why versions hold it
    or not.

    Example: `mmlake why 3f2a9c41`, `mmlake why landing/photos/a.jpg`, `mmlake why 3f2a9c41 --version curated-v001`
    """
    from mmlake.item_provenance import story_of, version_answer

    opened = open_lake(lake)
    story = story_of(opened, digest) if version is None else version_answer(opened, digest, version)
    emit(story.to_dict(), as_json=as_json, draw=lambda out: out.print(shown(story.to_text()), soft_wrap=True))


@app.command(rich_help_panel=PANEL)
def costs(
    lake: LakeOption = DEFAULT_LAKE,
    reads: Annotated[float, typer.Option(help="How often each artifact is read whole per month.")] = 4.0,
    as_json: JsonOption = False,
) -> None:
    """Measured seconds and bytes per stage and modality, estimated dollars, and which artifacts are worth keeping.

    Example: `mmlake costs --reads 30`
    """
    from mmlake.publish.ledger import ledger as lake_ledger
    from mmlake.publish.ledger import plan as lake_plan

    opened = open_lake(lake)
    ledger, plan = lake_ledger(opened), lake_plan(opened, reads_per_month=reads)

    def draw(out: Console) -> None:
        names = ["stage", "modality", "num_items", "seconds", "cpu_seconds", "media_bytes", "items_per_s", "cost_usd"]
        out.print(
            table("Stages", names, [[row[name] for name in names] for row in ledger.to_pylist()], right=names[2:])
        )
        out.print()
        names = ["artifact", "decision", "reason"]
        out.print(table("Keep or make again", names, [[row[name] for name in names] for row in plan.to_pylist()]))

    emit({"stages": ledger.to_pylist(), "plan": plan.to_pylist()}, as_json=as_json, draw=draw)


@app.command(rich_help_panel=PANEL)
def errors(
    code: Annotated[str | None, typer.Argument(help="A code or a name; all of them when left out.")] = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """The catalogue of error codes: what happened and what to do. With --settings, those of its plugins as well. Of
    a class of the runbooks for video and audio, such as 6XXX, what is done here, and the codes that stand for it.

    Example: `mmlake errors 4203`, `mmlake errors shard_truncated`, `mmlake errors 6XXX`
    """
    from mmlake.cli.field_codes import field_code
    from mmlake.parts import parts_of
    from mmlake.quality import error_codes
    from mmlake.settings import Settings

    parts = parts_of(Settings.load(settings))
    rules = [rule for row in parts.modalities.values() for rule in row.rules]
    entries = sorted([*CODES.values(), *error_codes(rules)], key=lambda entry: entry.code)
    of_class = field_code(code) if code is not None else None
    asked = {str(one) for one in of_class.codes} if of_class is not None else {code}
    chosen = [entry for entry in entries if code is None or not asked.isdisjoint((str(entry.code), entry.name))]
    if not chosen and of_class is None:
        raise SettingsError(
            f"no error has the code or name {code!r}; run `mmlake errors` for all of them, and `mmlake errors 6XXX` "
            "for what stands for a class (1XXX to 8XXX) of the runbooks for video and audio"
        )
    rows = [[str(entry.code), entry.name, entry.severity, entry.what, entry.fix] for entry in chosen]
    data = [
        {"code": entry.code, "name": entry.name, "severity": entry.severity, "what": entry.what, "fix": entry.fix}
        for entry in chosen
    ]

    def draw(out: Console) -> None:
        if of_class is not None:
            out.print(shown(f"{of_class.name}: {of_class.what}\n{of_class.cure}\n"), soft_wrap=True)
        if rows:
            out.print(table("", ["code", "name", "severity", "what happened", "what to do"], rows))

    found: Any = data
    if of_class is not None:
        found = {"class": of_class.name, "what": of_class.what, "cure": of_class.cure, "codes": data}
    emit(found, as_json=as_json, draw=draw)


def _search(
    opened: Any,
    query: str | None,
    like: Path | None,
    *,
    where: str | None,
    modality: str | None,
    words_only: bool,
    encoder: str | None,
    limit: int,
) -> tuple[list[dict[str, Any]], str | None]:
    """(rows, what there is to say of how they were found; None where nothing)."""
    from mmlake.embed import UnusableQuery, encode_file_query, encode_text_query
    from mmlake.formats.sniff import HEAD_BYTES, kind_of

    if query is None and like is None and where is None:
        raise SettingsError("nothing to search for; give words, --like FILE or --where CONDITION")
    vector, chosen, unasked, note = None, _known_encoder(opened, encoder), None, None
    how = {"executor": opened.executor, "settings": opened.settings.embed, "encoders": opened.parts.encoders}
    if like is not None:
        if not like.is_file():
            raise SettingsError(f"--like {like} is not a file; name a picture, sound, film or text")
        with like.open("rb") as file:
            kind = kind_of(file.read(HEAD_BYTES), like.name)
        if kind is None or kind.modality is None:
            raise SettingsError(
                f"--like {like}: its bytes and name have no known modality; give a picture, sound, film or text"
            )
        encoder, modality = chosen or opened.encoder_of(kind.modality), modality or kind.modality
        vector = encode_file_query(like, kind.modality, encoder=encoder, **how)
    elif query is not None and not words_only:
        encoder = chosen or opened.encoder_of(modality or "text")
        if (
            "text" in opened.parts.encoders[encoder].modalities
            and encoder.replace("-", "_") in opened.catalog.encoders()
        ):
            try:
                vector = encode_text_query(query, encoder=encoder, **how)
            except UnusableQuery as error:  # words of a script that it has none of
                if chosen is not None:
                    raise
                note, encoder = f"searched by words alone, without their vector: {error}", None
        else:
            if chosen is not None:
                raise SettingsError(
                    f"--encoder {chosen} has no text side, so that words have no vector in its space; give --like "
                    "FILE, or another encoder"
                )
            # the words are looked up in texts, captions and transcripts alone
            unasked, encoder = encoder, None
    found = opened.catalog.search(
        text=query, vector=vector, encoder=encoder, where=where, modality=modality, limit=limit
    )
    if unasked and not found.num_rows:
        note = _unasked(opened, unasked, modality or "text")
    return list(found.to_pylist()), note


def _unasked(opened: Any, encoder: str, modality: str) -> str:
    """Why words were compared with no vectors of the encoder, and what to do."""
    lacks = "has no text side"
    if "text" in opened.parts.encoders[encoder].modalities:
        lacks = "has no vectors in this lake, which are made of texts"
    return (
        f"the words were looked up in captions and transcripts alone: the encoder '{encoder}' of {modality} {lacks}; "
        "give --like FILE, or set embed.encoders to one that has a text side, such as clip, and run again"
    )


def _drawn(rows: list[dict[str, Any]]) -> Any:
    """What a search found, as a table for a terminal."""
    columns = ["score", "digest", "modality", "status", "what", "source", "licence"]
    lines = [
        [
            row["score"],
            short(row["digest"]),
            row["modality"],
            row["status"],
            _what(row),
            ", ".join(row["sources"] or []),
            ", ".join(row["licences"] or []),
        ]
        for row in rows
    ]
    return table("", columns, lines, right=["score"])


def _known_encoder(opened: Any, name: str | None) -> str | None:
    """The name, where the catalog has vectors of the encoder. Raises SettingsError."""
    held = set(opened.catalog.encoders())
    known = [one for one in opened.parts.encoders if one.replace("-", "_") in held]
    if name is not None and name not in known:
        raise SettingsError(
            f"--encoder {name}: the catalog has no such vectors, but those of {', '.join(known) or 'no encoder yet'}; "
            "give one of them, or set embed.encoders and run again"
        )
    return name


def _what(row: dict[str, Any]) -> str:
    words = " ".join((row["text"] or "").split())
    if row["modality"] == "image":
        words = f"{row['width_px']}x{row['height_px']} px {words}"
    elif row["modality"] in ("audio", "video"):
        start_s = row["span_start_s"]
        place = "" if start_s is None else f" at {start_s:.1f} s of {short(row['parent_digest'])}"
        words = f"{row['duration_s'] or 0:.1f} s{place} {words}"
    return words[:80]
