"""Samples of films as a reader of their tracks sees them: the clip, its 16 kHz sound, its keyframes, and what is said.

Read from finished shards by the loader's own reader, so that what is shown is what a training loop gets.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmlake.loader.entries import Entry, entries
from mmlake.loader.shard import OpenShard

_MAX_READ = 2_000  # samples whose facts are read to find those with the most to show


@dataclass(frozen=True, kw_only=True, slots=True)
class TrackSample:
    """One clip or film. Times are seconds on its own clock."""

    key: str
    shard: str
    facts: dict[str, Any]  # the JSON member
    media: bytes  # as the shard holds it
    media_type: str  # ending of its member, such as mp4
    sound: bytes | None  # FLAC, mono, 16 kHz
    keyframes: list[tuple[float, bytes]]  # (time_s, JPEG)

    @property
    def duration_s(self) -> float:
        """How long it lasts."""
        return float(self.facts["duration_s"])


def track_samples(index: str | Path, count: int = 3) -> list[TrackSample]:
    """The samples of films with the most to show: words first, then subtitles, then shots. The same for the same
    shards; of very many only the first 2,000 are read. index: a folder of shards. Raises ShardCorrupt."""
    directory, _, shards = entries(index)
    films = [entry for entry in shards if entry.modality == "video" and entry.format == "tar"]
    found = heapq.nsmallest(count, _facts(directory, films), key=lambda one: (_rank(one[2]), one[1]))
    samples = []
    for entry, key, facts in found:
        shard = OpenShard(directory, entry, verify="members")
        try:
            samples.append(_sample(shard, shard.keys.index(key), facts))
        finally:
            shard.close()
    return samples


def _facts(directory: Path, films: list[Entry]) -> Iterator[tuple[Entry, str, dict[str, Any]]]:
    num_read = 0
    for entry in films:
        shard = OpenShard(directory, entry, verify="fast")
        try:
            for number, key in enumerate(shard.keys):
                facts = json.loads(shard.member(number, "json"))
                if facts.get("duration_s"):
                    yield entry, key, facts
                num_read += 1
                if num_read >= _MAX_READ:
                    return
        finally:
            shard.close()


def _rank(facts: Mapping[str, Any]) -> tuple[bool, bool, bool, bool]:
    """The smaller, the more there is to show."""
    return (
        not facts.get("words"),
        not facts.get("cues"),
        len(facts.get("shots", [])) < 2,
        len(facts.get("keyframes", [])) < 2,
    )


def _sample(shard: OpenShard, number: int, facts: dict[str, Any]) -> TrackSample:
    members = shard.members(number)
    joined = members.get("keyframes.mjpeg", b"")
    ending = shard.endings(number)[0]
    return TrackSample(
        key=shard.key(number),
        shard=shard.entry.name,
        facts=facts,
        media=members[ending],
        media_type=ending,
        sound=members.get("sound.flac"),
        keyframes=[
            (float(one["time_s"]), joined[one["offset"] : one["offset"] + one["size_bytes"]])
            for one in facts.get("keyframes", [])
        ],
    )
