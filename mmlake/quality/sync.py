"""Whether sound and picture of a film are in time, where events in both give evidence (`sync_events`).

Enters: the file of the film and its sound. Leaves: four measures of each film and clip. The offset is null where the
evidence is not enough, which is no fault: most films show nothing that must sound.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmlake.decoders import frames, open_media, picture_stream
from mmlake.errors import UnreadableItem
from mmlake.quality.measurement import Measurement, Measures, Subject
from mmlake.quality.rule import Rule
from mmlake.quality.sync_events import NUM_NEEDED, Offset, offset_between, sound_events
from mmlake.spans import Span

OFFSET, CONFIDENCE, EVENTS = "av_offset_s", "av_offset_confidence", "num_av_events"
SURE_OFFSET = "sure_av_offset_s"
_SURE_CHANCE, _SURE_EVENTS = 1e-8, 8  # of an offset by which a film is never taken
_CELLS_WH = (64, 36)  # cells in which motion is seen and noise is not
_MAX_S = 60.0  # of a film that are decoded: clips are shorter, and evidence that is there shows early
_SLACK_S = 1e-3  # times of frames and borders of spans are rounded


def sync_measures(subject: Subject) -> Measures:
    """The offset of the sound against the picture, how sure it is, the number of events that show it, and the offset
    once more where it is beyond doubt; all null where there is no sound."""
    if subject.path is None or subject.sound is None:
        return {OFFSET: None, CONFIDENCE: None, EVENTS: None, SURE_OFFSET: None}
    samples, rate_hz = subject.sound.samples()
    samples = samples[: round(_MAX_S * rate_hz)]
    found = Offset(offset_s=None, confidence=0.0, num_events=0)
    if len(sound_events(samples, rate_hz)) >= NUM_NEEDED:  # most speech and music has them, and noise is not decoded
        cells_TC, times_s = _pictures(subject.path, subject.span_s)
        found = offset_between(cells_TC, times_s, samples, rate_hz)
    is_sure = 1 - found.confidence < _SURE_CHANCE and found.num_events >= _SURE_EVENTS
    return {
        OFFSET: found.offset_s,
        CONFIDENCE: found.confidence,
        EVENTS: float(found.num_events),
        SURE_OFFSET: found.offset_s if is_sure else None,
    }


def _pictures(path: Path, span_s: Span | None) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """(small grey pictures, when each is shown) of the span, as far as the file allows."""
    import av
    import av.error

    start_s, end_s = span_s or (0.0, _MAX_S)
    end_s = min(end_s, start_s + _MAX_S)
    pictures, times_s = [], []
    try:
        with open_media(path) as container:
            stream, origin_s = picture_stream(container), (container.start_time or 0) / av.time_base
            if start_s > 0:
                container.seek(int((origin_s + start_s) * av.time_base))
            for frame in frames(container, stream):
                if frame.time is None or frame.time - origin_s < start_s - _SLACK_S:
                    continue
                if frame.time - origin_s >= end_s - _SLACK_S:
                    break
                small = frame.reformat(*_CELLS_WH, format="gray", interpolation="AREA")
                pictures.append(small.to_ndarray().astype(np.float32).ravel())
                times_s.append(max(0.0, frame.time - origin_s - start_s))
    except (UnreadableItem, av.error.FFmpegError):
        pass  # what came before the damage counts
    return np.array(pictures, np.float32).reshape(len(times_s), -1), np.array(times_s)


SYNC_MEASUREMENT = Measurement(
    name="sync",
    modalities=("video",),
    measures=(OFFSET, CONFIDENCE, EVENTS, SURE_OFFSET),
    columns=(),
    take=sync_measures,
    revision="2",
    needs_file=True,
    needs_sound=True,
)

_WHAT = "The sound of events comes earlier (-) or later (+) than their picture, "
SYNC_RULES = (
    Rule(
        name="av_detached",
        error_code=4335,
        severity="P0",
        measure=SURE_OFFSET,
        unit="s",
        low=-0.4,  # twice what viewers accept: no tail of a right film reaches it, and a shift is the source's to make
        high=0.4,
        what="The sound of events comes so much earlier (-) or later (+) than their picture, beyond doubt, "
        "that each comes with another.",
        fix="Shift the sound by the offset at the source, or fetch the film again.",
    ),
    Rule(
        name="av_out_of_sync",
        error_code=4331,
        severity="P1",
        measure=OFFSET,
        unit="s",
        low=-0.09,  # ITU-R BT.1359-1: what viewers accept
        high=0.185,
        what=_WHAT + "by more than viewers accept.",
        fix="Shift the sound by the offset at the source; `mmlake bench av --part clock` measures how exact it is.",
    ),
    Rule(
        name="av_offset",
        error_code=4332,
        severity="P2",
        measure=OFFSET,
        unit="s",
        low=-0.04,  # EBU R37: what a production may add
        high=0.06,
        what=_WHAT + "by more than a production may add; sound from ten metres away is 29 ms late.",
        fix="Shift the sound by the offset at the source, or leave it at its smaller weight.",
    ),
)
