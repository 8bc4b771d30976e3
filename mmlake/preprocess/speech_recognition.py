"""Speech recognizers: the rows that can write a transcript where the source gave none.

Add yours here: a row in RECOGNIZERS whose `load` returns a function from mono 16 kHz samples to words.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mmlake.errors import ModelMissing, SettingsError
from mmlake.optional import need
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.subtitles import Cue

Words = list[Cue]
Transcribe = Callable[[np.ndarray], Words]  # float32 mono 16 kHz in [-1, 1], shape (num_samples,)


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

    def transcribe(samples: np.ndarray) -> Words:
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


_ROWS = (
    Recognizer(name="none", what="no transcript is written where the source gave none", licence="NONE", load=None),
    Recognizer(
        name="faster-whisper",
        what="Whisper on CTranslate2 from a local directory",
        licence="MIT",
        load=_load_faster_whisper,
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

    def columns(self, flac: bytes) -> dict[str, object]:
        """transcript, transcript_source and cues; empty where no recognizer is chosen. Raises MissingExtra,
        ModelMissing."""
        if self._row.load is None:
            return {}
        import soundfile

        if self._transcribe is None:
            self._transcribe = self._row.load(self._settings)
        samples, _ = soundfile.read(io.BytesIO(flac), dtype="float32")
        words = self._transcribe(samples)
        source = f"asr:{self._row.name}@{Path(self._settings.recognizer_model).name or 'unnamed'}"
        return {
            "transcript": " ".join(word.text for word in words),
            "transcript_source": source,
            "cues": [asdict(word) for word in words],
        }
