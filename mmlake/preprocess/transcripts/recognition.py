"""Speech recognizers: the rows that can write a transcript where the source gave none.

Add yours here: a row in RECOGNIZERS whose `load` returns a function from mono 16 kHz samples, and where somebody speaks
in them, to words. Long recordings come in pieces.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

import numpy as np

from mmlake.border import Failure
from mmlake.environments import python_of
from mmlake.errors import ModelMissing, SettingsError, UnreadableItem
from mmlake.optional import need
from mmlake.preprocess.settings import SOUND_RATE_HZ, PreprocessSettings
from mmlake.preprocess.transcripts import whisper
from mmlake.preprocess.transcripts.pieces import Spans, pieces
from mmlake.preprocess.transcripts.subtitles import Cue
from mmlake.speech.denoise import denoiser_of
from mmlake.workers.script import Request, Script, run_script

Words = list[Cue]
# float32 mono 16 kHz in [-1, 1], shape (num_samples,); spans of speech in seconds, None where no detector ran
Transcribe = Callable[[np.ndarray, Spans | None], Words]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recognizer:
    """One row of RECOGNIZERS."""

    name: str
    what: str
    licence: str  # SPDX id of the library
    load: Callable[[PreprocessSettings], Transcribe] | None  # None: no transcript is written


def _load_faster_whisper(settings: PreprocessSettings) -> Transcribe:
    """Whisper on CTranslate2, with its own voice detector and word times. Raises MissingExtra, ModelMissing."""
    library = need("faster_whisper", extra="asr", purpose="recognizer 'faster-whisper'")
    if not (Path(settings.recognizer_model) / "model.bin").is_file():
        raise ModelMissing(
            "recognizer 'faster-whisper': no model.bin in "
            f"preprocess.recognizer_model={settings.recognizer_model!r}; convert or download a CTranslate2 "
            "Whisper model there"
        )
    model = library.WhisperModel(settings.recognizer_model, device=settings.recognizer_device, local_files_only=True)

    def transcribe(samples: np.ndarray, speech: Spans | None) -> Words:
        # temperature 0 and no carried context: the same sound gives the same words, and one loop cannot poison what
        # follows
        segments, _ = model.transcribe(
            samples, word_timestamps=True, vad_filter=True, temperature=0.0, condition_on_previous_text=False
        )
        return [
            Cue(word.word.strip(), float(word.start), float(word.end), float(word.probability))
            for segment in segments
            for word in segment.words or ()
            if word.word.strip()
        ]

    return transcribe


def _load_whisperx(settings: PreprocessSettings) -> Transcribe:
    """WhisperX in its own environment. Raises MissingExtra, ModelMissing."""
    folder = Path(settings.recognizer_model)
    if not (folder / "model.bin").is_file():
        raise ModelMissing(
            f"recognizer 'whisperx': no model.bin in preprocess.recognizer_model={settings.recognizer_model!r}; "
            "convert or download a CTranslate2 Whisper model there, and the aligner's weights to its folder `align`"
        )
    script = Script(
        what="recognizer 'whisperx'",
        python=python_of("whisperx", purpose="recognizer 'whisperx'", folder=settings.environments or None),
        path=Path(__file__).parent / "whisperx_script.py",
        config={
            "model": str(folder.resolve()),
            "device": settings.recognizer_device,
            "language": settings.recognizer_language,
        },
    )

    def transcribe(samples: np.ndarray, speech: Spans | None) -> Words:
        duration_s = len(samples) / SOUND_RATE_HZ
        spans = [(0.0, duration_s)] if speech is None else speech
        (answer,) = run_script(script, [Request({"speech": [list(span) for span in spans]}, samples, duration_s)])
        if isinstance(answer, Failure):
            raise UnreadableItem(answer.code, answer.reason)
        return [
            Cue(str(word), float(start), float(end), float(score)) for word, start, end, score in answer.said["words"]
        ]

    return transcribe


_ROWS = (
    Recognizer(name="none", what="no transcript is written where the source gave none", licence="NONE", load=None),
    Recognizer(
        name="faster-whisper",
        what="Whisper on CTranslate2 from a local directory",
        licence="MIT",
        load=_load_faster_whisper,
    ),
    Recognizer(
        name="whisperx",
        what="WhisperX in its own environment: Whisper on spans of speech, words by forced alignment",
        licence="BSD-2-Clause",
        load=_load_whisperx,
    ),
    Recognizer(
        name="whisper-transformers",
        what="Whisper by transformers from a local directory: words on spans of speech",
        licence="Apache-2.0",
        load=whisper.load,
    ),
)
RECOGNIZERS: dict[str, Recognizer] = {row.name: row for row in _ROWS}


class SpeechRecognizer:
    """The recognizer that the settings choose, loaded when first used."""

    def __init__(self, settings: PreprocessSettings) -> None:
        if settings.recognizer not in RECOGNIZERS:
            raise SettingsError(
                f"preprocess.recognizer={settings.recognizer!r} is not one of {sorted(RECOGNIZERS)}; choose one of them"
            )
        self._settings, self._row = settings, RECOGNIZERS[settings.recognizer]
        self._transcribe: Transcribe | None = None
        self._denoise = denoiser_of(
            settings.denoiser,
            below_db=settings.denoise_below_db,
            model=settings.denoiser_model,
            environments=settings.environments,
        )

    def columns(self, sound: bytes | IO[bytes], speech: Spans | None = None) -> dict[str, object]:
        """transcript, transcript_source and cues; empty where no recognizer is chosen. Raises MissingExtra,
        ModelMissing.

        sound: FLAC. speech: where somebody speaks, in seconds and in order; None where no voice detector ran.
        """
        if self._row.load is None:
            return {}
        import soundfile

        if self._transcribe is None:
            self._transcribe = self._row.load(self._settings)
        samples, _ = soundfile.read(io.BytesIO(sound) if isinstance(sound, bytes) else sound, dtype="float32")
        words = _in_pieces(self._transcribe, self._denoise(samples, speech), speech)
        source = f"asr:{self._row.name}@{Path(self._settings.recognizer_model).name or 'unnamed'}"
        return {
            "transcript": " ".join(word.text for word in words),
            "transcript_source": source,
            "cues": [asdict(word) for word in words],
        }


def _in_pieces(transcribe: Transcribe, samples: np.ndarray, speech: Spans | None) -> Words:
    """The words of all pieces, their times put back."""
    words = []
    for first, last in pieces(samples, speech):
        start_s, end_s = first / SOUND_RATE_HZ, last / SOUND_RATE_HZ
        own = None
        if speech is not None:
            clipped = ((max(one[0], start_s) - start_s, min(one[1], end_s) - start_s) for one in speech)
            own = [(begin, stop) for begin, stop in clipped if begin < stop]
        words += [
            replace(word, start_s=word.start_s + start_s, end_s=word.end_s + start_s)
            for word in transcribe(samples[first:last], own)
            if word.start_s is not None and word.end_s is not None
        ]
    return words
