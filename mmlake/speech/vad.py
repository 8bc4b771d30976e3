"""Where somebody speaks, by the network of Silero, whose weights are a file of the wheel `silero-vad`.

Enters: mono 16 kHz sound, streamed twice, once for its level. Leaves: spans in seconds. What is held is two numbers per
32 ms. The package itself is never imported: it loads torch. `benchmarks/README.md` has how well it detects.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mmlake.errors import MissingExtra, UnreadableItem

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

# F frames of the network
RATE_HZ = 16_000
SILERO = "silero"
FRAME_SAMPLES = 512  # of the network
FRAME_S = FRAME_SAMPLES / RATE_HZ
_CONTEXT_SAMPLES, _STATE_SHAPE = 64, (1, 1, 128)
_MODEL = "silero_vad_16k_sequence.onnx"  # many frames per call; bit-equal to the one of a frame per call
_BLOCK_FRAMES = 256  # 8 s
_DIGITAL_SILENCE = 10**-9.2  # power of the last bit of 16 now and then
_FLOOR_PERCENTILE, _LOUD_PERCENTILE, _ACTIVE_DB = 5, 90, 6.0
_LOUD_DBFS = -23.0  # the network misses three quarters of what is spoken at -60
_MAX_GAIN_DB = 60.0  # more makes sound of the noise of a converter
_ON, _OFF = 0.5, 0.35  # of a span; the network's own (snakers4/silero-vad)
# Voices far from the microphone are that much quieter than the loudest, and the network misses them as it misses quiet
# recordings: so it is asked again at higher gains, up to where the noise would be as loud as speech
_STEP_DB, _MAX_STEPS = 18.0, 2
_MIN_PAUSE_FRAMES = 3  # a stop before a plosive is shorter
_MIN_SPEECH_FRAMES = 4  # the shortest words have more

Spans = list[tuple[float, float]]
VoiceDetector = Callable[[Path | IO[bytes]], Spans]


def silero(sound: Path | IO[bytes]) -> Spans:
    """(start, end) of the stretches in which somebody speaks, in seconds, in order; whole frames, so that the last
    may end 32 ms behind the sound.

    sound: a file that soundfile reads. Raises UnreadableItem 3301 where it is not mono at 16 kHz, MissingExtra without
    the wheel, and what soundfile raises where it does not decode.
    """
    power_F, offset = _powers_and_offset(sound)
    loud_db, floor_db = _loud_and_floor(power_F)
    steps_db = [step * _STEP_DB for step in range(_MAX_STEPS + 1) if step * _STEP_DB <= loud_db - floor_db]
    gain_db = min(_MAX_GAIN_DB, _LOUD_DBFS - loud_db)
    gains_db = [min(_MAX_GAIN_DB, gain_db + step_db) for step_db in steps_db]
    return _spans(_probabilities(sound, gains_db, offset))


VOICE_DETECTORS: dict[str, VoiceDetector | None] = {SILERO: silero, "none": None}


def _blocks(sound: Path | IO[bytes]) -> Iterator[NDArray[np.float32]]:
    """The samples of whole frames, the last one filled with silence, shape (num_frames, FRAME_SAMPLES)."""
    import soundfile

    if not isinstance(sound, Path):
        sound.seek(0)
    with soundfile.SoundFile(sound) as file:
        if file.samplerate != RATE_HZ or file.channels != 1:
            raise UnreadableItem(
                3301, f"sample_rate_hz={file.samplerate}, num_channels={file.channels}, expected {RATE_HZ}, 1"
            )
        for block in file.blocks(blocksize=_BLOCK_FRAMES * FRAME_SAMPLES, dtype="float32"):
            yield np.pad(block, (0, -len(block) % FRAME_SAMPLES)).reshape(-1, FRAME_SAMPLES)


def _powers_and_offset(sound: Path | IO[bytes]) -> tuple[NDArray[np.float32], np.float32]:
    """(mean power of each frame without its offset, offset of the whole)."""
    power, mean = [np.zeros(0, np.float32)], [np.zeros(0, np.float32)]
    for block in _blocks(sound):
        power.append(block.var(axis=1))
        mean.append(block.mean(axis=1))
    mean_F = np.concatenate(mean)
    return np.concatenate(power), np.float32(mean_F.mean() if len(mean_F) else 0.0)


def _decibels(power_F: NDArray[np.float32]) -> NDArray[np.float32]:
    level_F: NDArray[np.float32] = 10 * np.log10(np.maximum(power_F, _DIGITAL_SILENCE))
    return level_F


def _loud_and_floor(power_F: NDArray[np.float32]) -> tuple[float, float]:
    """Level of the loud parts and of the noise in dBFS; muted stretches say nothing of either."""
    level_F = _decibels(power_F[power_F > _DIGITAL_SILENCE])
    if not len(level_F):
        return _LOUD_DBFS, _LOUD_DBFS
    floor_db = float(np.percentile(level_F, _FLOOR_PERCENTILE))
    active = level_F[level_F > floor_db + _ACTIVE_DB]
    return (float(np.percentile(active, _LOUD_PERCENTILE)) if len(active) else floor_db), floor_db


@lru_cache(maxsize=1)
def _network() -> InferenceSession:
    """The network, on one thread: workers are as many as there are cores."""
    import onnxruntime

    package = importlib.util.find_spec("silero_vad")
    path = Path(package.origin).parent / "data" / _MODEL if package is not None and package.origin else Path()
    if not path.is_file():
        raise MissingExtra(
            f"the voice detector 'silero' needs {_MODEL} of the package silero-vad, which is not installed or of "
            "another release; run: pip install 'silero-vad>=6.2,<7', or set preprocess.voice_detector to 'none'"
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # it warns of parts of the file that it does not need
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


@dataclass(slots=True)
class _Pass:
    """The network reading the sound at one gain."""

    gain: np.float32
    hidden: NDArray[np.float32] = field(default_factory=lambda: np.zeros(_STATE_SHAPE, np.float32))
    cell: NDArray[np.float32] = field(default_factory=lambda: np.zeros(_STATE_SHAPE, np.float32))
    before: NDArray[np.float32] = field(default_factory=lambda: np.zeros((1, _CONTEXT_SAMPLES), np.float32))

    def probabilities(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        """Of the frames that follow those of the call before."""
        louder = np.clip(block * self.gain, -1.0, 1.0)
        ends = louder[:, -_CONTEXT_SAMPLES:]
        framed = np.concatenate([np.concatenate([self.before, ends[:-1]]), louder], axis=1)
        self.before = ends[-1:].copy()
        found: NDArray[np.float32]
        found, self.hidden, self.cell = _network().run(None, {"input": framed, "h": self.hidden, "c": self.cell})
        return found


def _probabilities(sound: Path | IO[bytes], gains_db: Sequence[float], offset: np.float32) -> NDArray[np.float32]:
    """That somebody speaks, of each frame: the highest at any of the gains. offset: taken from the sound, as the
    network misses voices that lie on one, and a gain raises it along with them."""
    passes = [_Pass(np.float32(10 ** (gain_db / 20))) for gain_db in gains_db]
    found = [np.max([one.probabilities(block - offset) for one in passes], axis=0) for block in _blocks(sound)]
    return np.concatenate([np.zeros(0, np.float32), *found])


def _spans(probability_F: NDArray[np.float32]) -> Spans:
    """Stretches from where the probability reaches _ON to where it falls below _OFF; short pauses belong to them."""
    # 1 where it begins, -1 where it ends, and in between as before
    change_F = np.where(probability_F >= _ON, 1, np.where(probability_F < _OFF, -1, 0))
    at_F = np.maximum.accumulate(np.where(change_F != 0, np.arange(len(change_F)), -1))
    is_speech_F = (at_F >= 0) & (change_F[at_F] == 1)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_speech_F, [False]]).astype(np.int8)))
    joined: list[list[int]] = []
    for first, last in edges.reshape(-1, 2).tolist():
        if joined and first - joined[-1][1] < _MIN_PAUSE_FRAMES:
            joined[-1][1] = last
        else:
            joined.append([first, last])
    return [(first * FRAME_S, last * FRAME_S) for first, last in joined if last - first >= _MIN_SPEECH_FRAMES]
