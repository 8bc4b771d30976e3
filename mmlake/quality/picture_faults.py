"""Damaged moving pictures: measures of a unit from the traces that its signals hold, and the rules that judge them.

Enters: the signals of a unit, whose fields were collected from every frame (`preprocess/visual/picture_faults.py`),
so that nothing is decoded here and a span of a long film is judged by its own frames. A unit whose signals were made
without traces has no such measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mmlake.quality.measurement import Measurement, Measures, Subject
from mmlake.quality.rule import Rule

# S signals of a unit
_WINDOW_S = 1.0
_FLASHES_PER_S = 3.0  # more are harmful to viewers (ITU-R BT.1702) and no scene
_STILL_MOTION = 0.5  # grey levels between two signals, below which the picture stands
_FEWEST_SIGNALS = 4  # half a second
_FILMED_REPEATED = 0.2  # of the frames while it moves; drawings and screens repeat more
_MOVING, _MOSTLY_MOVING = 0.1, 0.5  # of the time
_BEGINS_S, _FADES_IN_S = 0.3, 1.0  # from a boundary of shots, within which a stand begins or ends with the shot
_JUMP, _STOP = 0.8, 0.5  # of the usual pace: what was lost shows at once; a thing that comes to rest goes slower first
_NEAR_SIGNALS = 4  # half a second
_NOISELESS = 0.3  # repeated frames per signal
_FRAMED_PERCENTILE, _FRAMED = 75, 0.5  # some scenes are dark up to the bars; share of the cells inside of them
# of `smoothness`: of 37 sound films the highest median is 1.7, of their frames smeared by 3 % of the side it is 3.0
_SMEARED = 2.5
_DARK_STD = 5.0  # grey levels; contrast below which motion is not compared with it

PICTURE_FAULTS = (
    "flash_fraction", "frozen_s", "repeated_fraction", "missing_fraction", "shake_widths_s",
    "motion_contrasts", "black_bars_fraction", "mosaic_fraction", "block_edge_fraction", "noise_levels",
    "spoiled_fraction", "lost_rows_fraction", "combed_fraction", "smeared_fraction",
)  # fmt: skip


def picture_faults(subject: Subject) -> Measures:
    """The measures of one unit; None where it is too short for them, or its signals hold no traces."""
    measures: Measures = dict.fromkeys(PICTURE_FAULTS)
    signals = subject.track["signals"]
    if len(signals) < _FEWEST_SIGNALS or signals[0].get("num_frames") is None:
        return measures
    traces = Traces(signals, subject.track["shots"] or ())
    return {name: float(value) for name, value in (traces.in_time() | traces.in_pictures()).items()}


class Traces:
    """The fields of the signals as arrays."""

    def __init__(self, signals: Sequence[Mapping[str, Any]], shots: Sequence[Mapping[str, Any]] = ()) -> None:
        self._signals = signals
        # a fade or dissolve has its boundary in its middle
        near = {"fade": _FADES_IN_S, "dissolve": _FADES_IN_S}
        self._boundaries = [(shot["start_s"], near.get(shot["transition"], _BEGINS_S)) for shot in shots]
        self._frames_S = np.maximum(self["num_frames"], 1)
        times_s = self["time_s"]
        rate_hz = (len(times_s) - 1) / max(1e-3, float(times_s[-1] - times_s[0]))
        self._distance_s = 1 / rate_hz
        self._window = min(len(times_s), max(1, round(_WINDOW_S * rate_hz)))

    def __getitem__(self, name: str) -> np.ndarray:
        return np.array([row[name] or 0.0 for row in self._signals], np.float64)

    def _textures(self, name: str) -> np.ndarray:
        """Of the signals that have it: full planes are measured less often. A span may begin between two of them."""
        return np.array([row[name] for row in self._signals if row[name] is not None] or [0.0], np.float64)

    def in_time(self) -> dict[str, float]:
        """What goes wrong from frame to frame."""
        frames_S, repeated_S, missing_S = self._frames_S, self["num_repeated"], self["num_missing"]
        flashes_W = self._windows(self["num_swings"]) / 2 / (self._window * self._distance_s)
        is_frozen_S = self._frozen()
        alive_S = ~is_frozen_S
        repeated = repeated_S[alive_S].sum() / frames_S[alive_S].sum() if alive_S.any() else 0.0
        longest_s = max((stop - start for start, stop in self._freezes()), default=0) * self._distance_s
        travelled_W = self._windows(self["path"])
        gone_W = np.hypot(self._windows(self["shift_x"]), self._windows(self["shift_y"]))
        motion_S = self["motion"] / frames_S / np.maximum(self["luma_std"], _DARK_STD)
        return {
            "flash_fraction": (flashes_W > _FLASHES_PER_S).mean(),
            # what repeats frames while it moves as well is drawn, or a screen: there nothing froze; nor where nothing
            # moves at all
            "frozen_s": longest_s if repeated < _FILMED_REPEATED and alive_S.mean() >= _MOVING else 0.0,
            "repeated_fraction": repeated if alive_S.mean() >= _MOSTLY_MOVING else 0.0,
            "missing_fraction": missing_S.sum() / (frames_S + missing_S).sum(),
            "shake_widths_s": np.median(travelled_W - gone_W) / (self._window * self._distance_s),
            "motion_contrasts": np.median(motion_S),
        }

    def in_pictures(self) -> dict[str, float]:
        """What is wrong within pictures."""
        # bars are there all the time: what one dark picture shows is none
        bars = [float(self[f"bar_{side}"].min()) for side in ("top", "bottom", "left", "right")]
        # and end in a line: of a planet before black space, or of credits, little reaches to where they would end
        is_framed = np.percentile(self["bar_edge"], _FRAMED_PERCENTILE) >= _FRAMED
        alive_S = ~self._frozen()
        left = max(0.0, 1 - bars[0] - bars[1]) * max(0.0, 1 - bars[2] - bars[3])
        return {
            "black_bars_fraction": 1 - left if left > 0 and is_framed else 0.0,  # all of it black is another fault
            "mosaic_fraction": np.median(self._textures("pixelation")),
            "block_edge_fraction": np.median(self._textures("blockiness")),
            # a picture that is shown twice has no noise of its own: print on a screen is as sharp
            "noise_levels": np.median(self._textures("noise")) if self["num_repeated"].mean() < _NOISELESS else 0.0,
            "spoiled_fraction": self["spoiled"].mean(),
            # a chart that stands has bars that end at the bottom: what is received goes on moving above what is not
            "lost_rows_fraction": np.median(self["lost_rows"][alive_S]) if alive_S.mean() >= _MOVING else 0.0,
            "combed_fraction": max(0.0, self._textures("combing").mean()),
            "smeared_fraction": (self._textures("smoothness") > _SMEARED).mean(),
        }

    def _frozen(self) -> np.ndarray:
        """Of which signals the picture stands."""
        is_frozen: np.ndarray = (self["motion"] < _STILL_MOTION) & (self["num_repeated"] >= self._frames_S / 2)
        return is_frozen

    def _windows(self, values_S: np.ndarray) -> np.ndarray:
        """Sums over each second."""
        return np.convolve(values_S, np.ones(self._window), "valid")

    def _freezes(self) -> Iterator[tuple[int, int]]:
        """(first signal, the one behind the last) of each stand that was no rest.

        Frames that were lost show as a jump to where things have got to. What is drawn, or comes to rest before a
        camera, starts slowly again; where the shot ends with the stand it is known by how it stopped. A stand that
        begins with its shot is a still picture.
        """
        is_frozen_S, times_s = self._frozen(), self["time_s"]
        if is_frozen_S.all():
            return
        pace_S = self["motion"] / np.maximum(1, self._frames_S - self["num_repeated"])  # of the frames that move
        usual = float(np.median(pace_S[~is_frozen_S]))
        edges = np.flatnonzero(np.diff(np.concatenate([[0], is_frozen_S.astype(np.int8), [0]])))
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if not start or self._is_boundary(times_s[start - 1]):
                continue
            is_last = stop == len(times_s)
            before_S = pace_S[max(0, start - 1 - _NEAR_SIGNALS) : start - 1]
            # a film that ends at rest is common; what is lost before a cut may be a slow shot of a fast film
            slower = usual if is_last or not len(before_S) else min(usual, float(np.median(before_S)))
            if (is_last or self._is_boundary(times_s[stop])) and pace_S[start - 1] < _STOP * slower:
                continue
            behind_S = pace_S[stop + 1 : stop + 1 + _NEAR_SIGNALS]
            follows = float(np.median(behind_S)) if len(behind_S) else 0.0
            if is_last or pace_S[stop] >= _JUMP * max(usual, follows):
                yield start, stop

    def _is_boundary(self, time_s: float) -> bool:
        """Whether a shot begins about then."""
        return any(abs(start_s - time_s) < near_s for start_s, near_s in self._boundaries)


PICTURE_FAULT_MEASUREMENT = Measurement(
    name="picture-faults",
    modalities=("video",),
    measures=PICTURE_FAULTS,
    columns=("signals", "shots"),
    take=picture_faults,
    revision="5",
)

# Bounds: docs/quality.md has the matrix of damages that they were tried on, and the values that sound films reach.
PICTURE_FAULT_RULES = (
    Rule(
        name="strobe",
        error_code=4306,
        severity="P1",
        measure="flash_fraction",
        high=0.5,
        what="The brightness of the whole picture jumps more than three times a second, most of the time.",
        fix="Check the recording: a shutter out of step with the light, or a broken transfer. Film the scene again.",
    ),
    Rule(
        name="flicker",
        error_code=4307,
        severity="P2",
        measure="flicker",
        unit="grey levels",
        high=6.0,
        what="The brightness differs from frame to frame.",
        fix="Even the exposure out (ffmpeg's `deflicker`), or leave it at its smaller weight.",
    ),
    Rule(
        name="frozen",
        error_code=4308,
        severity="P2",
        measure="frozen_s",
        unit="s",
        high=1.5,
        what="A filmed picture stands for a while: frames were lost and the last one repeated.",
        fix="Fetch the film again; cut the stretch out where the source has it as well.",
    ),
    Rule(
        name="repeated_frames",
        error_code=4309,
        severity="P2",
        measure="repeated_fraction",
        high=0.55,  # drawings on twos, and what was converted from 24 frames to 30 or from 30 to 60, are sound
        what="Most frames repeat the one before while the picture moves: the rate was converted from less than half.",
        fix="Bring it back to its own rate (ffmpeg's `mpdecimate`), or sample frames at a lower rate.",
    ),
    Rule(
        name="dropped_frames",
        error_code=4310,
        severity="P2",
        measure="missing_fraction",
        high=0.1,
        what="The time stamps leave out frames.",
        fix="Fetch another rendition; a recorder that was too slow did not keep them.",
    ),
    Rule(
        name="shaken",
        error_code=4311,
        severity="P2",
        measure="shake_widths_s",
        unit="widths per s",
        high=0.4,
        what="The whole picture jerks to and fro.",
        fix="Stabilize it (ffmpeg's `vidstab` or `deshake`), or leave it at its smaller weight.",
    ),
    Rule(
        name="motion_overload",
        error_code=4312,
        severity="P2",
        measure="motion_contrasts",
        high=0.6,
        what="From frame to frame nearly all of the picture is another one: an encoder cannot follow it.",
        fix="Leave it at its smaller weight, or out of what learns motion.",
    ),
    Rule(
        name="black_bars",
        error_code=4313,
        severity="P2",
        measure="black_bars_fraction",
        high=0.1,
        what="Black bars lie around the picture all the time.",
        fix="Crop them (ffmpeg's `cropdetect` finds them) where pictures are resized to one shape.",
    ),
    Rule(
        name="mosaic",
        error_code=4314,
        severity="P1",
        measure="mosaic_fraction",
        high=0.4,
        what="The picture consists of squares of one colour each.",
        fix="Fetch a rendition that is not pixelated.",
    ),
    Rule(
        name="overcompressed",
        error_code=4315,
        severity="P1",
        measure="block_edge_fraction",
        high=0.021,  # of 248 clean films the highest has .015, of 48 coarse ones the lowest .029
        what="The blocks of the codec show everywhere: its bit rate was far too low.",
        fix="Fetch a rendition with a higher bit rate; encoding it again does not help.",
    ),
    Rule(
        name="coarse_quantizer",
        error_code=4316,
        severity="P1",
        measure="quantizer_step",
        high=90.0,  # of 29 clean films in eight codecs the largest is 30
        what="The codec dropped nearly all detail: H.264 at a parameter of 43 and more.",
        fix="Fetch a rendition with a higher bit rate.",
    ),
    Rule(
        name="noisy_video",
        error_code=4317,
        severity="P2",
        measure="noise_levels",
        unit="grey levels",
        high=12.0,
        what="Noise covers the calm parts of the picture as well.",
        fix="Denoise it (ffmpeg's `hqdn3d` or `nlmeans`), or leave it at its smaller weight.",
    ),
    Rule(
        name="spoiled_colour",
        error_code=4318,
        severity="P1",
        measure="spoiled_fraction",
        high=0.03,
        what="Part of the picture has a green that no colour has: planes that were never decoded.",
        fix="Fetch the file again, or decode it with another program.",
    ),
    Rule(
        name="half_frame",
        error_code=4319,
        severity="P1",
        measure="lost_rows_fraction",
        high=0.12,
        what="The lower part of the picture was never received: its last line, or grey, fills it.",
        fix="Fetch the file again; cut the stretch out where the source has it as well.",
    ),
    Rule(
        name="combed",
        error_code=4320,
        severity="P2",
        measure="combed_fraction",
        high=0.0012,  # of 205 clean films one has .0017, the next .0008; of 48 woven ones the lowest .0017
        what="Lines of two moments are woven into one frame: it is interlaced.",
        fix="Deinterlace it (ffmpeg's `bwdif`).",
    ),
    Rule(
        name="smeared",
        error_code=4322,
        severity="P2",
        measure="smeared_fraction",
        high=0.5,
        what="Half of the frames have no edge in some direction: the camera moved too fast, or was out of focus.",
        fix="Leave it at its smaller weight, or film with a shorter exposure; deblurring invents what it shows.",
    ),
)
