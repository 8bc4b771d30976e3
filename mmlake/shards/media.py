"""The media of samples on their way into a tar: whole blobs as they are, spans cut, keyframes joined.

Enters: parts of samples, the blob store, the cache of cuts and what is known of units. Leaves: members of a tar, and
what the JSON member says of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import IO, Any, Protocol

from mmlake.border import Failure, attempt
from mmlake.cuts import Cut, CutCache, Span
from mmlake.errors import ContractBroken, UnreadableItem
from mmlake.formats.tar_writer import Member
from mmlake.shards.layout import CUT_TYPES, KEYFRAMES, SOUND
from mmlake.shards.unit_facts import LATER_FIELDS, Tracks, UnitFacts
from mmlake.store import PACKED_BELOW_BYTES, Blobs

_UNFORESEEN = 3303  # of the error catalogue: cut_failed
_LOST = (2001, 2002)  # a blob is missing, or is not what its name says

Part = Mapping[str, Any]  # of PART_READ


class Members(Protocol):
    """Where members go: a tar, or a row."""

    def add(self, name: str, data: bytes) -> Member:
        """See `TarWriter.add`."""

    def add_stream(self, name: str, size_bytes: int, stream: IO[bytes], *, digest: str) -> Member:
        """See `TarWriter.add_stream`."""


class Media:
    """Gives the bytes of parts that are films, recordings or spans of them."""

    def __init__(self, store: Blobs, *, cuts: CutCache | None = None, tracks: Tracks | None = None) -> None:
        self.store, self.tracks = store, tracks
        self._cuts = cuts

    def facts(self, part: Part) -> UnitFacts | None:
        """What is known of a part; None where it is neither film nor recording, or where nobody knows."""
        if self.tracks is None or part["modality"] not in CUT_TYPES:
            return None
        return self.tracks.facts(part["digest"])

    def add(self, tar: Members, name: str, part: Part) -> tuple[Member, dict[str, Any]]:
        """The member that now holds the medium, and what was cut."""
        if part["start_us"] is None:
            return self._add_blob(tar, name, part["digest"], part["size_bytes"]), {}
        cut = self._cut(part)
        return _add_cut(tar, name, cut), cut.facts

    def add_track(self, tar: Members, name: str, part: Part, what: str) -> Member:
        """The member that now holds the part's SOUND or KEYFRAMES."""
        facts = self.facts(part)
        assert facts is not None and what in (SOUND, KEYFRAMES)
        if what == KEYFRAMES:
            return tar.add(name, b"".join(self.store.read(frame["digest"]) for frame in facts.keyframes))
        assert facts.audio_digest is not None
        if part["start_us"] is None and (self._cuts is None or self._cuts.cleaner is None):
            return self._add_blob(tar, name, facts.audio_digest, self.store.size(facts.audio_digest))
        return _add_cut(tar, name, self._sound(part, facts.audio_digest))

    def _sound(self, part: Part, audio_digest: str) -> Cut:
        with self._local(audio_digest) as track:
            if part["start_us"] is None:
                return self._made(part, lambda cuts: cuts.whole_sound(part["digest"], track))
            return self._made(part, lambda cuts: cuts.sound(self._span(part), track))

    def described(self, part: Part, cut: Mapping[str, Any], *, is_unsaid: bool) -> dict[str, Any]:
        """What the JSON member says of a film, a recording or a span, on its own clock; nothing of other parts.
        is_unsaid: without the words that are spoken there."""
        facts = self.facts(part)
        if facts is None:
            return {}
        if is_unsaid:
            facts = facts.unsaid()
        span = None
        if part["start_us"] is not None:
            span = {
                "parent": part["parent_digest"],
                "start_s": part["start_us"] / 1e6,
                "end_s": part["end_us"] / 1e6,
                "num_frames": cut.get("num_frames"),
                "is_exact": bool(cut.get("is_exact", True)),
                "media_start_s": float(cut.get("media_start_s", 0.0)),
            }
        keyframes, offset = [], 0
        for frame in facts.keyframes:
            size_bytes = self.store.size(frame["digest"])
            keyframes.append({"time_s": frame["time_s"], "offset": offset, "size_bytes": size_bytes})
            offset += size_bytes
        return {
            "duration_s": facts.duration_s,
            "span": span,
            "words": [dict(word) for word in facts.words],
            "transcript_match": facts.transcript_match,
            "cues": [dict(cue) for cue in facts.cues],
            "keyframes": keyframes,
            **{name: [dict(one) for one in found] for name in LATER_FIELDS if (found := getattr(facts, name))},
            **facts.of_models(),
            **self._cleaned(part, facts),
        }

    def _cleaned(self, part: Part, facts: UnitFacts) -> dict[str, bool]:
        """Whether the noise was taken out of the part's SOUND, where that is asked for."""
        if self._cuts is None or self._cuts.cleaner is None or facts.audio_digest is None:
            return {}
        if part["modality"] != "video" and not self._cuts.settings.recordings_sound:
            return {}
        return {"sound_denoised": bool(self._sound(part, facts.audio_digest).facts.get("is_denoised"))}

    def prepare(self, parts: Iterable[Part]) -> list[tuple[Part, Failure]]:
        """Cut what will be asked for and is not there, several at a time; the parts that cannot be cut, and why, which
        the cache remembers. All segments of a recording come from one decode. parts: spans that lead samples, those of
        one item next to each other. Raises BlobMissing, BlobCorrupt where an item is lost."""
        if self._cuts is None:
            return []
        failed, held, tried_again = list[tuple[Part, Failure]](), self._cuts.uncut.held(), set[str]()
        with ThreadPoolExecutor(self._cuts.settings.workers) as pool:
            recordings = []
            for (_, modality), group in groupby(parts, key=lambda part: (part["parent_digest"], part["modality"])):
                of_item = list(group)
                tried_again |= {part["digest"] for part in of_item if part["digest"] in held}
                if modality == "video":
                    failed += self._prepare_film(pool, of_item)
                else:
                    recordings.append(pool.submit(self._prepare_recording, of_item))
            for one in recordings:
                failed += one.result()
        self._cuts.uncut.note(
            tried_again, [(part["digest"], part["parent_digest"], part["modality"], why) for part, why in failed]
        )
        return failed

    def _prepare_film(self, pool: ThreadPoolExecutor, parts: list[Part]) -> list[tuple[Part, Failure]]:
        failed = list[tuple[Part, Failure]]()
        with self._local(parts[0]["parent_digest"]) as film:

            def clip(part: Part) -> Failure | None:
                return self._tried(partial(CutCache.clip, span=self._span(part), film=film))

            found = zip(parts, pool.map(clip, parts), strict=True)
            failed += [(part, failure) for part, failure in found if failure is not None]
        facts, uncut = self.facts(parts[0]), {part["digest"] for part, _ in failed}
        if facts is not None and facts.audio_digest is not None:
            with self._local(facts.audio_digest) as track:
                for part in parts:
                    if part["digest"] not in uncut:
                        failure = self._tried(partial(CutCache.sound, span=self._span(part), track=track))
                        failed += [(part, failure)] if failure is not None else []
        return failed

    def _prepare_recording(self, parts: list[Part]) -> list[tuple[Part, Failure]]:
        """All from one decode; where that fails each by itself, since one of them may be the reason."""
        with self._local(parts[0]["parent_digest"]) as recording:
            segments = partial(CutCache.add_segments, recording=recording)
            spans = [self._span(part) for part in parts]
            if self._tried(partial(segments, spans=spans)) is None:
                return []
            found = [self._tried(partial(segments, spans=[span])) for span in spans]
        return [(part, failure) for part, failure in zip(parts, found, strict=True) if failure is not None]

    def _tried(self, make: Callable[[CutCache], object]) -> Failure | None:
        """Why the cut cannot be made; None where it is there now. Raises what is no fault of the medium: a lost item is
        one of the lake."""
        assert self._cuts is not None
        found = attempt(make, self._cuts, code=_UNFORESEEN, what="it cannot be cut")
        if isinstance(found, Failure) and found.code in _LOST:
            make(self._cuts)
        return found if isinstance(found, Failure) else None

    def _cut(self, part: Part) -> Cut:
        with self._local(part["parent_digest"]) as item:
            if part["modality"] == "video":
                return self._made(part, lambda cuts: cuts.clip(self._span(part), item))

            def segment(cuts: CutCache) -> Cut | None:
                cuts.add_segments([self._span(part)], item)
                return cuts.segment(self._span(part))

            return self._made(part, segment)

    def _made(self, part: Part, make: Callable[[CutCache], Cut | None]) -> Cut:
        with self._explained(part):
            if self._cuts is None:
                raise ContractBroken("spans are cut, but there is no cache of cuts; pass `cuts` to write_shards")
            cut = make(self._cuts)
        if cut is None:
            raise ContractBroken(f"the cut of unit {part['digest'][:12]} is gone as soon as it is made; run this again")
        return cut

    @contextmanager
    def _explained(self, part: Part) -> Iterator[None]:
        """Turn what a medium does not allow into an error that a person can act on: a version promises its samples."""
        try:
            yield
        except UnreadableItem as error:
            raise ContractBroken(
                f"version -> training shards: unit {part['digest'][:12]} cannot be cut from item "
                f"{part['parent_digest'][:12]} ({error}); raise `cuts.timeout_s` or `cuts.memory_bytes` where one of "
                "these is the reason, else land the item again without damage"
            ) from error

    def _span(self, part: Part) -> Span:
        facts = self.facts(part) or UnitFacts()
        return Span(
            digest=part["digest"],
            parent_digest=part["parent_digest"],
            start_us=part["start_us"],
            end_us=part["end_us"],
            start_frame=facts.start_frame,
            end_frame=facts.end_frame,
        )

    @contextmanager
    def _local(self, digest: str) -> Iterator[Callable[[], Path]]:
        """A function that gives a blob as a local file, fetched when it is first called."""
        with ExitStack() as stack:
            lock, found = threading.Lock(), list[Path]()

            def path() -> Path:
                with lock:
                    if not found:
                        found.append(stack.enter_context(self.store.local(digest)))
                    return found[0]

            yield path

    def _add_blob(self, tar: Members, name: str, digest: str, size_bytes: int) -> Member:
        if size_bytes < PACKED_BELOW_BYTES:
            return tar.add(name, self.store.read(digest))
        with self.store.open(digest) as stream:
            return tar.add_stream(name, self.store.size(digest), stream, digest=digest)


def _add_cut(tar: Members, name: str, cut: Cut) -> Member:
    with cut.path.open("rb") as stream:
        return tar.add_stream(name, cut.size_bytes, stream, digest=cut.sha256)
