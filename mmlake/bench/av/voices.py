"""Part `voices` of `mmlake bench av`: who speaks when, and what a denoiser gains."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from mmlake.bench.av.rows import AvRow, Part, Run
from mmlake.errors import MissingExtra, SettingsError
from mmlake.sample import voices
from mmlake.speech.denoise import denoiser_of
from mmlake.speech.vad import silero
from mmlake.voices import ge2e
from mmlake.voices.diarize import diarize
from mmlake.voices.turns import Turn, diarization_errors

_NAME = "voices"
_RATE_HZ = voices.RATE_HZ  # 16 kHz, as tracks have it
_ERROR = "<= 0.10"  # of two clean voices
_GAIN = ">= 5"  # dB at 0 dB
_PAUSE_S = 0.6
_SENTENCES = (
    "The harbour was empty when the first boats came home",
    "Seven children carried the ladder across the yard",
    "Most of the letters had been written in winter",
    "A small lamp burned above the kitchen table",
)
# pairs that nothing was calibrated on
_PAIRS = (("en-us+m3", "en-us+f1"), ("en-gb-scotland", "en-us+f4"), ("en-gb-x-gbclan", "en-us+Annie"))
_KnownTurns = list[tuple[float, float, str]]


def generated(run: Run) -> Iterator[AvRow]:
    """Conversations of two synthetic voices and of one, and their sentences in noise."""
    if voices.engine() != "espeak-ng":
        yield AvRow(_NAME, "two voices", "diarization error", None, _ERROR, 0, "espeakng-loader is not installed")
        return
    for case, of_one in (("two voices", False), ("one voice", True)):
        made = []
        for number in range(max(1, min(run.limit, len(_PAIRS)))):
            names = _PAIRS[number][:1] if of_one else _PAIRS[number]
            made.append(_conversation(names, run.seed + number))
            run.advance(1)
        yield from _errors(case, made, _ERROR)
    yield from _gains(*_conversation(_PAIRS[0], run.seed))


def labelled(folder: Path, run: Run) -> Iterator[AvRow]:
    """The recordings of a folder against the turns of their RTTM files."""
    import soundfile
    import soxr

    made, turns = [], _turns_in(folder)
    for path in sorted(folder.glob("*.wav"))[: run.limit]:
        if (known := turns.get(path.stem)) is None:
            continue
        samples, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
        made.append((np.asarray(soxr.resample(samples.mean(axis=1), rate_hz, _RATE_HZ), np.float32), known))
        run.advance(1)
    if not made:
        raise SettingsError(f"{folder} has no NAME.wav with a NAME.rttm or lines of an .rttm that name it; add them")
    yield from _errors("labelled", made, "")


def _errors(case: str, made: Sequence[tuple[np.ndarray, _KnownTurns]], floor: str) -> Iterator[AvRow]:
    """The error over all recordings, with spans of Silero, and the share of them whose number of voices is right."""
    try:
        embed = ge2e.load(ge2e.weights_path())
    except MissingExtra:
        yield AvRow(_NAME, case, "diarization error", None, floor, 0, "the weights of Resemblyzer are not installed")
        return
    found = [(diarize(sound, _spoken(sound), embed=embed, max_speakers=10), known) for sound, known in made]
    errors = [diarization_errors(known, [turn[:3] for turn in turns]) for turns, known in found]
    spoken_s = sum(one.spoken_s for one in errors) or 1.0
    wrong_s = sum(one.wrong_s for one in errors)
    yield AvRow(_NAME, case, "diarization error", wrong_s / spoken_s, floor, len(found), "collar 0.25 s")
    confused_s = sum(one.confused_s for one in errors)
    yield AvRow(_NAME, case, "of it confused", confused_s / spoken_s, "", len(found))
    right = [_num(turns) == len({turn[2] for turn in known}) for turns, known in found]
    yield AvRow(_NAME, case, "number of voices right", sum(right) / len(right), "", len(right))


def _num(turns: Sequence[Turn]) -> int:
    return len({turn.speaker for turn in turns})


def _spoken(sound: np.ndarray) -> list[tuple[float, float]]:
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, sound, _RATE_HZ, format="WAV", subtype="FLOAT")
    file.seek(0)
    return list(silero(file))


def _gains(clean: np.ndarray, known: _KnownTurns) -> Iterator[AvRow]:
    speech = [turn[:2] for turn in known]
    spoken = np.concatenate([clean[round(a * _RATE_HZ) : round(b * _RATE_HZ)] for a, b in speech])
    noise = np.random.default_rng(0).standard_normal(len(clean)).astype(np.float32)
    for ratio_db, floor in ((0.0, _GAIN), (10.0, ""), (20.0, "")):
        level = np.sqrt(np.mean(np.square(spoken)) / 10 ** (ratio_db / 10)).astype(np.float32)
        noisy = clean + level * noise
        found = denoiser_of("spectral", below_db=15.0)(noisy, speech)
        gain_db = 10 * np.log10(np.sum((noisy - clean) ** 2) / np.sum((found - clean) ** 2))
        note = "left as it is" if found is noisy else ""
        yield AvRow(_NAME, f"white noise at {ratio_db:g} dB", "gain in dB", float(gain_db), floor, 1, note)


def _conversation(names: Sequence[str], seed: int) -> tuple[np.ndarray, _KnownTurns]:
    """(samples, turns): the voices in turn, each with all sentences."""
    rng = np.random.default_rng(seed)
    parts: list[np.ndarray] = []
    turns, at = [], 0
    for number in range(3 * len(names)):
        name = names[number % len(names)]
        said = tuple(_SENTENCES[one] for one in rng.permutation(len(_SENTENCES))[:2])
        utterance = voices.Utterance(sentences=said, voice=name, rate_wpm=165, pitch=50)
        (speech,) = voices.speak([utterance], seed=seed + number)
        samples = np.asarray(speech.samples, np.float32)
        audible = np.flatnonzero(np.abs(samples) > 0.01)
        samples = samples[audible[0] : audible[-1]]
        turns.append((at / _RATE_HZ, (at + len(samples)) / _RATE_HZ, name))
        parts += [samples, np.zeros(round(_PAUSE_S * _RATE_HZ), np.float32)]
        at += len(parts[-2]) + len(parts[-1])
    sound = np.concatenate(parts)
    return sound + 1e-4 * rng.standard_normal(len(sound)).astype(np.float32), turns


def _turns_in(folder: Path) -> dict[str, _KnownTurns]:
    """Name of a recording -> its turns, of all RTTM files. A file of one recording may also be called like it. Raises
    SettingsError."""
    turns: dict[str, _KnownTurns] = {}
    for path in sorted(folder.glob("*.rttm")):
        own: dict[str, _KnownTurns] = {}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            cells = line.split()
            if not cells or cells[0] != "SPEAKER":
                continue
            try:
                turn = float(cells[3]), float(cells[3]) + float(cells[4]), cells[7]
            except (IndexError, ValueError) as error:
                raise SettingsError(f"{path}: line {number} is no line of RTTM; correct it") from error
            own.setdefault(cells[1], []).append(turn)
        if len(own) < 2:
            own[path.stem] = next(iter(own.values()), [])
        for name, said in own.items():
            turns.setdefault(name, said)
    return turns


PART = Part(
    name=_NAME,
    what="who speaks when, and what a denoiser gains",
    generated=generated,
    labelled=labelled,
    truth="NAME.wav with NAME.rttm, or one for several: SPEAKER NAME 1 START_S LENGTH_S <NA> <NA> VOICE <NA> <NA>",
)
