"""Clips of films with all their tracks on one time axis, as the loader reads them from the version's shards."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from mmlake import report
from mmlake.cuts import preview
from mmlake.errors import MmlakeError, UnreadableItem
from mmlake.lake import Lake
from mmlake.loader import TrackSample, track_samples
from mmlake.publish.unit_facts import turns_within
from mmlake.records import LEADING_ROLES
from mmlake.report import TrackExample

_MAX_KEYFRAMES = 24
_NUM_PEAKS = 380
_MAX_FILM_BYTES = 300_000  # of three of them in one page


def tracks_of(lake: Lake, version: str) -> list[TrackExample]:
    """Those of the version with the most to show; none where its shards have not been written or cannot be read."""
    try:
        samples = track_samples(lake.shards_dir / lake.versions.resolve(version))
    except MmlakeError:
        return []
    return [_example(lake, sample) for sample in samples]


def _playable(lake: Lake, film: bytes) -> bytes:
    """The film as it is where a page can take it, else a small rendition; nothing where none can be made."""
    if len(film) <= _MAX_FILM_BYTES and report.media_type(film) is not None:
        return film
    try:
        return preview(film, settings=lake.cuts.settings)
    except (MmlakeError, UnreadableItem):
        return b""


def _example(lake: Lake, sample: TrackSample) -> TrackExample:
    facts = sample.facts
    span = facts.get("span") or {}
    frames = sample.keyframes[:: -(-len(sample.keyframes) // _MAX_KEYFRAMES) or 1]
    small = [(time_s, report.thumbnail(data, max_side_px=96)) for time_s, data in frames]
    return TrackExample(
        key=sample.key,
        shard=sample.shard,
        place=f"{span['start_s']:.2f} to {span['end_s']:.2f} s of {span['parent'][:10]}" if span else "whole film",
        duration_s=sample.duration_s,
        media_start_s=float(span.get("media_start_s", 0.0)),
        video=_playable(lake, sample.media),
        keyframes=[(time_s, data) for time_s, data in small if data is not None],
        shots=facts.get("shots", []),
        peaks=[] if sample.sound is None else _peaks(sample.sound),
        words=[_named(word, "word") for word in facts.get("words", [])],
        spans={name: found for name, found in {"speech": _speech(lake, facts), **_spans(facts)}.items() if found},
    )


def _speech(lake: Lake, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Where somebody speaks in the clip, on its clock: shards do not hold it, the tracks of its film do."""
    span = facts.get("span") or {}
    lead = next((part["digest"] for part in facts.get("parts", []) if part["role"] in LEADING_ROLES), None)
    film = span.get("parent") or lead
    for rows in lake.tables.scan_parts("tracks", "video", columns=["digest", "speech"]):
        for row in rows.filter(pc.equal(rows["digest"], film)).to_pylist():
            return turns_within(row["speech"] or [], span.get("start_s"), span.get("end_s"))
    return []


def _spans(facts: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    timed = [line for line in facts.get("corrections", []) if line["start_s"] is not None and line["corrected"]]
    return {
        "speakers": [_named(turn, "speaker") for turn in facts.get("turns", [])],
        "subtitles": [_named(cue, "text") for cue in facts.get("cues", [])],
        "corrected": [_named(line, "corrected") for line in timed],
        "events": [_named(event, "text") for event in facts.get("events", [])],
    }


def _named(part: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {"start_s": part["start_s"], "end_s": part["end_s"], "text": part[name]}


def _peaks(flac: bytes) -> list[float]:
    import soundfile

    samples, _ = soundfile.read(io.BytesIO(flac), dtype="float32")
    return report.waveform_peaks(samples, num_bins=_NUM_PEAKS)
