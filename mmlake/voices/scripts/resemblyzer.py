"""The script of the diarizer `resemblyzer`: runs in a process of its own, with mmlake's own Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def load(config: dict[str, Any]) -> Callable[[dict[str, Any], memoryview[float]], tuple[dict[str, Any], bytes]]:
    """A function from spans of speech and samples to turns."""
    from pathlib import Path

    import numpy as np

    from mmlake.voices import ge2e
    from mmlake.voices.diarize import diarize

    embed = ge2e.load(Path(config["weights"]))

    def answer(request: dict[str, Any], samples: memoryview[float]) -> tuple[dict[str, Any], bytes]:
        speech = [(start_s, end_s) for start_s, end_s in request["speech"]]
        sound = np.asarray(samples)
        turns = diarize(sound, speech, embed=embed, max_speakers=config["max_speakers"])
        return {"turns": [list(turn) for turn in turns]}, b""

    return answer
