"""Measurements and scorers: what gives the numbers that rules judge. A number's name is its `measure`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from mmlake.records import Digest
from mmlake.store import Blobs

Measures = dict[str, float | None]  # a value is None where the measure makes no sense on the item
Track = Mapping[str, Any]  # a row of TRACKS: digest, role and the columns that were asked for


@dataclass(frozen=True, slots=True)
class Subject:
    """One item to be measured, with the bytes that its measurement reads, ready for another process."""

    track: Track
    blobs: tuple[bytes, ...] = ()  # as `Measurement.blobs` names them
    path: Path | None = None  # the item's own bytes, where `needs_file`


Score = Callable[[Subject], float | None]


def no_blobs(track: Track) -> list[Digest]:
    """For measurements that the track is enough for."""
    return []


def own_blob(track: Track) -> list[Digest]:
    """For measurements that read the item's own bytes whole."""
    return [track["digest"]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """One function that takes numbers of an item, together because they share the work of decoding it."""

    name: str
    modalities: tuple[str, ...]
    measures: tuple[str, ...]  # the names of its numbers: all of them for every item, in any order
    columns: tuple[str, ...]  # of TRACKS, that it reads besides digest and role
    take: Callable[[Subject], Measures]  # at module level: worker processes import it by its name
    blobs: Callable[[Track], list[Digest]] = no_blobs  # what is read whole
    needs_file: bool = False  # whether the item's own bytes are wanted as a local file
    revision: str = "1"  # of the function; counted up when it gives other numbers, which makes the measures stale
    plugin: str = ""  # "name==version" of the plugin that brings it; empty for a built-in one

    @contextmanager
    def subject(self, track: Track, *, store: Blobs) -> Iterator[Subject]:
        """The item with its bytes. Raises BlobMissing, BlobCorrupt, and what a failing store raises."""
        with ExitStack() as stack:
            path = stack.enter_context(store.local(track["digest"])) if self.needs_file else None
            yield Subject(track, tuple(store.read(digest) for digest in self.blobs(track)), path)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scorer:
    """One learned score: a measure whose number a model gives. The built-in table has none, since no weights ship."""

    name: str  # of its measure as well
    modalities: tuple[str, ...]
    revision: str  # of the weights; another one makes the measures stale
    licence: str  # SPDX id of the weights
    columns: tuple[str, ...]  # of TRACKS, that it reads besides digest and role
    load: Callable[[], Score]  # the function that scores, with its model; at module level as well
    blobs: Callable[[Track], list[Digest]] = no_blobs  # what is read whole
    needs_file: bool = False  # whether the item's own bytes are wanted as a local file
    plugin: str = ""  # "name==version" of the plugin that brings it

    def as_measurement(self) -> Measurement:
        """The scorer as a measurement of one number; the model is loaded where the first item is scored."""
        return Measurement(
            name=self.name,
            modalities=self.modalities,
            measures=(self.name,),
            columns=self.columns,
            take=partial(_scored, self.load, self.name),
            blobs=self.blobs,
            needs_file=self.needs_file,
            revision=self.revision,
            plugin=self.plugin,
        )


def _scored(load: Callable[[], Score], name: str, subject: Subject) -> Measures:
    return {name: _loaded(load)(subject)}


@lru_cache(maxsize=4)
def _loaded(load: Callable[[], Score]) -> Score:
    """The scoring function; a worker process loads a model once, and keeps it as long as it lives."""
    return load()
