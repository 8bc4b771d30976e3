"""Whisper by the library transformers: speech to words with times, from weights in a local folder.

Enters: mono 16 kHz samples and where somebody speaks in them. Leaves: words. Times are those of the decoder's attention
(dynamic time warping over the heads that the model's own generation configuration names).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmlake.errors import ModelMissing, SettingsError
from mmlake.preprocess.settings import SOUND_RATE_HZ, PreprocessSettings
from mmlake.preprocess.transcripts.subtitles import Cue

_FILES = ("config.json", "generation_config.json", "preprocessor_config.json", "model.safetensors")
_CHUNK_S = 28.0  # of the 30 s that the model sees
_EDGE_S = 0.2  # around speech: the first sound of a word is soft

Spans = Sequence[tuple[float, float]]


def load(settings: PreprocessSettings) -> Callable[[np.ndarray, Spans | None], list[Cue]]:
    """A function from samples and spans of speech in seconds (None: anywhere) to words, in order of time. Raises
    ModelMissing, SettingsError."""
    folder = Path(settings.recognizer_model)
    if missing := [name for name in _FILES if not settings.recognizer_model or not (folder / name).is_file()]:
        raise ModelMissing(
            f"recognizer 'whisper-transformers': no {', '.join(missing)} in "
            f"preprocess.recognizer_model={settings.recognizer_model!r}; download a Whisper model of transformers there"
        )
    import transformers

    library: Any = transformers  # its annotations do not cover what its own documentation does
    processor = library.AutoProcessor.from_pretrained(folder, local_files_only=True)
    model = library.WhisperForConditionalGeneration.from_pretrained(folder, local_files_only=True, use_safetensors=True)
    if not getattr(model.generation_config, "alignment_heads", None):
        raise SettingsError(
            f"preprocess.recognizer_model={settings.recognizer_model!r}: generation_config.json names no "
            "alignment_heads, without which words have no times; take that file from the model's publisher"
        )
    recognize = library.pipeline(
        "automatic-speech-recognition",
        model=model.eval(),
        tokenizer=processor.tokenizer,
        feature_extractor=processor.feature_extractor,
        device=settings.recognizer_device,
    )
    # the same sound gives the same words: no sampling, and no second try at a higher temperature
    options: dict[str, object] = {"do_sample": False}
    if model.generation_config.is_multilingual:
        options |= {"language": settings.recognizer_language, "task": "transcribe"}

    def transcribe(samples: np.ndarray, speech: Spans | None) -> list[Cue]:
        words = []
        for start_s, end_s in chunks(speech, len(samples) / SOUND_RATE_HZ):
            part = samples[round(start_s * SOUND_RATE_HZ) : round(end_s * SOUND_RATE_HZ)]
            sound = {"raw": np.ascontiguousarray(part, np.float32), "sampling_rate": SOUND_RATE_HZ}
            found = recognize(sound, return_timestamps="word", generate_kwargs=options)
            words += [word for one in found["chunks"] if (word := _word(one, start_s, end_s)) is not None]
        return words

    return transcribe


def chunks(speech: Spans | None, duration_s: float) -> list[tuple[float, float]]:
    """Stretches of at most 28 s that hold all speech, in order: spans are joined as long as they fit, and longer ones
    are cut to equal parts."""
    found: list[tuple[float, float]] = []
    for start_s, end_s in [(0.0, duration_s)] if speech is None else speech:
        first_s, last_s = max(0.0, start_s - _EDGE_S), min(duration_s, end_s + _EDGE_S)
        if found and last_s - found[-1][0] <= _CHUNK_S:
            found[-1] = (found[-1][0], last_s)
            continue
        first_s = max(first_s, found[-1][1]) if found else first_s
        num = max(1, int(np.ceil((last_s - first_s) / _CHUNK_S)))
        edges_s = np.linspace(first_s, last_s, num + 1).tolist()
        found += [(begin_s, stop_s) for begin_s, stop_s in zip(edges_s, edges_s[1:], strict=False) if stop_s > begin_s]
    return found


def _word(found: dict[str, object], start_s: float, end_s: float) -> Cue | None:
    """One word of a chunk on the clock of the samples; None where it has no letter or no time."""
    text, times = str(found["text"]).strip(), found["timestamp"]
    if not text or not isinstance(times, tuple) or times[0] is None:
        return None
    begin_s = min(start_s + float(times[0]), end_s)
    stop_s = end_s if times[1] is None else min(start_s + float(times[1]), end_s)
    return Cue(text, begin_s, max(begin_s, stop_s))
