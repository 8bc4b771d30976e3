"""Mean opinion scores of how speech sounds, on the scale of 1 (bad) to 5 (excellent), by the networks of DNSMOS.

Enters: the mono 16 kHz track, and where somebody speaks. Leaves: four mean opinion scores, of windows that hold speech:
of the whole by ITU-T P.808, and of voice, background and both by P.835 (Reddy, Gopal, Cutler 2022). The weights are
files of the wheel `speechmos` (MIT), which is never imported: it would load librosa. Without the wheel there are none.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mmlake.quality.measurement import Measurement, Measures, Subject
from mmlake.quality.rule import Rule
from mmlake.speech.mel import mel_energies

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_RATE_HZ, _WINDOW = 16_000, 144_160  # 9.01 s, what the networks were trained on
_MAX_WINDOWS = 16  # evenly placed, side by side in a unit that is shorter; the wheel's script takes one per second
_LEAST_SPOKEN_S = 1.0  # of a window; shorter answers say more of their pauses
_P835, _P808 = "sig_bak_ovr.onnx", "model_v8.onnx"
_MEL_WINDOW, _MEL_BANDS, _MEL_CUT = 321, 120, 160  # samples, bands; samples that P.808's network does not see
_RANGE_DB, _OFFSET_DB, _SCALE_DB = 80.0, 40.0, 40.0
# The networks are linear at their ends; these bring them to the scale of opinions (of the wheel's own script)
_SCALES = {
    "mos_voice": (-0.08397278, 1.22083953, 0.0052439),
    "mos_background": (-0.13166888, 1.60915514, -0.39604546),
    "mos_overall": (-0.06766283, 1.11546468, 0.04602535),
}
MOS_MEASURES = ("mos_p808", *_SCALES)


def mos_measures(subject: Subject) -> Measures:
    """The scores of one unit; null without sound or the wheel, and where speech is shorter than a second."""
    speech = subject.track["speech"]
    if subject.sound is None or not speech or _folder() is None:
        return dict.fromkeys(MOS_MEASURES)
    return mos(subject.sound.samples()[0], speech)


def mos(samples: np.ndarray, speech: Sequence[Mapping[str, Any]]) -> Measures:
    """Mean scores of the windows that hold speech. samples: float32 mono, 16 kHz, in [-1, 1]. speech: start_s and
    end_s of each stretch. What is shorter than a window is repeated, as the wheel's own script does."""
    whole = samples if len(samples) >= _WINDOW else np.tile(samples, -(-_WINDOW // max(1, len(samples))))[:_WINDOW]
    num = min(_MAX_WINDOWS, -(-len(whole) // _WINDOW))
    places = np.linspace(0, len(whole) - _WINDOW, num).astype(int).tolist()
    scores = [_scores(whole[at : at + _WINDOW]) for at in places if _spoken_s(speech, at) >= _LEAST_SPOKEN_S]
    if not scores:
        return dict.fromkeys(MOS_MEASURES)
    return dict(zip(MOS_MEASURES, np.mean(scores, axis=0).tolist(), strict=True))


def _spoken_s(speech: Sequence[Mapping[str, Any]], at: int) -> float:
    start_s, end_s = at / _RATE_HZ, (at + _WINDOW) / _RATE_HZ
    return float(sum(max(0.0, min(end_s, one["end_s"]) - max(start_s, one["start_s"])) for one in speech))


def _scores(window: np.ndarray) -> tuple[float, ...]:
    """In the order of the measures, each within the scale."""
    (raw,) = np.asarray(_network(_P835).run(None, {"input_1": window[None]})[0])
    ((total,),) = np.asarray(_network(_P808).run(None, {"input_1": _mel_levels(window[:-_MEL_CUT])[None]})[0])
    scaled = (np.polyval(scale, value) for scale, value in zip(_SCALES.values(), raw, strict=True))
    return tuple(min(5.0, max(1.0, float(value))) for value in (total, *scaled))


def _mel_levels(samples: np.ndarray) -> np.ndarray:
    """Levels of 120 bands below the loudest, in units of 40 dB around 0, float32 of shape (T, 120)."""
    energy_TB = np.maximum(mel_energies(samples, _MEL_BANDS, window_samples=_MEL_WINDOW), 1e-10)
    level_TB = 10 * np.log10(energy_TB / energy_TB.max())
    scaled_TB: np.ndarray = (np.maximum(level_TB, -_RANGE_DB) + _OFFSET_DB) / _SCALE_DB
    return scaled_TB.astype(np.float32)


@cache
def _folder() -> Path | None:
    """Where the weights are; None without the wheel."""
    package = importlib.util.find_spec("speechmos")
    folder = Path(package.origin).parent / "dnsmos_models" if package is not None and package.origin else None
    return folder if folder is not None and all((folder / name).is_file() for name in (_P835, _P808)) else None


@lru_cache(maxsize=2)
def _network(name: str) -> InferenceSession:
    """One network, on one thread: workers are as many as there are cores."""
    import onnxruntime

    folder = _folder()
    assert folder is not None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(folder / name), options, providers=["CPUExecutionProvider"])


def _revision() -> str:
    """Of the weights: with the wheel the scores are taken, and another release takes them again."""
    return f"1.{metadata.version('speechmos')}" if _folder() is not None else "none"


MOS_MEASUREMENT = Measurement(
    name="dnsmos",
    modalities=("audio", "video"),
    measures=MOS_MEASURES,
    columns=("speech",),
    take=mos_measures,
    needs_sound=True,
    revision=_revision(),
)

POOR_SPEECH = Rule(
    name="poor_speech",
    error_code=4407,
    severity="P2",
    measure="mos_overall",
    low=2.0,  # of 201 recordings of speech 4 are below, of clean ones in noise of 0 dB all (docs/quality.md)
    exempt=(("music_fraction", 0.5, None), ("speech_fraction", None, 0.05)),  # nobody speaks to be judged
    what="Speech sounds bad: noise, an echo or a distortion hurts it.",
    fix="Fetch another rendition or denoise it, or leave it at its smaller weight.",
)
