"""Word times of known words: forced alignment of a transcript with its sound (pocketsphinx, US English).

Words that the aligner's dictionary lacks, or a transcript that does not fit the sound, give no word times; nothing is
guessed, except that cue times of a subtitle spread over the cue's words where the cue cannot be aligned (their score is
null either way).
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import numpy as np

from mmlake.preprocess.settings import SOUND_RATE_HZ, PreprocessSettings
from mmlake.preprocess.subtitles import Cue

if TYPE_CHECKING:
    import soundfile
    from pocketsphinx import Decoder

_FRAMES_PER_S = 100  # of the aligner
_CUE_MARGIN_S = 0.2  # subtitles appear a little after speech and vanish a little before its end
_MIN_SPEECH_S = 0.1
_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")

Word = dict[str, object]  # word, start_s, end_s, score


class Aligner:
    """Aligns transcripts one after the other with one loaded dictionary; each result is independent of what came
    before."""

    def __init__(self, settings: PreprocessSettings) -> None:
        self._settings = settings
        self._decoder: Decoder | None = None

    def __reduce__(self) -> tuple[type[Aligner], tuple[PreprocessSettings]]:
        """For another process: the settings, from which the dictionary is loaded there."""
        return Aligner, (self._settings,)

    def words(self, flac: bytes, cues: list[Cue]) -> list[Word]:
        """The words of the cues with their times; empty where they cannot be had."""
        import soundfile

        with soundfile.SoundFile(io.BytesIO(flac)) as sound:
            duration_s = sound.frames / sound.samplerate
            if len(cues) == 1 and cues[0].start_s is None:
                return self._stretch(sound, cues[0].text, 0.0, duration_s) or []
            words: list[Word] = []
            for cue in cues:
                start_s, end_s = min(cue.start_s or 0.0, duration_s), min(cue.end_s or 0.0, duration_s)
                if end_s - start_s <= 0:
                    continue  # the subtitles run on after the sound has ended
                found = self._stretch(
                    sound, cue.text, max(0.0, start_s - _CUE_MARGIN_S), min(duration_s, end_s + _CUE_MARGIN_S)
                )
                words += found or _spread(cue.text, start_s, end_s)
            return sorted(words, key=lambda word: (word["start_s"], word["end_s"]))

    def _stretch(self, sound: soundfile.SoundFile, text: str, start_s: float, end_s: float) -> list[Word] | None:
        """Words of one stretch of sound, or None where it is too long, too short, or does not align."""
        tokens = _TOKEN.findall(text)
        if not tokens or not _MIN_SPEECH_S <= end_s - start_s <= self._settings.max_align_s:
            return None
        sound.seek(round(start_s * SOUND_RATE_HZ))
        samples = sound.read(round((end_s - start_s) * SOUND_RATE_HZ), dtype="int16")
        return self._align(samples, tokens, start_s)

    def _align(self, samples: np.ndarray, tokens: list[str], start_s: float) -> list[Word] | None:
        decoder = self._ready()
        spellings = [token.lower().replace("’", "'") for token in tokens]
        if any(not spelling.isascii() or decoder.lookup_word(spelling) is None for spelling in spellings):
            return None
        noise = np.random.default_rng(self._settings.seed).normal(0.0, self._settings.align_noise_floor, len(samples))
        audible = np.clip(np.rint(samples + noise), -32768, 32767).astype("<i2")
        try:
            decoder.reinit_feat()  # forget the running means of the item before
            decoder.set_align_text(" ".join(spellings))
            decoder.start_utt()
            decoder.process_raw(audible.tobytes(), full_utt=True)
            decoder.end_utt()
        except RuntimeError:
            self._decoder = None  # its state is unknown after a failure
            return None
        if decoder.hyp() is None:
            return None
        spoken = [segment for segment in decoder.seg() if not segment.word.startswith(("<", "[", "++"))]
        if [segment.word.partition("(")[0] for segment in spoken] != spellings:
            return None
        times = ((segment.start_frame / _FRAMES_PER_S, (segment.end_frame + 1) / _FRAMES_PER_S) for segment in spoken)
        return [
            {"word": token, "start_s": start_s + begin, "end_s": start_s + end, "score": None}
            for token, (begin, end) in zip(tokens, times, strict=True)
        ]

    def _ready(self) -> Decoder:
        if self._decoder is None:
            from pocketsphinx import Config, Decoder

            self._decoder = Decoder(
                Config(lm=None, samprate=float(SOUND_RATE_HZ), bestpath=False, cmn="batch", loglevel="FATAL")
            )
        return self._decoder


def _spread(text: str, start_s: float, end_s: float) -> list[Word]:
    """The cue's words side by side over its time, each as wide as it is long."""
    tokens = _TOKEN.findall(text)
    edges = np.cumsum([0, *(len(token) + 1 for token in tokens)])
    at = start_s + edges / max(1, edges[-1]) * (end_s - start_s)
    return [
        {"word": token, "start_s": float(begin), "end_s": float(end), "score": None}
        for token, begin, end in zip(tokens, at, at[1:], strict=False)
    ]
