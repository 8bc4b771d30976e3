"""Video: measures and rules. The signals of the track are the source; only keyframes are decoded, for sharpness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmlake.quality.aesthetics import UNAESTHETIC
from mmlake.quality.audio import NOISY
from mmlake.quality.damage import DAMAGE_MEASUREMENT, DAMAGED
from mmlake.quality.film_sound import SOUND_MEASUREMENT
from mmlake.quality.focus import focus_blur
from mmlake.quality.image import luma
from mmlake.quality.measurement import Measurement, Measures, Subject, Track
from mmlake.quality.mismatch import MISMATCH_RULES
from mmlake.quality.mos import MOS_MEASUREMENT, POOR_SPEECH
from mmlake.quality.music import MUSIC_MEASUREMENT
from mmlake.quality.picture_faults import PICTURE_FAULT_MEASUREMENT, PICTURE_FAULT_RULES
from mmlake.quality.pixel_aspect import PIXEL_ASPECT_MEASUREMENT, WRONG_PIXEL_ASPECT
from mmlake.quality.rule import Rule, unmeasured
from mmlake.quality.sync import SYNC_MEASUREMENT, SYNC_RULES
from mmlake.quality.transcript import (
    FOREIGN_WORDS,
    STRAY_LINES,
    SUBTITLE_MEASUREMENT,
    TRANSCRIPT_MEASUREMENT,
    UNSPOKEN_CUES,
    WRONG_TRANSCRIPT,
)
from mmlake.quality.video_fidelity import FIDELITY_MEASUREMENT
from mmlake.records import Digest

# grey levels, full range; FFmpeg's blackdetect also puts the line near 0.1 of the range
_BLACK_LUMA, _BLACK_STD = 20.0, 10.0
# grey levels; sensor noise of 8 levels leaves 0.7 in coarse cells of 640 px video, the calmest of 12 real clips reaches
# 3 (docs/quality.md)
_STILL_CHANGE = 1.0
_COARSE_WH = (48, 27)  # cells in which motion is seen and noise is not
# Cells along the longer side, and grey levels of what is finer than they are: below that there is fog, clouds or a
# wall, and nothing to be in focus. Drawn fog has 1.3 and less, whatever was out of focus 2.1 and more
_CELLS, _LEAST_DETAIL = 24, 1.7
_PARTS = 4  # of each side, the sharpest of which is measured where there are steep steps
_SHARP_PERCENTILE = 25  # of the keyframes
_MAX_KEYFRAMES = 16  # evenly chosen; more would not move a quartile


def video_measures(subject: Subject) -> Measures:
    """The measures of one video."""
    track = subject.track
    signals = track["signals"]
    change_T = np.array([row["change"] for row in signals[1:]], np.float64)
    planes = [luma(keyframe) for keyframe in subject.blobs]
    is_sampled = track["decoded"] != "keyframes"  # else signals are seconds apart, and their steps no motion
    return {
        "duration_s": track["duration_s"],
        "min_side_px": float(min(track["width_px"], track["height_px"])),
        "num_shots": float(len(track["shots"])),
        "black_fraction": _black(signals),
        "moving_fraction": float((change_T > _STILL_CHANGE).mean()) if len(change_T) and is_sampled else None,
        "mean_change": float(change_T.mean()) if len(change_T) and is_sampled else None,
        "motion": max(float(change_T.max()), _displacement(planes)) if len(change_T) else None,
        "flicker": _flicker(signals) if is_sampled else None,
        "blur": _blur(planes),
    }


def _black(signals: Sequence[Mapping[str, Any]]) -> float | None:
    """Share of the frames that are black; of the signals where nobody counted frames."""
    if not signals:
        return None
    if signals[0].get("num_frames") is None:
        return float(np.mean([row["luma"] < _BLACK_LUMA and row["luma_std"] < _BLACK_STD for row in signals]))
    return float(sum(row["num_black"] for row in signals) / max(1.0, sum(row["num_frames"] for row in signals)))


def _flicker(signals: Sequence[Mapping[str, Any]]) -> float | None:
    """Median deviation of a frame's brightness from the mean of its neighbours, in grey levels; of the signals where
    not every frame was measured."""
    if len(signals) < 3:
        return None
    if signals[0].get("num_frames") is not None:
        return float(np.median([row["flicker"] / max(1.0, row["num_frames"]) for row in signals]))
    luma_T = np.array([row["luma"] for row in signals], np.float64)
    return float(np.median(np.abs(luma_T[1:-1] - (luma_T[:-2] + luma_T[2:]) / 2)))


def _keyframes(track: Track) -> list[Digest]:
    """Some of the keyframes, evenly chosen in order of time."""
    keyframes = track["keyframes"]
    positions = np.linspace(0, len(keyframes) - 1, min(_MAX_KEYFRAMES, len(keyframes))) if keyframes else ()
    return [keyframes[pick]["digest"] for pick in sorted({round(position) for position in positions})]


def _blur(planes: list[np.ndarray]) -> float | None:
    """The lower quartile of the blur of the keyframes that have structure: fog and clouds are soft, and in focus; where
    one in four is sharp the camera was in focus."""
    found = [value for plane in planes if (value := _blur_of(plane)) is not None]
    return float(np.percentile(found, _SHARP_PERCENTILE)) if found else None


def _blur_of(plane_HW: np.ndarray) -> float | None:
    """The blur of a keyframe, none where there is nothing to be in focus."""
    return focus_blur(plane_HW, parts=_PARTS) if _detail(plane_HW) >= _LEAST_DETAIL else None


def _detail(plane_HW: np.ndarray) -> float:
    """Standard deviation, in grey levels, of what is finer than the cells."""
    import cv2

    height, width = plane_HW.shape
    share = _CELLS / max(height, width)
    size = (max(1, round(width * share)), max(1, round(height * share)))
    cells = cv2.resize(plane_HW, size, interpolation=cv2.INTER_AREA)
    return float((plane_HW - cv2.resize(cells, (width, height), interpolation=cv2.INTER_LINEAR)).std())


def _displacement(planes: list[np.ndarray]) -> float:
    """The largest mean difference of a keyframe to the first one, in grey levels: slow motion adds up where steps
    are too small to see."""
    import cv2

    coarse = [cv2.resize(plane, _COARSE_WH, interpolation=cv2.INTER_AREA) for plane in planes]
    return max((float(np.abs(plane - coarse[0]).mean()) for plane in coarse), default=0.0)


VIDEO_MEASUREMENTS = (
    Measurement(
        name="video",
        modalities=("video",),
        measures=(
            "duration_s",
            "min_side_px",
            "num_shots",
            "black_fraction",
            "moving_fraction",
            "mean_change",
            "motion",
            "flicker",
            "blur",
        ),
        columns=("width_px", "height_px", "duration_s", "keyframes", "signals", "shots", "decoded"),
        take=video_measures,
        blobs=_keyframes,
        revision="6",
    ),
    FIDELITY_MEASUREMENT,
    SOUND_MEASUREMENT,
    MUSIC_MEASUREMENT,
    MOS_MEASUREMENT,
    DAMAGE_MEASUREMENT,
    PICTURE_FAULT_MEASUREMENT,
    PIXEL_ASPECT_MEASUREMENT,
    TRANSCRIPT_MEASUREMENT,
    SUBTITLE_MEASUREMENT,
    SYNC_MEASUREMENT,
)

VIDEO_RULES = (
    unmeasured("video"),
    Rule(
        name="black",
        error_code=4301,
        severity="P1",
        measure="black_fraction",
        high=0.8,
        what="Nearly all frames are black.",
        fix="Check the recording; a lost signal gives black frames.",
    ),
    Rule(
        name="static",
        error_code=4302,
        severity="P2",
        measure="motion",
        unit="grey levels",
        low=_STILL_CHANGE,
        what="Nothing moves from the first frame to the last.",
        fix="Keep one frame as an image, or leave it at its smaller weight.",
    ),
    Rule(
        name="too_short",
        error_code=4303,
        severity="P1",
        measure="duration_s",
        unit="s",
        low=0.5,
        what="The clip is shorter than any action.",
        fix="Join it with its neighbours, or keep a frame as an image.",
    ),
    Rule(
        name="blurred_video",
        error_code=4304,
        severity="P1",
        measure="blur",
        high=0.58,
        what="The keyframes hardly change when they are blurred again.",
        fix="Fetch a rendition with a higher bit rate or size.",
    ),
    Rule(
        name="too_small_video",
        error_code=4305,
        severity="P1",
        measure="min_side_px",
        unit="px",
        low=64,
        what="The frame is smaller than a thumbnail.",
        fix="Fetch a larger rendition.",
    ),
    *PICTURE_FAULT_RULES,
    WRONG_PIXEL_ASPECT,
    NOISY,
    POOR_SPEECH,
    WRONG_TRANSCRIPT,
    STRAY_LINES,
    UNSPOKEN_CUES,
    FOREIGN_WORDS,
    *MISMATCH_RULES,
    UNAESTHETIC,
    DAMAGED,
    *SYNC_RULES,
)
