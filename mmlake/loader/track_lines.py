"""Multi-track JSON lines: a line per clip of a film, segment of a recording, or whole one, its words with anchors.

    <start:2.10s><end:4.50s>word <start:4.50s><end:4.80s>another

Times are seconds on the clip's own clock. A backslash in a word, and a `<start:` in it, have a backslash before them.
Enters: finished shards. Leaves: lines that name media by shard and member, which `read_tracks` reads back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from mmlake.errors import ShardCorrupt
from mmlake.loader.entries import entries
from mmlake.loader.shard import OpenShard
from mmlake.progress import Advance, silent
from mmlake.records import canonical_json
from mmlake.store import sync_directory
from mmlake.store.files import AtomicFile

SCHEMA: Final = "mmlake.tracks/1"
_MODALITIES = ("video", "audio")
# an escaped one never stands at the beginning or behind a space
_ANCHOR = re.compile(r"(?:^|(?<= ))<start:(\d+(?:\.\d+)?)s><end:(\d+(?:\.\d+)?)s>")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrackLine:
    """One line, its anchors read."""

    sample: str
    modality: str
    media: dict[str, str]  # shard and member
    sound: dict[str, str] | None  # 16 kHz mono
    duration_s: float | None
    span: dict[str, Any] | None  # where it lies in its item
    words: list[dict[str, Any]]  # word, start_s, end_s, score
    cues: list[dict[str, Any]]  # text, start_s, end_s, score
    keyframes: list[dict[str, Any]]  # time_s, and offset and size_bytes in the member that `keyframes_media` names
    keyframes_media: dict[str, str] | None
    shots: list[dict[str, Any]]  # start_s, end_s, transition; empty in recordings
    turns: list[dict[str, Any]]  # speaker, start_s, end_s, confidence; empty where no diarizer ran
    text: str  # with anchors, as in the file
    caption: str | None = None  # what a model says of the clip
    event_tags: list[str] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)  # text, start_s, end_s
    corrected: list[dict[str, Any]] = field(
        default_factory=list
    )  # the lines of the transcript as a model corrected them


def write_tracks(index: str | Path, path: str | Path, *, advance: Advance = silent) -> int:
    """The number of lines written to the path: a line per sample that a film or a recording leads, in the order of the
    shards. index: a folder of shards. Raises ShardCorrupt."""
    directory, _, shards = entries(index)
    path, count = Path(path), 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with AtomicFile(path.parent) as file:
        for entry in shards:
            if entry.modality not in _MODALITIES:
                continue
            shard = OpenShard(directory, entry, verify="fast")
            for number, key in enumerate(shard.keys):
                facts = json.loads(shard.member(number, "json"))
                line = canonical_json(_line(key, f"{entry.name}.tar", shard.endings(number), facts))
                file.write(line.encode("utf-8", "replace") + b"\n")
                count += 1
                advance(1)
            shard.close()
        file.sync()
        file.rename_to(path)
    sync_directory(path.parent)
    return count


def read_tracks(path: str | Path) -> Iterator[TrackLine]:
    """The lines of a file, one at a time. Raises ShardCorrupt naming the line that is none."""
    with Path(path).open(encoding="utf-8") as file:
        for number, text in enumerate(file, start=1):
            line = None
            with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
                line = _parsed(json.loads(text))
            if line is None:
                raise ShardCorrupt(f"{path}: line {number} is none of {SCHEMA}; export it again with `mmlake tracks`")
            yield line


def anchored(parts: Sequence[Mapping[str, Any]], name: str) -> str:
    """The parts as one text, each behind its anchors. name: of the field that holds the text."""
    return " ".join(
        f"<start:{_seconds(part['start_s'])}s><end:{_seconds(part['end_s'])}s>{_escaped(part[name])}" for part in parts
    )


def parse_anchored(text: str, name: str) -> list[dict[str, Any]]:
    """The parts of a text with anchors: start_s, end_s, and the text under that name."""
    found = list(_ANCHOR.finditer(text))
    if text and (not found or found[0].start()):
        raise ValueError("a text without an anchor at its beginning")
    ends = [*(anchor.start() - 1 for anchor in found[1:]), len(text)][: len(found)]
    return [
        {
            name: re.sub(r"\\(.)", r"\1", text[anchor.end() : end], flags=re.S),
            "start_s": float(anchor[1]),
            "end_s": float(anchor[2]),
        }
        for anchor, end in zip(found, ends, strict=True)
    ]


def _line(key: str, shard: str, endings: Sequence[str], facts: Mapping[str, Any]) -> dict[str, Any]:
    def member(ending: str) -> dict[str, str] | None:
        return {"shard": shard, "member": f"{key}.{ending}"} if ending in endings else None

    words, cues = facts.get("words", []), facts.get("cues", [])
    return {
        "schema": SCHEMA,
        "sample": key,
        "modality": facts["modality"],
        "media": member(endings[0]),
        "sound": member("sound.flac"),
        "duration_s": facts.get("duration_s"),
        "span": facts.get("span"),
        "text": anchored(words, "word"),
        "tracks": {
            "text": [
                {"start_s": cue["start_s"], "end_s": cue["end_s"], "text": anchored([cue], "text")} for cue in cues
            ],
            "text_scores": [cue["score"] for cue in cues],
            "word_scores": [word["score"] for word in words],
            "frames": facts.get("keyframes", []),
            "frames_media": member("keyframes.mjpeg"),
            "shots": facts.get("shots", []),
            **({"speakers": facts["turns"]} if facts.get("turns") else {}),
            **({"events": _anchored_events(facts["events"])} if facts.get("events") else {}),
            **({"corrected": _anchored_lines(facts["corrections"])} if facts.get("corrections") else {}),
        },
        **{name: facts[name] for name in ("caption", "event_tags") if facts.get(name)},
    }


def _anchored_events(events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"start_s": event["start_s"], "end_s": event["end_s"], "text": anchored([event], "text")} for event in events
    ]


def _anchored_lines(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The lines of a corrected transcript as they are now; those without times have no anchors."""
    final = [{**line, "text": line["corrected"] or line["text"]} for line in lines]
    return [
        {
            "start_s": line["start_s"],
            "end_s": line["end_s"],
            "text": line["text"] if line["start_s"] is None else anchored([line], "text"),
        }
        for line in final
    ]


def _parsed(line: Mapping[str, Any]) -> TrackLine | None:
    """None for a line of another schema. Raises what a line of other fields raises."""
    if line["schema"] != SCHEMA:
        return None
    tracks = line["tracks"]
    words = parse_anchored(line["text"], "word")
    cues = [part for cue in tracks["text"] for part in parse_anchored(cue["text"], "text")]
    for parts, scores in ((words, tracks["word_scores"]), (cues, tracks["text_scores"])):
        for part, score in zip(parts, scores, strict=True):
            part["score"] = score
    return TrackLine(
        sample=line["sample"],
        modality=line["modality"],
        media=line["media"],
        sound=line["sound"],
        duration_s=line["duration_s"],
        span=line["span"],
        words=words,
        cues=cues,
        keyframes=tracks["frames"],
        keyframes_media=tracks["frames_media"],
        shots=tracks.get("shots", []),  # lines of earlier releases have none
        turns=tracks.get("speakers", []),
        text=line["text"],
        caption=line.get("caption"),
        event_tags=line.get("event_tags", []),
        events=[part for event in tracks.get("events", []) for part in parse_anchored(event["text"], "text")],
        corrected=[_corrected(one) for one in tracks.get("corrected", [])],
    )


def _corrected(line: Mapping[str, Any]) -> dict[str, Any]:
    if line["start_s"] is None:
        return {"text": line["text"], "start_s": None, "end_s": None}
    (part,) = parse_anchored(line["text"], "text")
    return part


def _seconds(value: float) -> str:
    """Two decimals, and more where these are not the same number."""
    short = f"{value:.2f}"
    return short if float(short) == value else format(Decimal(repr(float(value))), "f")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("<start:", "\\<start:")
