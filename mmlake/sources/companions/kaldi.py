"""Kaldi's data directories: recordings in `wav.scp`, what is said in `text`, by whom in `utt2spk`, and when in
`segments`.

Enters: the four files, of any size. Leaves: one record per recording, with the words, or with the segments that it has,
and one for every line that belongs to none. Nothing that stands in them is run: a recording that is the output of a
command is a record with a fault.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mmlake.errors import Fault, UnreadableItem
from mmlake.landing import Entry
from mmlake.sources.companions.manifest_forms import COMPANIONS
from mmlake.sources.connectors.json_lines import lines_of, stream_of
from mmlake.sources.raw_items import RawItem, Reading
from mmlake.sources.records.lines import Line

_CACHE_KIB = 8192  # of SQLite; everything beyond it lies in the temporary directory
_BATCH_ROWS = 1000
_SAID = (("text", "text"), ("utt2spk", "speaker_id"))  # of an utterance: files, and what their words are called here
_MAX_SEGMENTS = 10_000  # of one recording: all are in its metadata
_TABLES = """
CREATE TABLE text (number INTEGER PRIMARY KEY, id TEXT, body TEXT, is_taken INTEGER DEFAULT 0);
CREATE TABLE utt2spk (number INTEGER PRIMARY KEY, id TEXT, body TEXT, is_taken INTEGER DEFAULT 0);
CREATE TABLE recordings (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE segments (number INTEGER PRIMARY KEY, id TEXT, recording TEXT, start_s REAL, end_s REAL,
    is_taken INTEGER DEFAULT 0);
"""
_INDICES = (
    "CREATE INDEX texts ON text (id); CREATE INDEX speakers ON utt2spk (id); CREATE INDEX spans ON segments "
    "(recording);"
)


def companions_of(reading: Reading) -> list[Entry]:
    """The files beside `wav.scp` that speak of its recordings."""
    home = reading.path.rpartition("/")[0]
    found = (reading.landing.stat(f"{home}/{name}" if home else name) for name in COMPANIONS)
    return [entry for entry in found if entry is not None and entry.refused is None]


def modalities(reading: Reading) -> tuple[str, ...]:
    """Always text."""
    return ("text",)


def items(reading: Reading) -> Iterator[RawItem]:
    """Nothing: what stands in a companion is told by `wav.scp`, and by the recordings."""
    return iter(())


def lines(reading: Reading) -> Iterator[Line]:
    """A record for each line of `wav.scp`, `audio` naming its file; then one with a fault for what no recording
    took."""
    database = sqlite3.connect("", check_same_thread=False, isolation_level=None)
    try:
        database.executescript(
            f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{_CACHE_KIB};{_TABLES}"
        )
        has_segments = False
        for entry in companions_of(reading):
            has_segments = has_segments or entry.name == "segments"
            yield from _fill(database, replace(reading, path=entry.path), entry.name)
        database.executescript(_INDICES)
        seen_to = 0
        for line in _read(reading, ""):
            seen_to = line.number
            yield _recording(database, line, has_segments=has_segments)
        yield from _left(database, seen_to)
    finally:
        database.close()


def _read(reading: Reading, prefix: str) -> Iterator[Line]:
    """The lines of one file as records {id, rest}. prefix: of their labels, which are unique in all four files."""
    number = 0
    try:
        with stream_of(reading) as stream:
            for number, data in enumerate(lines_of(stream, reading.settings.max_line_bytes), 1):
                label = f"{prefix}line:{number}"
                if isinstance(data, int):
                    yield Line(
                        label,
                        number,
                        fault=Fault(1008, f"line_bytes={data} not in [0, {reading.settings.max_line_bytes}]"),
                    )
                elif data.strip():
                    yield _parsed(data, label, number)
    except UnreadableItem as error:
        yield Line(
            f"{prefix}line:{number + 1}",
            number + 1,
            fault=Fault(error.code, f"{error.reason}; {number} lines were read"),
        )


def _parsed(data: bytes, label: str, number: int) -> Line:
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        return Line(label, number, fault=Fault(1004, f"the line is not UTF-8 at byte {error.start}"), data=data)
    parts = text.split(maxsplit=1)
    return Line(label, number, {"id": parts[0], "rest": parts[1].strip() if len(parts) > 1 else ""})


def _fill(database: sqlite3.Connection, reading: Reading, name: str) -> Iterator[Line]:
    """Write a companion down; gives its broken lines."""
    waiting: list[tuple[Any, ...]] = []
    for line in _read(reading, f"{name}:"):
        row: tuple[Any, ...] | None = None
        if line.fault is None:
            row = _segment(line) if name == "segments" else (line.number, line.fields["id"], line.fields["rest"])
        if row is None or (name == "utt2spk" and not row[2]):
            yield (
                line
                if line.fault is not None
                else replace(line, fault=Fault(1003, f"the line of {name} is not of the form {_FORMS[name]}"))
            )
            continue
        waiting.append(row)
        if len(waiting) == _BATCH_ROWS:
            _write(database, name, waiting)
    _write(database, name, waiting)


_FORMS = {"segments": "<utterance> <recording> <start> <end>", "utt2spk": "<utterance> <speaker>"}


def _write(database: sqlite3.Connection, name: str, rows: list[tuple[Any, ...]]) -> None:
    columns = "number, id, recording, start_s, end_s" if name == "segments" else "number, id, body"
    database.execute("BEGIN")
    database.executemany(
        f"INSERT INTO {name} ({columns}) VALUES ({','.join('?' * (5 if name == 'segments' else 3))})", rows
    )
    database.execute("COMMIT")
    rows.clear()


def _segment(line: Line) -> tuple[Any, ...] | None:
    """The row of a segment; None where it is no span of time."""
    cells = line.fields["rest"].split()
    try:
        recording, start_s, end_s = cells[0], float(cells[1]), float(cells[2])
    except (IndexError, ValueError):
        return None
    # A fourth number is the channel; -1 as the end is the recording's own.
    is_span = (
        math.isfinite(start_s)
        and math.isfinite(end_s)
        and start_s >= 0
        and (end_s > start_s or end_s == -1)
        and len(cells) <= 4
    )
    return (line.number, line.fields["id"], recording, start_s, end_s) if is_span else None


def _recording(database: sqlite3.Connection, line: Line, *, has_segments: bool) -> Line:
    """The record of a line of `wav.scp`."""
    if line.fault is not None:
        return line
    identity, path = line.fields["id"], line.fields["rest"]
    if not database.execute("INSERT OR IGNORE INTO recordings VALUES (?)", (identity,)).rowcount:
        return Line(
            line.name,
            line.number,
            {"audio": path, "recording_id": identity},
            Fault(1003, f"the line repeats the id {identity[:60]}"),
        )
    fields: dict[str, Any] = {"recording_id" if has_segments else "utterance_id": identity, "audio": path}
    if has_segments:
        found = database.execute(
            "SELECT number, id, start_s, end_s FROM segments WHERE recording = ? ORDER BY number LIMIT ?",
            (identity, _MAX_SEGMENTS),
        ).fetchall()
        database.executemany("UPDATE segments SET is_taken = 1 WHERE number = ?", [row[:1] for row in found])
        fields["segments"] = [
            _told(database, {"utterance_id": name, "start_s": start_s, "end_s": end_s if end_s >= 0 else None}, name)
            for _, name, start_s, end_s in found
        ]
    else:
        _told(database, fields, identity)
    if not path:
        return Line(line.name, line.number, fields, Fault(1003, "the line is not of the form <recording> <file>"))
    if path.endswith("|") or path.startswith("|"):
        return Line(
            line.name, line.number, fields, Fault(1007, "the recording is the output of a command, which is never run")
        )
    return Line(line.name, line.number, fields)


def _told(database: sqlite3.Connection, fields: dict[str, Any], utterance: str) -> dict[str, Any]:
    """The fields, with the first words and the first speaker of the utterance."""
    for table, name in _SAID:
        found = database.execute(
            f"SELECT number, body FROM {table} WHERE id = ? ORDER BY number LIMIT 1", (utterance,)
        ).fetchall()
        for number, body in found:
            database.execute(f"UPDATE {table} SET is_taken = 1 WHERE number = ?", (number,))
            fields |= {name: body} if body else {}
    return fields


def _left(database: sqlite3.Connection, last: int) -> Iterator[Line]:
    """What no recording took: words and segments whose recording is not in `wav.scp`, or that repeat an id."""
    for table, name in _SAID:
        for number, identity, body in _pages(
            database, f"SELECT number, id, body FROM {table} WHERE NOT is_taken AND number > ?"
        ):
            reason = f"{table} speaks of the utterance {identity[:60]}, which no recording has, or repeats it"
            yield Line(
                f"{table}:line:{number}", last + number, {"utterance_id": identity, name: body}, Fault(1011, reason)
            )
    for number, identity, recording, start_s, end_s in _pages(
        database, "SELECT number, id, recording, start_s, end_s FROM segments WHERE NOT is_taken AND number > ?"
    ):
        reason = (
            f"the segment {identity[:60]} is of the recording {recording[:60]}, which wav.scp does not have, or "
            f"which has more than {_MAX_SEGMENTS}"
        )
        yield Line(
            f"segments:line:{number}",
            last + number,
            {"utterance_id": identity, "recording_id": recording, "start_s": start_s, "end_s": end_s},
            Fault(1011, reason),
        )


def _pages(database: sqlite3.Connection, sql: str) -> Iterator[tuple[Any, ...]]:
    last = 0
    while rows := database.execute(f"{sql} ORDER BY number LIMIT {_BATCH_ROWS}", (last,)).fetchall():
        yield from rows
        last = rows[-1][0]
