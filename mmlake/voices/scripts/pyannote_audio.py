"""The script of the diarizer `pyannote`: runs in an environment that has pyannote.audio and no mmlake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

RATE_HZ = 16_000


def load(config: dict[str, Any]) -> Callable[[dict[str, Any], memoryview[float]], tuple[dict[str, Any], bytes]]:
    """A function from samples to turns; spans of speech are pyannote's own."""
    import os

    os.environ["HF_HUB_OFFLINE"] = "1"  # what is not in the folder is missing, and is not fetched in secret
    os.environ["PYANNOTE_METRICS_ENABLED"] = "0"
    import torch
    from pyannote.audio import Pipeline

    pipeline = Pipeline.from_pretrained(config["model"])
    pipeline.to(torch.device(config["device"]))

    def answer(request: dict[str, Any], samples: memoryview[float]) -> tuple[dict[str, Any], bytes]:
        waveform = torch.frombuffer(samples, dtype=torch.float32)[None]
        with torch.inference_mode():
            found = pipeline({"waveform": waveform, "sample_rate": RATE_HZ}, max_speakers=config["max_speakers"])
        annotation = getattr(found, "speaker_diarization", found)  # since 4.0 an object, before it an Annotation
        turns = [
            [float(span.start), float(span.end), str(speaker), None]
            for span, _, speaker in annotation.itertracks(yield_label=True)
        ]
        if config["device"] != "cpu":
            torch.cuda.empty_cache()
        return {"turns": turns}, b""

    return answer
