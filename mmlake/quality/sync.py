"""Whether sound and picture of a film are in time, where events in both give evidence (`sync_events`).

Enters: the sound, and what the track says of each frame. Leaves: four measures of each film and clip. The offset is
null where the evidence is not enough, which is no fault: most films show nothing that must sound.
"""

from __future__ import annotations

import numpy as np

from mmlake.quality.measurement import Measurement, Measures, Subject
from mmlake.quality.rule import Rule
from mmlake.quality.sync_events import NUM_NEEDED, Offset, offset_between, sound_events

OFFSET, CONFIDENCE, EVENTS = "av_offset_s", "av_offset_confidence", "num_av_events"
SURE_OFFSET = "sure_av_offset_s"
_SURE_CHANCE, _SURE_EVENTS = 1e-8, 8  # of an offset by which a film is never taken
_MAX_S = 60.0  # of a unit: clips are shorter, and evidence that is there shows early
FRAME_COLUMNS = ("frame_times_s", "frame_motion", "frame_light")  # of TRACKS


def sync_measures(subject: Subject) -> Measures:
    """The offset of the sound against the picture, how sure it is, the number of events that show it, and the offset
    once more where it is beyond doubt; all null where there is no sound."""
    if subject.sound is None:
        return {OFFSET: None, CONFIDENCE: None, EVENTS: None, SURE_OFFSET: None}
    samples, rate_hz = subject.sound.samples()
    samples = samples[: round(_MAX_S * rate_hz)]
    found = Offset(offset_s=None, confidence=0.0, num_events=0)
    if len(sound_events(samples, rate_hz)) >= NUM_NEEDED:  # most speech and music has them, noise has not
        lists = (subject.track[name] for name in FRAME_COLUMNS)
        times_s, moved, brighter = (np.array(() if one is None else one, np.float64) for one in lists)
        within = times_s < _MAX_S
        found = offset_between(moved[within], brighter[within], times_s[within], samples, rate_hz)
    is_sure = 1 - found.confidence < _SURE_CHANCE and found.num_events >= _SURE_EVENTS
    return {
        OFFSET: found.offset_s,
        CONFIDENCE: found.confidence,
        EVENTS: float(found.num_events),
        SURE_OFFSET: found.offset_s if is_sure else None,
    }


SYNC_MEASUREMENT = Measurement(
    name="sync",
    modalities=("video",),
    measures=(OFFSET, CONFIDENCE, EVENTS, SURE_OFFSET),
    columns=FRAME_COLUMNS,
    take=sync_measures,
    revision="3",
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
