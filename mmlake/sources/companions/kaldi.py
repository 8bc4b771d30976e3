"""Kaldi's data directories: recordings in `wav.scp`, what is said in `text`, by whom in `utt2spk`, and when in
`segments`.

Enters: these files, and `utt2lang`, `utt2gender` and `spk2gender`, of any size. Leaves: one record per recording, with
the words, or with the segments that it has, and one for every line that belongs to none. Nothing that stands in them is
run: a recording that is the output of a command is a record with a fault. The companions of `wav.scp` are shards
without rows: what they say is in its rows and in those of the recordings. So are the indexes of a data directory, which
follow from the recordings and from these files, or name arrays that were computed of them: none is a document.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mmlake.errors import Fault
from mmlake.landing import Entry
from mmlake.sources.companions import places
from mmlake.sources.companions.manifest_forms import COMPANIONS
from mmlake.sources.companions.siblings import Siblings
from mmlake.sources.raw_items import RawItem, Reading
from mmlake.sources.records.lines import Line, cut_lines, text_alone
from mmlake.sources.records.scratch import ScratchTables

# of an utterance: files, and what their words are called here
_SAID = (("text", "text"), ("utt2spk", "speaker_id"), ("utt2lang", "language"), ("utt2gender", "gender"))
_OF_SPEAKERS = "spk2gender"
# Kaldi's manual, "Data preparation", and what its scripts and ESPnet's add
_INDEXES = frozenset(
    "spk2utt utt2dur reco2dur utt2num_frames utt2num_samples utt2max_frames utt2uniq reco2file_and_channel frame_shift"
    " feats.scp cmvn.scp vad.scp ivector.scp".split()
)
_MAX_SEGMENTS = 10_000  # of one recording: all are in its metadata
_FORMS = {
    "segments": "<utterance> <recording> <start> <end>",
    "utt2spk": "<utterance> <speaker>",
    "utt2lang": "<utterance> <language>",
    "utt2gender": "<utterance> <gender>",
    "spk2gender": "<speaker> <gender>",
}
_OF_IDS = (*(table for table, _ in _SAID), _OF_SPEAKERS)
_OF_ONE_ID = "(number INTEGER PRIMARY KEY, id TEXT, body TEXT, is_taken INTEGER)"
_TABLES = f"""
{"".join(f"CREATE TABLE {name} {_OF_ONE_ID};" for name in _OF_IDS)}
CREATE TABLE recordings (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE segments (number INTEGER PRIMARY KEY, id TEXT, recording TEXT, start_s REAL, end_s REAL,
    is_taken INTEGER);
"""
_INDICES = f"""
{"".join(f"CREATE INDEX ids_of_{name} ON {name} (id);" for name in _OF_IDS)}
CREATE INDEX spans ON segments (recording);
"""


modalities = text_alone


def claims(head: bytes, name: str) -> bool:
    """Whether the name is that of a companion or an index."""
    return name in COMPANIONS or name in _INDEXES


def is_kept(name: str, siblings: Siblings) -> bool:
    """Whether a file that is claimed is next to a `wav.scp`."""
    return siblings.have_scp()


def items(reading: Reading) -> Iterator[RawItem]:
    """Nothing."""
    return iter(())


def companions_of(reading: Reading) -> list[Entry]:
    """The files next to `wav.scp` that describe its recordings."""
    home = reading.path.rpartition("/")[0] or "."
    found = (reading.landing.stat(places.join(home, name)) for name in COMPANIONS)
    return [entry for entry in found if entry is not None and entry.refused is None]


def lines(reading: Reading) -> Iterator[Line]:
    """A record for each line of `wav.scp`, `audio` naming its file; then one with a fault for what no recording
    took."""
    tables, companions, last = ScratchTables(_TABLES), companions_of(reading), 0
    for entry in companions:
        yield from _fill(tables, replace(reading, path=entry.path), entry.name)
    tables.finish(_INDICES)
    has_segments = any(entry.name == "segments" for entry in companions)
    for line in _read(reading, ""):
        last = line.number
        yield _recording(tables, line, has_segments=has_segments)
    yield from _left_over(tables, last)


def _read(reading: Reading, prefix: str) -> Iterator[Line]:
    """The lines of one file as records {id, rest}. prefix: of their labels, which are unique in all of them."""
    for line in cut_lines(reading, ("id", "rest"), _cells_of):
        yield replace(line, name=f"{prefix}{line.name}")


def _cells_of(line: str) -> list[str]:
    identity, *rest = line.split(maxsplit=1)
    return [identity, *(cells.strip() for cells in rest or [""])]


def _fill(tables: ScratchTables, reading: Reading, name: str) -> Iterator[Line]:
    """Write a companion down; gives its broken lines."""
    for line in _read(reading, f"{name}:"):
        rest = line.fields.get("rest", "")
        span = _span(rest) if name == "segments" else (rest,)
        if line.fault is not None:
            yield line
        elif span is None or (name != "text" and not rest):
            yield replace(line, fault=Fault(1003, f"the line of {name} is not of the form {_FORMS[name]}"))
        else:
            tables.add(name, (line.number, line.fields["id"], *span, 0))


def _span(cells: str) -> tuple[str, float, float] | None:
    """(recording, start, end) of a segment; None where it is no span of time."""
    parts = cells.split()
    try:
        recording, start_s, end_s = parts[0], float(parts[1]), float(parts[2])
    except (IndexError, ValueError):
        return None
    # A fourth number is the channel; -1 as the end is the recording's own.
    is_span = math.isfinite(start_s) and math.isfinite(end_s) and start_s >= 0 and (end_s > start_s or end_s == -1)
    return (recording, start_s, end_s) if is_span and len(parts) <= 4 else None


def _recording(tables: ScratchTables, line: Line, *, has_segments: bool) -> Line:
    """The record of a line of `wav.scp`."""
    if line.fault is not None:
        return line
    identity, path = line.fields["id"], line.fields["rest"]
    if not tables.change("INSERT OR IGNORE INTO recordings VALUES (?)", identity):
        repeated = Fault(1003, f"the line repeats the id {identity[:60]}")
        return Line(line.name, line.number, {"audio": path, "recording_id": identity}, repeated)
    fields: dict[str, Any] = {"recording_id" if has_segments else "utterance_id": identity, "audio": path}
    if has_segments:
        fields["segments"] = []
        sql = "SELECT number, id, start_s, end_s FROM segments WHERE recording = ? ORDER BY number LIMIT ?"
        for number, name, start_s, end_s in tables.select(sql, identity, _MAX_SEGMENTS):
            tables.change("UPDATE segments SET is_taken = 1 WHERE number = ?", number)
            segment = {"utterance_id": name, "start_s": start_s, "end_s": end_s if end_s >= 0 else None}
            fields["segments"].append(_with_words(tables, segment, name))
    else:
        _with_words(tables, fields, identity)
    fault = None
    if not path:
        fault = Fault(1003, "the line is not of the form <recording> <file>")
    elif path.endswith("|") or path.startswith("|"):
        fault = Fault(1007, "the recording is the output of a command, which is never run")
    return Line(line.name, line.number, fields, fault)


def _with_words(tables: ScratchTables, fields: dict[str, Any], utterance: str) -> dict[str, Any]:
    """The fields, with the first words and the first speaker of the utterance, and what is known of them."""
    for table, name in _SAID:
        sql = f"SELECT number, body FROM {table} WHERE id = ? ORDER BY number LIMIT 1"
        for number, body in tables.select(sql, utterance):
            tables.change(f"UPDATE {table} SET is_taken = 1 WHERE number = ?", number)
            fields |= {name: body} if body else {}
    if "speaker_id" in fields and "gender" not in fields:
        sql = f"SELECT body FROM {_OF_SPEAKERS} WHERE id = ? ORDER BY number LIMIT 1"
        for (body,) in tables.select(sql, fields["speaker_id"]):
            fields["gender"] = body
    return fields


def _left_over(tables: ScratchTables, last: int) -> Iterator[Line]:
    """What no recording took: words and segments whose recording is not in `wav.scp`, or that repeat an id."""
    for table, field in _SAID:
        for number, identity, body in tables.pages(f"SELECT number, id, body FROM {table} WHERE NOT is_taken"):
            reason = f"{table} names the utterance {identity[:60]}, which no recording has, or repeats it"
            fields = {"utterance_id": identity, field: body}
            yield Line(f"{table}:line:{number}", last + number, fields, Fault(1011, reason))
    sql = "SELECT number, id, recording, start_s, end_s FROM segments WHERE NOT is_taken"
    for number, identity, recording, start_s, end_s in tables.pages(sql):
        reason = f"the segment {identity[:60]} is of the recording {recording[:60]}, which wav.scp does not have"
        reason += f", or which has more than {_MAX_SEGMENTS}"
        fields = {"utterance_id": identity, "recording_id": recording, "start_s": start_s, "end_s": end_s}
        yield Line(f"segments:line:{number}", last + number, fields, Fault(1011, reason))
