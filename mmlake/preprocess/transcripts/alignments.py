"""The alignments of a partition: each transcript laid on the sound of its recording or film.

Enters: tracks and the store. Leaves: the ALIGNMENTS table, one row per track with a transcript. No source and no medium
is decoded: the sound is the mono track that the tracks step keeps.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import schemas
from mmlake.border import IN_PROCESS, Failure, Runner, map_opened
from mmlake.preprocess.settings import AlignSettings
from mmlake.preprocess.transcripts.align import IMPOSSIBLE, METHOD, MISMATCH, REVISION, Aligner, Alignment, Word
from mmlake.preprocess.transcripts.drift import MAX_DRIFT_S, drift_of
from mmlake.preprocess.transcripts.subtitles import Cue
from mmlake.progress import Advance, silent
from mmlake.records import digest_of
from mmlake.store import Blobs

_log = logging.getLogger(__name__)
_COLUMNS = ("digest", "status", "audio_digest", "transcript", "transcript_source", "cues", "speech", "duration_s")
_FAILED, _DRIFTS = 3203, 3204
_RECOGNIZED = "asr:"  # begins the transcript_source of what a recognizer wrote


@dataclass(frozen=True, slots=True)
class _Transcribed:
    """One transcript with its sound, ready for another process."""

    cues: tuple[Cue, ...]  # at the times of their speech, where they drift
    is_recognized: bool  # each cue is a word with the recognizer's own times
    flac: bytes
    speech: tuple[tuple[float, float], ...] = ()  # where somebody speaks
    drift_s: float | None = None  # the largest that was taken back
    num_missing: int = 0  # cues of a part that the sound lacks
    cue_lags: tuple[tuple[float, float], ...] = ()  # that were taken back


def alignments(
    tracks: pa.Table,
    *,
    store: Blobs,
    settings: AlignSettings | None = None,
    runner: Runner = IN_PROCESS,
    advance: Advance = silent,
) -> pa.Table:
    """The ALIGNMENTS table: one row per track that decoded and has a transcript.

    A transcript that does not match is a row with status flagged, and so is one that cannot be judged; one whose
    alignment fails is unreadable. Raises only for settings, missing libraries and a failing store. runner: where
    transcripts are aligned.
    """
    settings = settings or AlignSettings()
    wanted = tracks.select(list(_COLUMNS)).filter(
        pc.and_(pc.equal(tracks.column("status"), "ok"), pc.is_valid(tracks.column("transcript")))
    )
    advance(tracks.num_rows - wanted.num_rows)
    rows, audible = [], []
    for track in wanted.to_pylist():
        if settings.enabled and track["audio_digest"] is not None:
            audible.append(track)
            continue
        reason = "align.enabled=false" if not settings.enabled else "num_audio_streams=0 not in [1, inf)"
        rows.append(_row(track, Alignment(code=IMPOSSIBLE, reason=reason)))
        advance(1)
    found = map_opened(
        runner,
        partial(_aligned, aligner=Aligner(settings)),
        audible,
        opened=partial(_transcribed, store=store),
        code=_FAILED,
        what="the transcript cannot be laid on its sound",
        advance=advance,
    )
    rows += [_row(track, made) for track, made in found]
    table = schemas.from_rows(schemas.ALIGNMENTS, rows)
    _log.info("alignments: %d transcripts, %d of them flagged or failed", len(rows), _num_flawed(table))
    return table


def _num_flawed(table: pa.Table) -> int:
    return int(pc.sum(pc.not_equal(table.column("status"), "ok")).as_py() or 0)


@contextmanager
def _transcribed(track: dict[str, Any], *, store: Blobs) -> Iterator[_Transcribed]:
    """The transcript with its sound. Raises BlobMissing, BlobCorrupt, and what a failing store raises."""
    cues = tuple(Cue(**cue) for cue in track["cues"]) or (Cue(track["transcript"]),)
    speech = tuple((span["start_s"], span["end_s"]) for span in track["speech"] or ())
    drift = drift_of(cues, speech, track["duration_s"] or 0.0)
    flac = store.read(track["audio_digest"])
    if drift is None:
        yield _Transcribed(cues, _is_recognized(track), flac, speech)
    else:
        corrected = drift.corrected(cues)
        num_missing = sum(_lasts(before) and not _lasts(after) for before, after in zip(cues, corrected, strict=True))
        yield _Transcribed(corrected, _is_recognized(track), flac, speech, drift.worst_s, num_missing, drift.knots)


def _lasts(cue: Cue) -> bool:
    return cue.start_s is not None and cue.end_s is not None and cue.end_s - cue.start_s > 0.01


def _is_recognized(track: dict[str, Any]) -> bool:
    return str(track["transcript_source"]).startswith(_RECOGNIZED)


def _aligned(item: _Transcribed, *, aligner: Aligner) -> Alignment:
    """The alignment; words that a recognizer wrote keep its times, less their drift, and
    its scores, unless the sound says something else."""
    found = aligner.align(item.flac, item.cues, item.speech)
    if item.is_recognized and found.code != MISMATCH:
        words: list[Word] = [
            {"word": cue.text, "start_s": cue.start_s, "end_s": cue.end_s, "score": cue.score or 0.0}
            for cue in item.cues
        ]
        found = Alignment(confidence=found.confidence, words=words)
    found = replace(found, cue_lags=item.cue_lags)
    if item.drift_s is None or found.code is not None:
        return found
    reason = f"drift_s={item.drift_s:+.2f} s not in [-{MAX_DRIFT_S:g}, {MAX_DRIFT_S:g}]; the words are realigned"
    if item.num_missing:
        reason += f"; num_missing_cues={item.num_missing} of a part that the sound lacks"
    return replace(found, code=_DRIFTS, reason=reason)


def _row(track: dict[str, Any], made: Alignment | Failure) -> dict[str, object]:
    row: dict[str, object] = {
        "digest": track["digest"],
        "transcript_digest": digest_of(track["transcript"].encode()),
        "method": track["transcript_source"] if _is_recognized(track) else METHOD,
        "revision": REVISION,
    }
    if isinstance(made, Failure):
        return row | {"status": "unreadable", "error_code": made.code, "error": made.reason}
    return row | {
        "status": "ok" if made.code is None else "flagged",
        "error_code": made.code,
        "error": made.reason,
        "confidence": made.confidence,
        "words": made.words,
        "cue_lags": [{"time_s": time_s, "late_s": late_s} for time_s, late_s in made.cue_lags] or None,
    }


def has_words(row: Mapping[str, Any]) -> bool:
    """Whether the words of a row of ALIGNMENTS lie where they are said: also where their cues drift, and were moved."""
    return bool(row["status"] == "ok" or row["error_code"] == _DRIFTS)
