"""Measurements and scorers: what gives the numbers that rules judge. A number's name is its `measure`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from mmlake.records import Digest
from mmlake.spans import Shared, Sound, Span, span_of
from mmlake.store import Blobs

Measures = dict[str, float | None]  # a value is None where the measure makes no sense on the unit
# a row of unit tracks: digest of the unit, role, parent_digest, span_start_s, span_end_s and the columns asked for
Track = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Subject:
    """One unit to be measured, with the bytes that its measurement reads, ready for another process."""

    track: Track
    blobs: tuple[bytes, ...] = ()  # as `Measurement.blobs` names them
    path: Path | None = None  # the bytes of the item that holds the unit, where `needs_file`
    sound: Sound | None = None  # mono, 16 kHz, of the unit alone, where `needs_sound` and the item has sound
    span_s: Span | None = None  # of `path` and `blobs` that hold the item, only this is the unit; None: all of it


Score = Callable[[Subject], float | None]


def no_blobs(track: Track) -> list[Digest]:
    """For measurements that the track is enough for."""
    return []


def own_blob(track: Track) -> list[Digest]:
    """For measurements that read the item's own bytes whole; of a span, those of the item that holds it."""
    return [track["parent_digest"]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """One function that takes numbers of a unit, together because they share the work of decoding it."""

    name: str
    modalities: tuple[str, ...]
    measures: tuple[str, ...]  # the names of its numbers: all of them for every unit, in any order
    columns: tuple[str, ...]  # of TRACKS, that it reads besides those that every track has
    take: Callable[[Subject], Measures]  # at module level: worker processes import it by its name
    # for the spans of one item, in order, in place of `take`: one decode for all. A raise is the failure of the span
    # whose turn it is
    take_spans: Callable[[Sequence[Subject]], Iterable[Measures]] | None = None
    blobs: Callable[[Track], list[Digest]] = no_blobs  # what is read whole, for each unit
    needs_file: bool = False  # whether the item's own bytes are wanted as a local file
    needs_sound: bool = False  # whether the unit's sound is wanted
    revision: str = "1"  # of the function; counted up when it gives other numbers, which makes the measures stale
    plugin: str = ""  # "name==version" of the plugin that brings it; empty for a built-in one

    @property
    def is_by_parent(self) -> bool:
        """Whether the units of one item are measured in one call, for its file is opened once for all of them."""
        return self.needs_file or self.needs_sound

    @contextmanager
    def subjects(self, tracks: Sequence[Track], *, store: Blobs, shared: Shared) -> Iterator[list[Subject]]:
        """Units of one item with their bytes. Raises BlobMissing, BlobCorrupt, and what a failing store raises."""
        item, sound = tracks[0]["parent_digest"], tracks[0]["audio_digest"] if self.needs_sound else None
        is_whole = span_of(tracks[0]) is None
        with ExitStack() as stack:

            def local(digest: Digest) -> Path:
                return stack.enter_context(shared.one(digest, partial(store.local, digest)))

            path = local(item) if self.needs_file else None
            sound_file = None if sound is None else store.read(sound) if is_whole else local(sound)
            yield [
                Subject(
                    track,
                    tuple(store.read(digest) for digest in self.blobs(track)),
                    path,
                    None if sound_file is None else Sound(sound_file, span_of(track)),
                    span_of(track),
                )
                for track in tracks
            ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scorer:
    """One learned score: a measure whose number a model gives. The built-in table has none, since no weights ship."""

    name: str  # of its measure as well
    modalities: tuple[str, ...]
    revision: str  # of the weights; another one makes the measures stale
    licence: str  # SPDX id of the weights
    columns: tuple[str, ...]  # of TRACKS, that it reads besides those that every track has
    load: Callable[[], Score]  # the function that scores, with its model; at module level as well
    blobs: Callable[[Track], list[Digest]] = no_blobs  # what is read whole, for each unit
    needs_file: bool = False  # whether the item's own bytes are wanted as a local file
    needs_sound: bool = False  # whether the unit's sound is wanted
    plugin: str = ""  # "name==version" of the plugin that brings it

    def as_measurement(self) -> Measurement:
        """The scorer as a measurement of one number; the model is loaded where the first unit is scored."""
        return Measurement(
            name=self.name,
            modalities=self.modalities,
            measures=(self.name,),
            columns=self.columns,
            take=partial(_scored, self.load, self.name),
            blobs=self.blobs,
            needs_file=self.needs_file,
            needs_sound=self.needs_sound,
            revision=self.revision,
            plugin=self.plugin,
        )


def _scored(load: Callable[[], Score], name: str, subject: Subject) -> Measures:
    return {name: _loaded(load)(subject)}


@lru_cache(maxsize=4)
def _loaded(load: Callable[[], Score]) -> Score:
    """The scoring function; a worker process loads a model once, and keeps it as long as it lives."""
    return load()
