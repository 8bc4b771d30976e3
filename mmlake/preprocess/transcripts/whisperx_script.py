"""The script of the recognizer `whisperx`: runs in an environment that has whisperx and no mmlake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

RATE_HZ = 16_000
_BATCH = 8


def load(config: dict[str, Any]) -> Callable[[dict[str, Any], memoryview[float]], tuple[dict[str, Any], bytes]]:
    """A function from spans of speech and samples to words. WhisperX's own voice detectors are not used: one needs
    torch.hub, the other weights that must be asked for."""
    import os
    from pathlib import Path

    os.environ["HF_HUB_OFFLINE"] = "1"
    import numpy as np
    import whisperx
    from faster_whisper import BatchedInferencePipeline, WhisperModel

    device, language = config["device"], config["language"]
    model = WhisperModel(config["model"], device=device, local_files_only=True)
    pipeline = BatchedInferencePipeline(model=model)
    folder = str(Path(config["model"]) / "align")
    aligner, about = whisperx.load_align_model(language_code=language, device=device, model_name=folder)

    def answer(request: dict[str, Any], samples: memoryview[float]) -> tuple[dict[str, Any], bytes]:
        sound = np.array(samples, np.float32)
        clips = [{"start": start_s, "end": end_s} for start_s, end_s in request["speech"]]
        if not clips:
            return {"words": []}, b""
        found, _ = pipeline.transcribe(
            sound, language=language, clip_timestamps=clips, batch_size=_BATCH, without_timestamps=True, temperature=0.0
        )
        segments = [{"start": one.start, "end": one.end, "text": one.text} for one in found]
        aligned = whisperx.align(segments, aligner, about, sound, device, return_char_alignments=False)
        words = [
            [word["word"], float(word["start"]), float(word["end"]), float(word.get("score", 0.0))]
            for segment in aligned["segments"]
            for word in segment.get("words", [])
            if "start" in word and "end" in word
        ]
        return {"words": words}, b""

    return answer
