"""Whether the clips and segments of a version's shards lie where they claim to: a seeded sample of items, all of whose
cuts are held against the item (`mmlake.cuts.clock`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmlake.compute import ordered_map
from mmlake.cuts.clock import CutPiece, Lag, OwnSound, described, lags_of_piece
from mmlake.errors import UnreadableItem
from mmlake.lake import Lake
from mmlake.loader import ShardStream
from mmlake.publish.pins import UNITS, pin
from mmlake.publish.unit_facts import version_tracks
from mmlake.records import LEADING_ROLES
from mmlake.shards import UnitFacts

NUM_CUTS = 24  # that are compared; each is decoded, and so is the item up to the last of them
_CUT = ("video", "audio")


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardClock:
    """What the cuts of a version's shards say of their clock."""

    num_cuts: int  # that were compared
    num_lags: int  # comparisons that say something: several steps for each cut
    worst_s: float | None  # the largest lag, without its sign; None where nothing says anything
    problems: list[str]  # a sentence for each item and step


@dataclass(frozen=True, kw_only=True, slots=True)
class _Cut:
    sample: str
    number: int  # of the item's cuts in the version
    modality: str
    unit: str


def check_clock(lake: Lake, version: str, *, limit: int = NUM_CUTS, seed: int = 0) -> ShardClock:
    """The lags of about so many cuts of the finished shards. Raises ShardCorrupt, BlobMissing, BlobCorrupt."""
    id_, samples = lake.versions.resolve(version), lake.versions.samples(version)
    chosen = _chosen(samples, limit=limit, rng=np.random.default_rng(seed))
    lags: list[Lag] = []
    problems: list[str] = []
    if chosen:
        stream = ShardStream(lake.shards_dir / id_, verify="fast", shuffle=False, mixture=False)
        units = [cut.unit for cuts in chosen.values() for cut in cuts]
        with ExitStack() as stack:
            stack.callback(stream.close)
            numbers = {key: number for number, key in enumerate(stream.keys())}
            tracks = stack.enter_context(version_tracks(pin(lake, id_, samples).tables(UNITS), _array(units)))
            for parent, cuts in chosen.items():
                try:
                    own = _lags(lake, parent, cuts, stream, numbers, tracks.facts(cuts[0].unit))
                except UnreadableItem as error:
                    problems.append(f"item {parent[:12]} cannot be compared with its cuts: {error}")
                    continue
                lags += own
                problems += [f"item {parent[:12]}: {problem}" for problem in described(own)]
    return ShardClock(
        num_cuts=sum(len(cuts) for cuts in chosen.values()),
        num_lags=len(lags),
        worst_s=max((abs(lag.lag_s) for lag in lags), default=None),
        problems=problems,
    )


def _array(units: list[str]) -> Any:
    import pyarrow as pa

    return pa.array(units, pa.string())


def _chosen(samples: Any, *, limit: int, rng: np.random.Generator) -> dict[str, list[_Cut]]:
    """Item -> its cuts in order, of some items; the first `limit` cuts of an item that has more."""
    by_item: dict[str, list[tuple[int, str, dict[str, Any]]]] = {}
    for row in samples.select(["sample", "parts"]).to_pylist():
        for part in row["parts"]:
            if part["role"] in LEADING_ROLES and part["modality"] in _CUT and part["start_us"] is not None:
                by_item.setdefault(part["parent_digest"], []).append((part["start_us"], row["sample"], part))
    chosen: dict[str, list[_Cut]] = {}
    left = limit
    for item in rng.permutation(sorted(by_item)).tolist():
        if left <= 0:
            break
        cuts = sorted(by_item[item], key=lambda one: one[:2])[:limit]
        chosen[item] = [
            _Cut(sample=sample, number=number, modality=part["modality"], unit=part["digest"])
            for number, (_, sample, part) in enumerate(cuts)
        ]
        left -= len(cuts)
    return chosen


def _lags(
    lake: Lake, parent: str, cuts: list[_Cut], stream: ShardStream, numbers: dict[str, int], facts: UnitFacts
) -> list[Lag]:
    with ExitStack() as stack:
        item = stack.enter_context(lake.store.local(parent))
        track = None if facts.audio_digest is None else stack.enter_context(lake.store.local(facts.audio_digest))
        workers, own = lake.settings.cuts.workers, OwnSound(item)
        pieces = ((piece, own.around(piece)) for piece in _pieces(cuts, stream, numbers))
        found = ordered_map(lambda pair: lags_of_piece(item, track, *pair), pieces, workers=workers, ahead=workers)
        return [lag for lags in found for lag in lags]


def _pieces(cuts: list[_Cut], stream: ShardStream, numbers: dict[str, int]) -> Iterator[CutPiece]:
    """The cuts as the shards hold them, one at a time."""
    for cut in cuts:
        held = stream.sample(numbers[cut.sample])
        span = json.loads(held["json"]).get("span")
        if not span:
            continue  # of an interleaved sample
        yield CutPiece(
            key=cut.sample,
            number=cut.number,
            start_s=span["start_s"],
            end_s=span["end_s"],
            media_start_s=span["media_start_s"],
            clip=held.get("mp4") if cut.modality == "video" else None,
            sound=held.get("sound.flac"),
            segment=held.get("flac") if cut.modality == "audio" else None,
        )
