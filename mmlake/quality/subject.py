"""What measures are taken of: one decoded item with the bytes that its modality's measures read, ready for another
process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmlake.records import Digest
from mmlake.store import Blobs

Measures = dict[str, float | None]  # a value is None where the measure makes no sense on the item
Track = Mapping[str, Any]  # a row of TRACKS, with the columns that the modality's measures ask for


@dataclass(frozen=True, slots=True)
class Subject:
    """One item to be measured."""

    track: Track
    blobs: tuple[bytes, ...] = ()  # as `Taking.blobs` names them
    path: Path | None = None  # the item's own bytes, where `Taking.needs_file`


@dataclass(frozen=True, kw_only=True, slots=True)
class Taking:
    """How the measures of one modality are taken."""

    columns: tuple[str, ...]  # of TRACKS
    measures: Callable[[Subject], Measures]
    blobs: Callable[[Track], list[Digest]] = lambda track: []  # what is read whole
    needs_file: bool = False  # whether the item's own bytes are wanted as a local file

    @contextmanager
    def subject(self, track: Track, *, store: Blobs) -> Iterator[Subject]:
        """The item with its bytes. Raises BlobMissing, BlobCorrupt, and what a failing store raises."""
        with ExitStack() as stack:
            path = stack.enter_context(store.local(track["digest"])) if self.needs_file else None
            yield Subject(track, tuple(store.read(digest) for digest in self.blobs(track)), path)
