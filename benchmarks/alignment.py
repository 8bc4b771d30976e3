"""How well right transcripts are distinguished from wrong ones, how far word times are off, and what it costs.

    python benchmarks/alignment.py                    # speech of eSpeak NG, in five conditions
    python benchmarks/alignment.py --speech DIR       # also NAME.wav with NAME.txt; --wrong NAME: known to be
    python benchmarks/alignment.py --fit              # the weights, from the other sentences

Even sentences of the sample corpus fit the weights, odd ones measure them; no voice, rate and pitch is in both.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import soxr

from mmlake.preprocess import AlignSettings
from mmlake.preprocess.transcripts import agreement
from mmlake.preprocess.transcripts.align import Aligner
from mmlake.preprocess.transcripts.subtitles import Cue
from mmlake.sample import voices
from mmlake.sample.sentences import SENTENCES

RATE_HZ = 16000
PROGRAM = Path(__file__).with_name("espeak_words.py")


@dataclass(frozen=True)
class Spoken:
    """One recording with what is said in it."""

    text: str
    samples: np.ndarray  # float32 mono 16 kHz
    starts_s: tuple[float, ...] = ()  # of each word, where known


def synthesized(texts: Sequence[str], first: int) -> list[Spoken]:
    """Each text by another voice."""
    said = [voices.utterance((text,), first + 2 * at) for at, text in enumerate(texts)]
    wanted = [
        {"text": one.text, "voice": one.voice, "rate": one.rate_wpm + first * 5, "pitch": one.pitch + first * 3}
        for one in said
    ]
    done = subprocess.run([sys.executable, str(PROGRAM)], input=json.dumps(wanted).encode(), capture_output=True)
    found = []
    for text, line in zip(texts, done.stdout.splitlines(), strict=True):
        answer = json.loads(line)
        pcm = np.frombuffer(base64.b64decode(answer["samples"]), "<i2").astype(np.float32) / 32768
        samples = soxr.resample(pcm, 22050, RATE_HZ)
        edge = np.zeros(RATE_HZ // 4, np.float32)
        samples = np.concatenate([edge, samples * 0.6 / np.abs(samples).max(), edge])
        found.append(Spoken(text, samples.astype(np.float32), tuple(0.25 + at for at in answer["words"])))
    return found


def apart(texts: Sequence[str], first: int) -> list[Spoken]:
    """Each text word by word, with pauses, as a hesitant reader."""
    speech = voices.speak(
        [voices.utterance(tuple(text.rstrip(".").split()), first + 2 * at) for at, text in enumerate(texts)], seed=1
    )
    return [
        Spoken(text, one.samples, tuple(start_s for start_s, _ in one.spans_s))
        for text, one in zip(texts, speech, strict=True)
    ]


def noisy(spoken: Sequence[Spoken], snr_db: float) -> list[Spoken]:
    """With white noise."""
    rng = np.random.default_rng(2)
    return [
        Spoken(
            one.text,
            one.samples
            + rng.normal(0, np.sqrt(np.mean(one.samples**2) / 10 ** (snr_db / 10)), len(one.samples)).astype(
                np.float32
            ),
            one.starts_s,
        )
        for one in spoken
    ]


def reverberant(spoken: Sequence[Spoken]) -> list[Spoken]:
    """In a room: half a second of decaying echoes."""
    rng = np.random.default_rng(3)
    tail = rng.normal(0, 1, RATE_HZ // 2) * np.exp(-np.arange(RATE_HZ // 2) / (0.06 * RATE_HZ))
    tail[0] = 6.0
    size = 1 << 19
    return [
        Spoken(
            one.text,
            (0.1 * np.fft.irfft(np.fft.rfft(one.samples, size) * np.fft.rfft(tail, size), size))[
                : len(one.samples)
            ].astype(np.float32),
            one.starts_s,
        )
        for one in spoken
    ]


def corpus(first: int) -> dict[str, list[Spoken]]:
    """The conditions, from every second sentence."""
    texts = [text for text in SENTENCES if text][first::2]
    clean = synthesized(texts, first)
    joined = [" ".join(texts[at : at + 3]) for at in range(0, len(texts) - 2, 3)]
    return {
        "clean": clean,
        "noise 20 dB": noisy(clean, 20),
        "noise 10 dB": noisy(clean, 10),
        "room": reverberant(clean),
        "words apart": apart(texts, first),
        "three sentences": synthesized(joined, first),
    }


def music(seed: int) -> np.ndarray:
    """Five seconds of a harmonic tune."""
    rng, at = np.random.default_rng(seed), np.arange(5000) / RATE_HZ
    return np.concatenate(
        [
            sum(0.2 / part * np.sin(2 * np.pi * part * hertz * at) for part in range(1, 12)) * np.hanning(len(at))
            for hertz in 165 * 2 ** (rng.integers(0, 24, 16) / 12)
        ]
    )


def flac(samples: np.ndarray) -> bytes:
    """As the stage keeps sound."""
    sink = io.BytesIO()
    soundfile.write(sink, np.clip(samples, -1, 1), RATE_HZ, format="FLAC", subtype="PCM_16")
    return sink.getvalue()


def half(text: str, *, second: bool = False) -> str:
    """One half of its words."""
    words = text.split()
    return " ".join(words[len(words) // 2 :] if second else words[: len(words) // 2])


def auc(right: Sequence[float], wrong: Sequence[float]) -> float:
    """How often a right one is above a wrong one."""
    left, other = np.array(right)[:, None], np.array(wrong)[None]
    return float((left > other).mean() + 0.5 * (left == other).mean())


def texts_of(spoken: Sequence[Spoken]) -> dict[str, list[tuple[Spoken, str]]]:
    """Pairs of sound and transcript by what is wrong with it."""
    num = len(spoken)
    other = [[spoken[(at + by) % num].text for by in (1, 3, 5) if by % num] for at in range(num)]
    return {
        "right": [(one, one.text) for one in spoken],
        "wrong": [(one, text) for one, texts in zip(spoken, other, strict=True) for text in texts],
        "half wrong": [
            (one, text)
            for one, texts in zip(spoken, other, strict=True)
            for text in (
                f"{half(one.text)} {half(texts[-1], second=True)}",
                f"{half(texts[-1])} {half(one.text, second=True)}",
            )
        ],
        "half missing": [(one, half(one.text)) for one in spoken],
    }


class Features:
    """The numbers that a transcript is judged by; the sound of each recording is decoded once."""

    def __init__(self) -> None:
        self.aligner = Aligner(AlignSettings())
        self._phones: dict[int, object] = {}

    def __call__(self, samples: np.ndarray, text: str) -> list[agreement.Agreement]:
        stretches = self.aligner._stretches([Cue(text)], len(samples) / RATE_HZ)
        if id(samples) not in self._phones:
            sixteen = np.clip(np.rint(samples * 32768), -32768, 32767).astype(np.int16)
            self._phones[id(samples)] = (samples, self.aligner._recognize(sixteen, stretches[0])[0])
        return [agreement.compare(stretches[0].expected, self._phones[id(samples)][1].phones, np.random.default_rng(0))]


def fit() -> None:
    """Prints the weights of both logistic functions."""
    features, rows, labels, weights = Features(), [], [], []
    share = {"right": 1.0, "wrong": 0.35, "half wrong": 0.25, "half missing": 0.25}
    spoken = corpus(0)
    costs, is_right = [], []
    for found in spoken.values():
        for kind, pairs in texts_of(found).items():
            for one, text in pairs:
                compared = features(one.samples, text)
                rows.append(agreement.features(compared))
                labels.append(kind == "right")
                weights.append(share[kind] / len(pairs))
        for one, text in texts_of(found)["half wrong"][::2]:
            num_right = len(half(one.text).split())
            cost_E = features(one.samples, text)[0].cost_E
            total, at = np.concatenate([[0], np.cumsum(cost_E)]), 0
            for index, word in enumerate(features.aligner._stretches([Cue(text)], 9.0)[0].spoken):
                stop = at + len(word.phones)
                low, high = max(0, at - 6), min(len(cost_E), stop + 6)
                costs.append(
                    0.3 * (total[stop] - total[at]) / (stop - at) + 0.7 * (total[high] - total[low]) / (high - low)
                )
                is_right.append(index < num_right)
                at = stop
    tunes = [music(seed) for seed in range(12)]
    for tune in tunes:
        for one in spoken["clean"][::4]:
            rows.append(agreement.features(features(tune, one.text)))
            labels.append(False)
            weights.append(0.15 / len(tunes) / 9 * len(spoken))
    print("agreement.py:", *np.round(logistic(np.array(rows), np.array(labels), np.array(weights)), 2))
    print("align.py:", *np.round(logistic(np.array(costs)[:, None], np.array(is_right), np.ones(len(costs))), 2))


def logistic(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, ridge: float = 1e-3) -> np.ndarray:
    """Bias and weights of a logistic regression by Newton's method."""
    mean, spread = rows.mean(0), rows.std(0)
    design = np.c_[np.ones(len(rows)), (rows - mean) / spread]
    weights = weights / weights.mean() / len(rows)
    found = np.zeros(design.shape[1])
    for _ in range(60):
        chance = 1 / (1 + np.exp(-design @ found))
        slope = design.T @ (weights * (labels - chance)) - ridge * found
        curve = (design.T * (weights * chance * (1 - chance))) @ design + ridge * np.eye(len(found))
        found += np.linalg.solve(curve, slope)
    steep = found[1:] / spread
    return np.r_[found[0] - (steep * mean).sum(), steep]


def distinguished(name: str, spoken: Sequence[Spoken], known_wrong: Sequence[Spoken] = ()) -> None:
    """Prints one line of the table: AUC against each kind, and the share that passes."""
    features, scores = Features(), {}
    for kind, pairs in texts_of(spoken).items():
        scores[kind] = [agreement.confidence(features(one.samples, text)) for one, text in pairs]
    scores["wrong"] += [agreement.confidence(features(one.samples, one.text)) for one in known_wrong]
    areas = "  ".join(f"{auc(scores['right'], scores[kind]):.3f}" for kind in list(scores)[1:])
    passed = "  ".join(f"{np.mean(np.array(values) >= 0.5):.2f}" for values in scores.values())
    print(f"{name:16} {len(spoken):4}  AUC {areas}   share at 0.5 or more: {passed}")


def word_errors(name: str, spoken: Sequence[Spoken], change: Callable[[str], str]) -> None:
    """Prints how far the starts of words are off, and what it costs."""
    aligner = Aligner(AlignSettings())
    aligner.align(flac(spoken[0].samples), [Cue("load the model")])
    errors, duration_s, started = [], 0.0, time.process_time()
    num_aligned = num_compared = 0
    for one in spoken:
        found = aligner.align(flac(one.samples), [Cue(change(one.text))]).words
        duration_s += len(one.samples) / RATE_HZ
        num_aligned += bool(found)
        if len(found) == len(one.starts_s):  # eSpeak NG says "in the" as one word here and there
            num_compared += 1
            errors += [
                abs(float(str(word["start_s"])) - start_s) for word, start_s in zip(found, one.starts_s, strict=True)
            ]
    cpu = (time.process_time() - started) / duration_s
    quantiles = " ".join(f"{value * 1000:.0f}" for value in np.percentile(errors, [50, 90, 99]))
    counts = f"{num_aligned} of {len(spoken)} aligned, {num_compared} compared"
    print(f"{name:32} {counts}, ms at 50/90/99 %: {quantiles}; {cpu:.3f} CPU s per s")


def misspelled(text: str) -> str:
    """With its longest word spelled as no dictionary has it."""
    longest = max(text.split(), key=len)
    return text.replace(longest, "q" + longest.rstrip(".") + "q", 1)


def recorded(directory: Path, wrong: Sequence[str]) -> tuple[list[Spoken], list[Spoken]]:
    """(recordings with their transcripts, those whose transcripts are known to be wrong)."""
    found: dict[bool, list[Spoken]] = {True: [], False: []}
    for text in sorted(directory.glob("*.txt")):
        samples, rate_hz = soundfile.read(text.with_suffix(".wav"), dtype="float32")
        found[text.stem in wrong].append(
            Spoken(text.read_text().strip(), soxr.resample(samples, rate_hz, RATE_HZ).astype(np.float32))
        )
    return found[False], found[True]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--speech", type=Path)
    parser.add_argument("--wrong", nargs="*", default=())
    given = parser.parse_args()
    if given.fit:
        fit()
        return
    print("kinds: right, wrong, half wrong, half missing")
    measured = corpus(1)
    for name, spoken in measured.items():
        distinguished(name, spoken)
    if given.speech:
        distinguished(given.speech.name, *recorded(given.speech, given.wrong))
    aligner = Aligner(AlignSettings())
    tunes = [
        aligner.align(flac(music(seed)), [Cue(one.text)]) for seed in range(50, 60) for one in measured["clean"][::6]
    ]
    print(f"music: {sum(bool(one.words) for one in tunes)} of {len(tunes)} with words")
    word_errors("clean", measured["clean"], str)
    word_errors("noise 10 dB", measured["noise 10 dB"], str)
    word_errors("one unknown word", measured["clean"], misspelled)


if __name__ == "__main__":
    main()
