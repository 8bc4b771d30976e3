"""Word times of known words, and whether they are the words of the sound at all (US English).

Enters: mono 16 kHz sound and its transcript. Leaves: a confidence, and words with times and scores, or the reason why
there are none. A forced alignment completes on many wrong texts, and on tones; so the phones that a phone loop finds in
the sound are compared with those of the transcript first (`agreement.py`), and a transcript that disagrees gets no
times.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from mmlake.preprocess.settings import SOUND_RATE_HZ, AlignSettings
from mmlake.preprocess.transcripts import agreement
from mmlake.preprocess.transcripts.pronunciation import Spoken, pronounce, tokens
from mmlake.preprocess.transcripts.subtitles import Cue
from mmlake.speech.cepstra import FRAMES_PER_S, features
from mmlake.speech.denoise import signal_to_noise_db
from mmlake.speech.phone_model import Scores, dictionary, phone_model
from mmlake.speech.phone_search import WordGraph, spoken_phones, word_spans
from mmlake.speech.wiener import wiener_filtered

if TYPE_CHECKING:
    import soundfile

METHOD, REVISION = "phone-agreement", "3"  # of the rows; the revision counts up where the same input gives other rows
MISMATCH, IMPOSSIBLE = 3201, 3202
_MIN_PHONE_FRAMES = 4  # on average; 25 phones in a second are more than anybody says
# Behind a pause the aligner begins a word in silence: what is so far below the word's loudest hundredth of a second is
# none of its sounds, of which the softest are 25 dB below
_HOP_SAMPLES, _BELOW_PEAK_DB = SOUND_RATE_HZ // 100, 35.0
_CONTEXT_S = 3.0  # on either side of a stretch, that its noise is measured in as well
_CUE_MARGIN_S = 0.2  # subtitles appear a little after speech and vanish a little before its end
_CUE_GAP_S = 1.0  # cues that follow each other sooner are one stretch: their edges are rarely exact
_SPEECH_NOISE = "+SPN+"  # of the model: speech of unknown phones, for words whose letters are not Latin
_ANY = ("T", "AH") * 2
_MIN_SPEECH_S = 0.1
_MIN_SPEECH_FRACTION = 0.5  # of what is not silence; speech at 10 dB has .78 and more, noise .1 to .3
_MIN_RECOGNIZED = 2  # phones; a tone or a click may pass for one
_GUESSED = 0.5  # factor on the score of a word whose phones were guessed from its letters
# score of a word = logistic(bias - weight * cost), cost of its own phones and of those around; fitted by
# benchmarks/alignment.py --fit
_SCORE_BIAS, _SCORE_WEIGHT, _OWN, _AROUND = 5.53, 13.59, 0.3, 6

Spans = Sequence[tuple[float, float]]
Times = list[tuple[float, float]]
Word = dict[str, object]  # word, start_s, end_s, score


@dataclass(frozen=True, kw_only=True, slots=True)
class Alignment:
    """One transcript laid on its sound."""

    confidence: float | None = None  # that the sound says the transcript, 0..1; None where that cannot be judged
    words: list[Word] = field(default_factory=list)
    code: int | None = None  # of the error catalogue, where there are no word times or they are only those of cues
    reason: str | None = None
    cue_lags: tuple[tuple[float, float], ...] = ()  # (time of cues, how late they are), where they drift


@dataclass(frozen=True, slots=True)
class _Stretch:
    """One piece of sound with what is said in it."""

    cues: list[Cue]  # one without times for a whole recording
    start_s: float
    end_s: float
    spoken: list[Spoken]

    @property
    def expected(self) -> list[int]:
        return [agreement.number(phone, is_guess=not word.is_known) for word in self.spoken for phone in _phones(word)]


@dataclass(frozen=True, slots=True)
class _Recognized:
    """What the phone loop finds in a stretch."""

    phones: list[int]  # indices into agreement.PHONES
    times_s: list[tuple[float, float]]
    noise_s: float  # neither a phone nor silence


class Aligner:
    """Aligns transcripts one after the other; each result is independent of what came before."""

    def __init__(self, settings: AlignSettings) -> None:
        self._settings = settings

    def align(self, flac: bytes, cues: Sequence[Cue], speech: Spans = ()) -> Alignment:
        """The words of the cues with their times, in order of time, or the reason why there are none.

        speech: where somebody speaks, in seconds and in order; what is little above the noise is denoised by it.
        """
        import soundfile

        with soundfile.SoundFile(io.BytesIO(flac)) as sound:
            stretches = self._stretches(cues, sound.frames / sound.samplerate)
            if not stretches:
                return Alignment(code=IMPOSSIBLE, reason="num_words=0 within the sound not in [1, inf)")
            longest_s = max(stretch.end_s - stretch.start_s for stretch in stretches)
            if not _MIN_SPEECH_S <= longest_s <= self._settings.max_stretch_s:
                return Alignment(
                    code=IMPOSSIBLE,
                    reason=f"stretch_s={longest_s:.6g} s not in [{_MIN_SPEECH_S:g}, {self._settings.max_stretch_s:g}]",
                )
            below_db = self._settings.denoise_below_db
            samples = [_samples(sound, stretch, speech, below_db) for stretch in stretches]
        recognitions = [self._recognize(part, stretch) for part, stretch in zip(samples, stretches, strict=True)]
        recognized = [sounds for sounds, _ in recognitions]
        if (reason := _no_speech(recognized)) is not None:
            return Alignment(confidence=0.0, code=MISMATCH, reason=reason)
        found = [
            agreement.compare(stretch.expected, sounds.phones, np.random.default_rng(self._settings.seed))
            for stretch, sounds in zip(stretches, recognized, strict=True)
        ]
        confidence = agreement.confidence(found)
        if confidence < self._settings.min_transcript_match:
            if (doubt := self._not_judged(stretches)) is not None:
                return Alignment(words=_spread(stretches), code=IMPOSSIBLE, reason=doubt)
            return Alignment(confidence=confidence, code=MISMATCH, reason=self._mismatch(confidence, found))
        words: list[Word] = []
        for part, stretch, (sounds, forced), match in zip(samples, stretches, recognitions, found, strict=True):
            scores = _scores(stretch.spoken, match, confidence)
            times = _sounding(forced or _traced(stretch, sounds, match), part, stretch)
            words += [
                {"word": word.word, "start_s": start_s, "end_s": end_s, "score": score}
                for word, (start_s, end_s), score in zip(stretch.spoken, times, scores, strict=True)
            ]
        return Alignment(confidence=confidence, words=sorted(words, key=lambda word: (word["start_s"], word["end_s"])))

    def _stretches(self, cues: Sequence[Cue], duration_s: float) -> list[_Stretch]:
        """The cues within the sound, those that follow each other closely in one stretch."""
        groups: list[list[Cue]] = []
        for cue in cues:
            start_s, end_s = (0.0, duration_s) if cue.start_s is None else _within(cue, duration_s)
            if end_s <= start_s or not tokens(cue.text):
                continue  # the subtitles run on after the sound has ended
            last = groups[-1] if groups else None
            timed = cue if cue.start_s is None else Cue(cue.text, start_s, end_s)
            if (
                last
                and start_s - _end_s(last) <= _CUE_GAP_S
                and end_s - _start_s(last) <= self._settings.max_stretch_s / 2
            ):
                last.append(timed)
            else:
                groups.append([timed])
        return [
            _Stretch(
                group,
                max(0.0, _start_s(group) - _CUE_MARGIN_S),
                min(duration_s, _end_s(group) + _CUE_MARGIN_S) if group[0].end_s is not None else duration_s,
                [word for cue in group for word in pronounce(cue.text, dictionary().get)],
            )
            for group in groups
        ]

    def _recognize(self, samples: np.ndarray, stretch: _Stretch) -> tuple[_Recognized, Times | None]:
        """(the phones of one stretch, the times of its words as `_forced` has them)."""
        noise = np.random.default_rng(self._settings.seed).standard_normal(len(samples), np.float32)
        cepstra = features(samples + np.float32(self._settings.noise_floor) * noise)
        graph = _graph(stretch.spoken, cepstra.shape[1])
        wanted = [phone_model().states_P.ravel(), *([np.array(graph.states).ravel()] if graph else [])]
        scores = phone_model().scores(cepstra, np.concatenate(wanted))
        return _recognized(scores, stretch), _forced(graph, scores, stretch) if graph else None

    def _not_judged(self, stretches: Sequence[_Stretch]) -> str | None:
        """Why a disagreement says nothing: the text is hardly English, or too short."""
        words = [word for stretch in stretches for word in stretch.spoken]
        known = sum(len(word.word) for word in words if word.is_known) / sum(len(word.word) for word in words)
        if known < self._settings.min_known_fraction:
            return f"known_fraction={known:.3g} not in [{self._settings.min_known_fraction:g}, 1]"
        num_phones = sum(len(word.phones) for word in words)
        if num_phones < self._settings.min_judged_phones:
            return f"num_phones={num_phones} not in [{self._settings.min_judged_phones}, inf)"
        return None

    def _mismatch(self, confidence: float, found: Sequence[agreement.Agreement]) -> str:
        agreed, worst, unclaimed = agreement.features([match for match in found if len(match.cost_E)])
        return (
            f"transcript_match={confidence:.3g} not in [{self._settings.min_transcript_match:g}, 1] "
            f"(agreement={agreed:.2f}, cost of the worst stretches={worst:.2f}, unclaimed speech={unclaimed:.2f})"
        )


def _recognized(scores: Scores, stretch: _Stretch) -> _Recognized:
    """The phones of one stretch; those of the margins, which are the neighbours' words, are left out."""
    margin_s = 0.0 if stretch.cues[0].start_s is None else _CUE_MARGIN_S / 2
    low_s, high_s = stretch.start_s + margin_s, stretch.end_s - margin_s
    model, phones, times_s, noise_s = phone_model(), [], [], 0.0
    for phone, first, behind in spoken_phones(model, scores):
        name, begin_s, end_s = model.phones[phone], first / FRAMES_PER_S, behind / FRAMES_PER_S
        if name.startswith("+"):
            noise_s += end_s - begin_s
        elif name in agreement.NUMBER and low_s <= stretch.start_s + (begin_s + end_s) / 2 <= high_s:
            phones.append(agreement.NUMBER[name])
            times_s.append((stretch.start_s + begin_s, stretch.start_s + end_s))
    return _Recognized(phones, times_s, noise_s)


def _graph(spoken: Sequence[Spoken], num_frames: int) -> WordGraph | None:
    """All ways to say the words; None where they have more phones than anybody says in so many frames."""
    if sum(max(1, len(word.phones)) for word in spoken) * _MIN_PHONE_FRAMES > num_frames:
        return None
    number = {name: at for at, name in enumerate(phone_model().phones)}
    ways = [_ways(word) if word.is_known else [word.phones or (_SPEECH_NOISE,)] for word in spoken]
    return WordGraph.of(phone_model(), [[tuple(number[name] for name in way) for way in ones] for ones in ways])


def _ways(word: Spoken) -> list[tuple[str, ...]]:
    """The ways that the dictionary knows to say a word; of a number, the one that was found."""
    name, found = word.word.lower().replace("’", "'"), [word.phones]
    while name in dictionary() and (other := dictionary().get(f"{name}({len(found) + 1})")) is not None:
        found.append(tuple(other.split()))
    return found


def _forced(graph: WordGraph, scores: Scores, stretch: _Stretch) -> Times | None:
    """(start, end) of each word; None where the sound is too short for them."""
    spans = word_spans(graph, scores)
    if spans is None:
        return None
    times = [
        (stretch.start_s + first / FRAMES_PER_S, stretch.start_s + behind / FRAMES_PER_S) for _, first, behind in spans
    ]
    return _bridged([time if word.phones else None for word, time in zip(stretch.spoken, times, strict=True)], stretch)


def _phones(word: Spoken) -> tuple[str, ...]:
    """The phones that are expected of the word; of one in foreign letters, two syllables of any kind."""
    return word.phones or _ANY


def _within(cue: Cue, duration_s: float) -> tuple[float, float]:
    return min(cue.start_s or 0.0, duration_s), min(cue.end_s or 0.0, duration_s)


def _start_s(cues: Sequence[Cue]) -> float:
    return min(cue.start_s or 0.0 for cue in cues)


def _end_s(cues: Sequence[Cue]) -> float:
    return max(cue.end_s or 0.0 for cue in cues)


def _samples(sound: soundfile.SoundFile, stretch: _Stretch, speech: Spans, below_db: float) -> np.ndarray:
    """The samples of a stretch, int16: without their noise, where speech is less than so far above it."""
    first = max(0, round((stretch.start_s - _CONTEXT_S) * SOUND_RATE_HZ))
    start, count = (round(at_s * SOUND_RATE_HZ) for at_s in (stretch.start_s, stretch.end_s - stretch.start_s))
    sound.seek(first)
    read: np.ndarray = sound.read(start + count + round(_CONTEXT_S * SOUND_RATE_HZ) - first, dtype="int16")
    from_s, lasts_s = first / SOUND_RATE_HZ, len(read) / SOUND_RATE_HZ
    near = [(max(0.0, begin_s - from_s), min(lasts_s, end_s - from_s)) for begin_s, end_s in speech]
    near = [(begin_s, end_s) for begin_s, end_s in near if begin_s < end_s]
    ratio_db = signal_to_noise_db(plain := read.astype(np.float32) / 32768, near)
    if ratio_db is not None and ratio_db < below_db:
        read = np.clip(np.rint(wiener_filtered(plain, near) * 32768), -32768, 32767).astype(np.int16)
    return read[start - first : start - first + count]


def _no_speech(recognized: Sequence[_Recognized]) -> str | None:
    """Why the sound is none that words can be laid on."""
    num_phones = sum(len(part.phones) for part in recognized)
    if num_phones < _MIN_RECOGNIZED:
        return f"no speech: num_phones={num_phones} not in [{_MIN_RECOGNIZED}, inf)"
    speech_s = sum(end_s - start_s for part in recognized for start_s, end_s in part.times_s)
    fraction = speech_s / (speech_s + sum(part.noise_s for part in recognized))
    if fraction < _MIN_SPEECH_FRACTION:
        return f"no speech: speech_fraction={fraction:.3g} not in [{_MIN_SPEECH_FRACTION:g}, 1]"
    return None


def _scores(spoken: Sequence[Spoken], match: agreement.Agreement, confidence: float) -> list[float]:
    """Of each word: how well its own phones and those around it agree, times the confidence of the whole."""
    total = np.concatenate([[0.0], np.cumsum(match.cost_E)])
    scores, at = [], 0
    for word in spoken:
        stop = at + len(_phones(word))
        low, high = max(0, at - _AROUND), min(len(match.cost_E), stop + _AROUND)
        around = (total[high] - total[low]) / max(1, high - low)
        own = (total[stop] - total[at]) / len(_phones(word))
        score = 1 / (1 + np.exp(_SCORE_WEIGHT * (_OWN * own + (1 - _OWN) * around) - _SCORE_BIAS))
        scores.append(float(score) * confidence * (1.0 if word.is_known else _GUESSED))
        at = stop
    return scores


def _traced(stretch: _Stretch, sounds: _Recognized, match: agreement.Agreement) -> Times:
    """(start, end) of each word by the recognized phones that it was matched with."""
    bounds: list[tuple[float, float] | None] = []
    at = 0
    for word in stretch.spoken:
        own = [index for index in match.at_E[at : at + len(_phones(word))] if index >= 0]
        bounds.append((sounds.times_s[own[0]][0], sounds.times_s[own[-1]][1]) if own else None)
        at += len(_phones(word))
    return _bridged(bounds, stretch)


def _sounding(times: Sequence[tuple[float, float]], samples: np.ndarray, stretch: _Stretch) -> Times:
    """The times, less the silence that words begin with, at most half of a word; those of words without phones stay."""
    hops = samples[: len(samples) // _HOP_SAMPLES * _HOP_SAMPLES].astype(np.float32).reshape(-1, _HOP_SAMPLES)
    power = hops.var(axis=1)
    found = []
    for word, (start_s, end_s) in zip(stretch.spoken, times, strict=True):
        first, last = (round((at_s - stretch.start_s) * SOUND_RATE_HZ / _HOP_SAMPLES) for at_s in (start_s, end_s))
        own = power[max(0, first) : last]
        is_loud = own[: (len(own) + 1) // 2] > own.max(initial=0.0) * 10 ** (-_BELOW_PEAK_DB / 10)
        silent_s = int(is_loud.argmax()) * _HOP_SAMPLES / SOUND_RATE_HZ if word.phones and is_loud.any() else 0.0
        found.append((min(start_s + silent_s, end_s), end_s))
    return found


def _bridged(bounds: Sequence[tuple[float, float] | None], stretch: _Stretch) -> Times:
    """The bounds, with those that are missing side by side between their neighbours."""
    times: list[tuple[float, float]] = []
    for index, bound in enumerate(bounds):
        if bound is not None:
            times.append(bound)
            continue
        before_s = times[-1][1] if times else stretch.start_s
        left = next((later for later in range(index, len(bounds)) if bounds[later] is not None), len(bounds))
        after = bounds[left] if left < len(bounds) else None
        after_s = after[0] if after is not None else stretch.end_s
        times.append((before_s, before_s + max(0.0, after_s - before_s) / (left - index)))
    return times


def _spread(stretches: Sequence[_Stretch]) -> list[Word]:
    """The words of cues side by side over the cue's time, each as wide as it is long, with score 0: they are the
    source's times, not ours."""
    words: list[Word] = []
    for cue in (cue for stretch in stretches for cue in stretch.cues):
        if cue.start_s is None or cue.end_s is None:
            continue
        found = tokens(cue.text)
        edges = np.cumsum([0, *(len(token) + 1 for token in found)])
        at = cue.start_s + edges / max(1, edges[-1]) * (cue.end_s - cue.start_s)
        words += [
            {"word": token, "start_s": float(begin), "end_s": float(end), "score": 0.0}
            for token, begin, end in zip(found, at, at[1:], strict=False)
        ]
    return sorted(words, key=lambda word: (word["start_s"], word["end_s"]))
