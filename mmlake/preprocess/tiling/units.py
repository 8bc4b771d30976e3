"""The units of a partition: whole items, and the spans and gaps that long recordings and films are cut to, and short
films that stand still for a while.

Enters: tracks, alignments and the store. Leaves: the UNITS table. Spans and gaps of one item tile it. Sound is streamed
for its pauses, films are read for the times of their frames; nothing is decoded to pictures.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake import schemas
from mmlake.border import IN_PROCESS, Failure, Runner, map_opened
from mmlake.preprocess.containers.frame_times import frame_times
from mmlake.preprocess.settings import KEYFRAMES, UnitSettings
from mmlake.preprocess.tiling.check import TIME_AXIS, named
from mmlake.preprocess.tiling.cue_times import LAGS, Lags, lags_by, with_cue_times
from mmlake.preprocess.tiling.cut_cues import CUTS, cue_cuts
from mmlake.preprocess.tiling.places import (
    Spoken,
    film_places,
    gaps_without_picture,
    recording_places,
    silent_gaps,
    stands_still,
    static_gaps,
)
from mmlake.preprocess.tiling.silences import Levels, levels_of, read_levels
from mmlake.preprocess.tiling.splitting import Piece, split
from mmlake.preprocess.tiling.unit_tracks import GAP, WHOLE
from mmlake.preprocess.transcripts.align import MISMATCH
from mmlake.preprocess.transcripts.alignments import has_words
from mmlake.preprocess.transcripts.utterances import of_cues, of_speech, of_words
from mmlake.progress import Advance, silent
from mmlake.store import Blobs, checked_file

_log = logging.getLogger(__name__)
_OF_TRACKS = ("role", "status", "error_code", "error")
_FAILED = 3301
_SLACK_S = 0.1  # what an encoder adds to a clip of round length: the padding of its last frame of sound
_FILMS_BY, _RECORDINGS_BY = "borders@5", "borders@4"  # count up where the same item would be cut elsewhere
_Aligned = tuple[int | None, list[dict[str, Any]]]  # code, words
_SIGNALS = ("time_s", "luma", "luma_std", "change")


@dataclass(frozen=True, kw_only=True, slots=True)
class LongItem:
    """A recording or film that is to be cut, with what is known of it; ready for another process."""

    duration_us: int
    sound: Path | None = None  # mono 16 kHz
    film: Path = Path()  # the item's own bytes
    num_frames: int = 0
    num_errors: int = 0
    shots: Sequence[Mapping[str, Any]] = ()
    signals: Mapping[str, np.ndarray] = field(default_factory=dict)
    spoken: Spoken = field(default_factory=Spoken)


@dataclass(frozen=True, kw_only=True, slots=True)
class Splitter:
    """How long items of one modality are cut."""

    kind: str  # of its spans
    producer: str  # name@revision
    # (item, settings=) -> spans and gaps; raises UnreadableItem, and whatever a library raises
    kernel: Callable[..., Sequence[Piece]]
    reads_film: bool = False  # whether the kernel reads the item's own bytes
    # (signals of the track, end of its pictures in microseconds, settings) -> whether an item that is short enough has
    # gaps; None: it has none
    has_gaps: Callable[[Mapping[str, np.ndarray], int, UnitSettings], bool] | None = None


def units(
    tracks: pa.Table,
    *,
    splitter: Splitter | None,
    alignments: pa.Table | None = None,
    store: Blobs,
    settings: UnitSettings | None = None,
    runner: Runner = IN_PROCESS,
    advance: Advance = silent,
) -> pa.Table:
    """The UNITS table of the tracks. An item that is too long and cannot be cut is one whole unit with status
    unreadable, a code and a reason.

    splitter: the modality's; None where all items are whole. alignments: those of the tracks; None where nothing is
    spoken. Raises only for settings, missing libraries and a failing store. runner: where items are cut.
    """
    settings = settings or UnitSettings()
    if splitter is None:
        advance(tracks.num_rows)
        return _whole(tracks)
    lags = lags_by("digest", alignments)
    tracks = with_cue_times(tracks, lags)
    is_long = _is_long(tracks, settings)
    is_cut = is_long | _with_gaps(tracks, ~is_long, splitter, settings)
    cut, rest = tracks.filter(pa.array(is_cut)), tracks.filter(pa.array(~is_cut))
    must_be_cut = is_long[is_cut].tolist()
    advance(rest.num_rows)
    words = _words(alignments, cut["digest"])
    found = map_opened(
        runner,
        partial(splitter.kernel, settings=settings),
        range(cut.num_rows),
        opened=partial(_opened, tracks=cut, words=words, store=store, reads_film=splitter.reads_film),
        code=_FAILED,
        what="the item cannot be cut to spans although it was decoded before",
        advance=advance,
    )
    rows: list[dict[str, Any]] = []
    num_cut = 0
    for at, pieces in found:
        track = {name: cut[name][at].as_py() for name in ("digest", "duration_s", *_OF_TRACKS)}
        if isinstance(pieces, Failure) and not must_be_cut[at]:
            pieces = [Piece(0, round(track["duration_s"] * 1e6))]  # it decoded, and is short enough as it is
        made = _rows(track, pieces, splitter)
        if len(made) > 1 and not isinstance(pieces, Failure):
            first = next((row for row in made if row["kind"] != GAP), made[0])
            first[CUTS] = _cuts(cut["cues"][at].as_py(), pieces, words.get(track["digest"], []))
        num_cut += len(made) > 1
        rows += made
    table = schemas.from_rows(schemas.UNITS, rows)
    _log.info(
        "units: %d items are whole, %d are cut to %d spans and gaps", tracks.num_rows - num_cut, num_cut, len(rows)
    )
    return _with_lags(schemas.conform(schemas.UNITS, pa.concat_tables([_whole(rest), table])), lags)


def _cuts(cues: Sequence[Mapping[str, Any]], pieces: Sequence[Piece], aligned: Sequence[_Aligned]) -> Any:
    """Where the borders cut the cues; None where they cut none."""
    words = next((found for _, found in aligned if found), [])
    if not words or not cues:
        return None
    borders_s = [piece.end / 1e6 for piece in pieces[:-1]]
    return cue_cuts(cues, sorted(words, key=lambda word: word["start_s"]), borders_s) or None


def _with_lags(found: pa.Table, lags: Mapping[str, Lags]) -> pa.Table:
    """The units with how late the cues of their items are."""
    if not lags:
        return found
    names = zip(found["parent_digest"].to_pylist(), found["kind"].to_pylist(), strict=True)
    field = schemas.UNITS.arrow.field(LAGS)
    column = pa.array([None if kind == GAP else lags.get(parent) for parent, kind in names], field.type)
    return found.set_column(found.column_names.index(LAGS), field, column)


def _is_long(tracks: pa.Table, settings: UnitSettings) -> np.ndarray:
    """Which of the items are ok and longer than a unit may be."""
    length_s = tracks["duration_s"]
    is_long = pc.and_(pc.greater(length_s, settings.whole_up_to_s + _SLACK_S), pc.is_finite(length_s))
    is_long = pc.fill_null(pc.and_(is_long, pc.equal(tracks["status"], "ok")), False)
    return np.asarray(is_long.to_numpy(), np.bool_)


def _with_gaps(tracks: pa.Table, among: np.ndarray, splitter: Splitter, settings: UnitSettings) -> np.ndarray:
    """Which of those items have gaps, as far as their tracks say."""
    found = np.zeros(tracks.num_rows, np.bool_)
    if splitter.has_gaps is None:
        return found
    among = among & pc.equal(tracks["status"], "ok").to_numpy()
    for at in np.flatnonzero(among).tolist():
        length_s = tracks["duration_s"][at].as_py()
        if length_s is not None and settings.max_static_s < length_s < np.inf:
            _, end_us = _pictures_us(tracks["shots"][at].as_py(), round(length_s * 1e6))
            found[at] = splitter.has_gaps(_signals(tracks, at), end_us, settings)
    return found


def _pictures_us(shots: Sequence[Mapping[str, Any]] | None, duration_us: int) -> tuple[int, int]:
    """When the first picture of a film is shown, and when its last one ends: its shots cover all of them."""
    if not shots or not all(map(math.isfinite, (shots[0]["start_s"], shots[-1]["end_s"]))):
        return 0, duration_us
    return max(0, round(shots[0]["start_s"] * 1e6)), min(round(shots[-1]["end_s"] * 1e6), duration_us)


def _signals(tracks: pa.Table, at: int) -> dict[str, np.ndarray]:
    """The columns of the signals of this row; empty where only keyframes were decoded: what stands still between two
    of them nobody has seen."""
    signals = tracks["signals"][at].values
    if tracks["decoded"][at].as_py() == KEYFRAMES:
        signals = signals.slice(0, 0)
    return {name: pc.struct_field(signals, name).to_numpy(zero_copy_only=False) for name in _SIGNALS}


def _words(alignments: pa.Table | None, digests: pa.ChunkedArray) -> dict[str, list[_Aligned]]:
    """The alignments of these items; no words where one was doubted or failed."""
    if alignments is None:
        return {}
    found: dict[str, list[_Aligned]] = {}
    alignments = alignments.select(["digest", "status", "error_code", "words"])
    for row in alignments.filter(pc.is_in(alignments["digest"], value_set=digests.combine_chunks())).to_pylist():
        words = row["words"] if has_words(row) else []
        found.setdefault(row["digest"], []).append((row["error_code"], words))
    return found


@contextmanager
def _opened(
    at: int,
    *,
    tracks: pa.Table,
    words: Mapping[str, list[_Aligned]],
    store: Blobs,
    reads_film: bool,
) -> Iterator[LongItem]:
    """The item of this row. Raises BlobMissing, BlobCorrupt, and what a failing store raises."""
    track = {name: tracks[name][at] for name in tracks.column_names}
    digest, sound = track["digest"].as_py(), track["audio_digest"].as_py()
    duration_us = round(track["duration_s"].as_py() * 1e6)
    with ExitStack() as stack:
        yield LongItem(
            duration_us=duration_us,
            sound=None if sound is None else stack.enter_context(checked_file(store, sound)),
            film=stack.enter_context(checked_file(store, digest)) if reads_film else Path(),
            num_frames=track["num_frames"].as_py() or 0,
            num_errors=track["num_decode_errors"].as_py() or 0,
            shots=track["shots"].as_py(),
            signals=_signals(tracks, at),
            spoken=_spoken(track, words.get(digest, []), duration_us),
        )


def _spoken(track: Mapping[str, pa.Scalar], aligned: Sequence[_Aligned], duration_us: int) -> Spoken:
    """Words where the transcript was laid on its sound; the lines of subtitles unless the sound says something else.
    Either with what a voice detector found."""
    speech = of_speech(track["speech"].as_py() or (), duration_us=duration_us)
    words = [word for _, found in aligned for word in found]
    if words:
        found = of_words(words, track["transcript"].as_py() or "", duration_us=duration_us)
        return Spoken(words=found, speech=speech)
    if any(code == MISMATCH for code, _ in aligned):
        return Spoken(speech=speech)
    return Spoken(lines=of_cues(track["cues"].as_py(), duration_us=duration_us), speech=speech)


def split_recording(item: LongItem, *, settings: UnitSettings) -> list[Piece]:
    """The spans and gaps of a recording."""
    levels = _levels(item, settings)
    if levels is None:
        levels = levels_of(np.zeros(0), item.duration_us, settings=settings)
    gaps = silent_gaps(levels, item.duration_us, spoken=item.spoken, settings=settings)
    return split(item.duration_us, gaps=gaps, places=recording_places(levels, item.spoken), settings=settings)


def split_film(item: LongItem, *, settings: UnitSettings) -> list[Piece]:
    """The spans and gaps of a film, with their frames. Raises UnreadableItem 3302."""
    frame_us_F = frame_times(
        item.film,
        num_frames=item.num_frames,
        num_errors=item.num_errors,
        shot_starts_s=(shot["start_s"] for shot in item.shots),
    )
    levels = _levels(item, settings)
    pictures_us = _pictures_us(item.shots, item.duration_us)
    gaps = static_gaps(item.signals, frame_us_F, pictures_us[1], levels=levels, spoken=item.spoken, settings=settings)
    gaps = sorted(gaps + gaps_without_picture(pictures_us, item.duration_us))
    places = film_places(frame_us_F, item.duration_us, shots=item.shots, levels=levels, spoken=item.spoken)
    pieces = split(item.duration_us, gaps=gaps, places=places, settings=settings)
    borders_us = np.array([piece.end for piece in pieces[:-1]], np.int64)
    # a border is a frame that all earlier ones are shown before: as many come first as have an earlier time
    frames = [0, *np.searchsorted(np.sort(frame_us_F), borders_us).tolist(), len(frame_us_F)]
    return [
        Piece(piece.start, piece.end, piece.gap, first, last)
        for piece, first, last in zip(pieces, frames, frames[1:], strict=False)
    ]


def _levels(item: LongItem, settings: UnitSettings) -> Levels | None:
    return None if item.sound is None else read_levels(item.sound, item.duration_us, settings=settings)


FILM_SPLITTER = Splitter(kind="clip", producer=_FILMS_BY, kernel=split_film, reads_film=True, has_gaps=stands_still)
RECORDING_SPLITTER = Splitter(kind="segment", producer=_RECORDINGS_BY, kernel=split_recording)


def _whole(tracks: pa.Table) -> pa.Table:
    """Each item as one unit."""
    length_s = pc.if_else(pc.is_finite(tracks["duration_s"]), tracks["duration_s"], None)
    length = pc.round(pc.multiply(length_s, 1e6)).cast(pa.int64())
    timed = pc.is_valid(length)
    columns = {
        "digest": tracks["digest"],
        "parent_digest": tracks["digest"],
        "position": pa.repeat(pa.scalar(0, pa.int32()), tracks.num_rows),
        "kind": pa.repeat(WHOLE, tracks.num_rows),
        "axis": pc.if_else(timed, TIME_AXIS, pa.scalar(None, pa.string())),
        "start": pc.if_else(timed, pa.scalar(0, pa.int64()), None),
        "end": length,
        "producer": pa.repeat(WHOLE, tracks.num_rows),
        **{name: tracks[name] for name in _OF_TRACKS},
    }
    nulls = {field.name: pa.nulls(tracks.num_rows, field.type) for field in schemas.UNITS.arrow}
    return schemas.conform(schemas.UNITS, pa.table(nulls | columns).cast(schemas.UNITS.arrow))


def _rows(track: Mapping[str, Any], pieces: Sequence[Piece] | Failure, splitter: Splitter) -> list[dict[str, Any]]:
    """The rows of one item that was to be cut; a single row where it is whole after all."""
    row = {name: track[name] for name in _OF_TRACKS} | {"parent_digest": track["digest"], "axis": TIME_AXIS}
    if isinstance(pieces, Failure) or len(pieces) == 1:
        row |= {"digest": track["digest"], "position": 0, "kind": WHOLE, "producer": WHOLE}
        row |= {"start": 0, "end": round(track["duration_s"] * 1e6)}
        if isinstance(pieces, Failure):
            row |= {"status": "unreadable", "error_code": pieces.code, "error": pieces.reason}
        return [row]
    rows = []
    for position, piece in enumerate(pieces):
        span = row | {
            "position": position,
            "kind": splitter.kind if piece.gap is None else GAP,
            "gap": piece.gap,
            "start": piece.start,
            "end": piece.end,
            "start_frame": piece.start_frame,
            "end_frame": piece.end_frame,
            "producer": splitter.producer,
        }
        rows.append(span | {"digest": named(span)})
    return rows
