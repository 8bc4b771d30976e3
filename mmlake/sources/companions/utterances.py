"""Utterances of recordings, one record each, as NeMo has them (`offset`, `duration`) and Lhotse in its cuts: all of one
recording become one record, whose `segments` have their words and times.

Enters: the records of a manifest, in any order and number. Leaves: those that are no utterances as they came, then a
record for each recording, with the label of its first. Nothing that stands in them is run.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from mmlake.errors import Fault
from mmlake.sources.records.lines import Line
from mmlake.sources.records.scratch import ScratchTables

_AUDIO = ("audio_filepath", "audio")  # fields that name the recording of an utterance
_COMMAND = Fault(1007, "the recording is the output of a command, which is never run")
_MAX_SEGMENTS = 10_000  # of one recording: all are in its metadata
_TABLES = "CREATE TABLE spans (number INTEGER PRIMARY KEY, label TEXT, path TEXT, body TEXT);"
_INDICES = "CREATE INDEX paths ON spans (path, number);"


def is_cut(record: Any) -> bool:
    """Whether the record is a cut of Lhotse's of one recording, which is in one file."""
    return isinstance(record, Mapping) and _file_of(record) is not None


def is_recording(record: Any) -> bool:
    """Whether the record is a recording of Lhotse's, which is in one file: it comes next to its supervisions, and says
    of it what it is, not what is said."""
    if not isinstance(record, Mapping) or not isinstance(record.get("id"), str):
        return False
    is_of_samples = all(_is_number(record.get(name)) for name in ("sampling_rate", "num_samples"))
    return is_of_samples and _source_of(record, ("file",)) is not None


def as_utterances(record: dict[str, Any]) -> dict[str, Any]:
    """A cut of Lhotse's as the recording with its segments, times those of the recording; a recording of Lhotse's with
    the name of its file; any other record as it is."""
    if is_recording(record):
        # its duration follows, and would be taken for that of what a supervision of it says
        own: dict[str, Any] = {
            name: record[name] for name in ("sampling_rate", "num_samples", "channel_ids") if name in record
        }
        return {"recording_id": record["id"], "audio": record["sources"][0]["source"], **own}
    path = _file_of(record)
    if path is None:
        return record
    start_s = record["start"]
    said = [
        {**_renamed(one), "start_s": start_s + one["start"], "end_s": start_s + one["start"] + one["duration"]}
        for one in record["supervisions"]
        if isinstance(one, Mapping) and _is_number(one.get("start")) and _is_number(one.get("duration"))
    ]
    return {"recording_id": record["recording"].get("id"), "audio": path, "segments": said}


def gathered(lines: Iterable[Line]) -> Iterator[Line]:
    """The records, those of one recording as one. A recording of one utterance that begins with it keeps its record."""
    tables = ScratchTables(_TABLES)
    for line in lines:
        fields = as_utterances(line.fields)
        path = _path_of(fields)
        if line.fault is not None or path is None:
            yield line if fields is line.fields else replace(line, fields=fields)
        elif _is_command(line.fields):
            yield Line(line.name, line.number, fields, _COMMAND)
        else:
            # escaped: no database holds half of a surrogate pair
            key = posixpath.normpath(path.replace("\\", "/")).encode("utf-8", "backslashreplace").decode()
            tables.add("spans", (line.number, line.name, key, json.dumps(fields)))
    tables.finish(_INDICES)
    first = "SELECT number, label, path FROM spans WHERE number IN (SELECT min(number) FROM spans GROUP BY path)"
    for number, label, path in tables.pages(first):
        yield Line(label, number, _recording(tables, path))
        yield from _beyond(tables, path)


def _recording(tables: ScratchTables, path: str) -> dict[str, Any]:
    """The record of a recording."""
    sql = "SELECT body FROM spans WHERE path = ? ORDER BY number LIMIT ?"
    records = [json.loads(body) for (body,) in tables.select(sql, path, _MAX_SEGMENTS)]
    if len(records) == 1 and not records[0].get("offset", 0):
        found: dict[str, Any] = records[0]
        return found
    name = next(name for name in _AUDIO if name in records[0])
    segments = [segment for record in records for segment in _segments_of(record, name)]
    whole = {key: value for key, value in records[0].items() if "segments" in records[0] and key != "segments"}
    return {**whole, name: records[0][name], "segments": segments}


def _segments_of(record: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    if "segments" in record:
        yield from record["segments"]
        return
    start_s, length_s = float(record["offset"]), float(record["duration"])
    rest = {key: value for key, value in record.items() if key not in (name, "offset", "duration")}
    yield {**rest, "start_s": start_s, "end_s": start_s + length_s}


def _beyond(tables: ScratchTables, path: str) -> Iterator[Line]:
    """What is said of a recording beyond what one sample may hold."""
    sql = "SELECT number, label, body FROM spans WHERE path = ? ORDER BY number LIMIT -1 OFFSET ?"
    for number, label, body in tables.select(sql, path, _MAX_SEGMENTS):
        fault = Fault(1008, f"num_records>{_MAX_SEGMENTS} of one file not in [0, {_MAX_SEGMENTS}]")
        yield Line(label, number, json.loads(body), fault)


def _path_of(fields: Mapping[str, Any]) -> str | None:
    """The one recording that the record is an utterance of; None where it is none."""
    given = [fields[name] for name in _AUDIO if isinstance(fields.get(name), str)]
    has_words = any(isinstance(fields.get(name), str) for name in ("text", "sentence"))
    is_span = has_words and all(_is_number(fields.get(name)) for name in ("offset", "duration"))
    is_recording = "recording_id" in fields and isinstance(fields.get("segments"), list)
    return given[0] if len(given) == 1 and (is_span or is_recording) else None


def _file_of(record: Mapping[str, Any]) -> str | None:
    recording, said = record.get("recording"), record.get("supervisions")
    if not isinstance(recording, Mapping) or not isinstance(said, list) or not _is_number(record.get("start")):
        return None
    return _source_of(recording, ("file", "command"))


def _source_of(recording: Mapping[str, Any], kinds: tuple[str, ...]) -> str | None:
    """The one file of a recording of Lhotse's; None where it is none or several, or of another kind."""
    sources = recording.get("sources")
    if not isinstance(sources, list) or len(sources) != 1 or not isinstance(sources[0], Mapping):
        return None
    path = sources[0].get("source")
    return path if isinstance(path, str) and sources[0].get("type") in kinds else None


def _is_command(record: Mapping[str, Any]) -> bool:
    return is_cut(record) and record["recording"]["sources"][0].get("type") == "command"


def _renamed(supervision: Mapping[str, Any]) -> dict[str, Any]:
    """A supervision of Lhotse's in the words of a segment."""
    names = {"id": "utterance_id", "speaker": "speaker_id"}
    own = {name: value for name, value in supervision.items() if value is not None}
    return {names.get(name, name): own[name] for name in own if name not in ("start", "duration", "recording_id")}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e6
