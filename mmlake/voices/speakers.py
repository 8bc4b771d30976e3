"""The speakers of a partition: who speaks when in each recording and film.

Enters: tracks and the store. Leaves: the SPEAKERS table, one row per track with sound. No source and no medium is
decoded: the sound is the mono track that the tracks step keeps.
"""

from __future__ import annotations

import io
import logging
import math
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import schemas
from mmlake.border import Failure, attempt
from mmlake.progress import Advance, silent
from mmlake.schemas.speakers import SPEAKERS
from mmlake.store import Blobs
from mmlake.voices.diarizers import Diarizer, diarizer_of, limits_of
from mmlake.voices.settings import SpeakerSettings
from mmlake.workers.script import Answer, Request, run_script

FAILED = 3401
_COLUMNS = ("digest", "status", "audio_digest", "duration_s")
_WHAT = "nobody can be found in the sound"
_MAX_TURNS = 200_000  # of one recording: a day of turns of half a second
_log = logging.getLogger(__name__)


def speakers(
    tracks: pa.Table, *, store: Blobs, settings: SpeakerSettings | None = None, advance: Advance = silent
) -> pa.Table:
    """The SPEAKERS table: one row per track that decoded and has sound; none where no diarizer is chosen.

    Raises only for settings, missing libraries, environments and weights, and a failing store.
    """
    settings = settings or SpeakerSettings()
    row = diarizer_of(settings)
    wanted = with_sound(tracks, settings=settings)
    advance(tracks.num_rows - wanted.num_rows)
    if row.script is None or not wanted.num_rows:
        return schemas.empty(SPEAKERS)
    rows = [_row(track, row, found) for track, found in _found(wanted.to_pylist(), row, store, settings, advance)]
    _log.info("speakers: %d tracks, %d of them failed", len(rows), sum(one["status"] != "ok" for one in rows))
    return schemas.from_rows(SPEAKERS, rows)


def with_sound(tracks: pa.Table, *, settings: SpeakerSettings) -> pa.Table:
    """The tracks that get a row."""
    if diarizer_of(settings).script is None:
        return tracks.select(list(_COLUMNS)).slice(0, 0)
    names = [*_COLUMNS, *(name for name in ("speech",) if name in tracks.column_names)]
    return tracks.select(names).filter(
        pc.and_(pc.equal(tracks.column("status"), "ok"), pc.is_valid(tracks.column("audio_digest")))
    )


def _found(
    tracks: list[dict[str, Any]], row: Diarizer, store: Blobs, settings: SpeakerSettings, advance: Advance
) -> Iterator[tuple[dict[str, Any], Answer | Failure]]:
    """(track, what the diarizer says), in order; a track whose sound cannot be read is a failure, and is not sent."""
    assert row.script is not None
    unsent: list[tuple[dict[str, Any], Failure]] = []
    sent: list[dict[str, Any]] = []

    def requests() -> Iterator[Request]:
        for track in tracks:
            made = attempt(lambda one: _request(one, store), track, code=FAILED, what=_WHAT)
            if isinstance(made, Failure):
                unsent.append((track, made))
            else:
                sent.append(track)
                yield made

    for answer in run_script(row.script(settings), requests(), limits=limits_of(settings)):
        yield sent.pop(0), answer
        advance(1)
    yield from unsent
    advance(len(unsent))


def _request(track: Mapping[str, Any], store: Blobs) -> Request:
    import soundfile

    samples, rate_hz = soundfile.read(io.BytesIO(store.read(track["audio_digest"])), dtype="float32")
    duration_s = len(samples) / rate_hz
    # without a voice detector all of it counts as speech
    spoken = track.get("speech")
    speech = [[0.0, duration_s]] if spoken is None else [[one["start_s"], one["end_s"]] for one in spoken]
    return Request({"speech": speech}, samples, duration_s)


def _row(track: Mapping[str, Any], row: Diarizer, found: Answer | Failure) -> dict[str, Any]:
    plain = {"digest": track["digest"], "method": row.name, "revision": row.revision}
    turns = found if isinstance(found, Failure) else _turns(found.said, track["duration_s"])
    if isinstance(turns, Failure):
        return plain | {"status": "unreadable", "error_code": turns.code, "error": turns.reason}
    lengths = [(turn["confidence"], turn["end_s"] - turn["start_s"]) for turn in turns]
    sure = [(confidence, length_s) for confidence, length_s in lengths if confidence is not None]
    whole_s = sum(length_s for _, length_s in sure)
    return plain | {
        "status": "ok",
        "num_speakers": len({turn["speaker"] for turn in turns}),
        "confidence": sum(one * length_s for one, length_s in sure) / whole_s if whole_s else None,
        "turns": turns,
    }


def _turns(said: Mapping[str, Any], duration_s: float | None) -> list[dict[str, Any]] | Failure:
    """The turns of an answer, in order of time and within the sound. A script's answer is checked, not believed."""
    listed = said.get("turns")
    bad = Failure(FAILED, "the diarizer's answer holds no turns that can be used")
    if not isinstance(listed, list) or len(listed) > _MAX_TURNS:
        return bad
    end_s = math.inf if duration_s is None else duration_s
    turns = []
    for one in listed:
        if not isinstance(one, list) or len(one) != 4 or not all(_is_number(time_s) for time_s in one[:2]):
            return bad
        if one[3] is not None and not _is_number(one[3]):
            return bad
        start_s, stop_s = max(0.0, float(one[0])), min(float(one[1]), end_s)
        if start_s < stop_s:
            sure = None if one[3] is None else min(1.0, max(0.0, float(one[3])))
            turns.append({"start_s": start_s, "end_s": stop_s, "speaker": str(one[2])[:64], "confidence": sure})
    return sorted(turns, key=lambda turn: (turn["start_s"], turn["end_s"], turn["speaker"]))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
