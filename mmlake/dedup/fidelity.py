"""What makes one copy truer than another, of each modality, in the order in which it counts."""

from __future__ import annotations

from mmlake.dedup import audio, text, video
from mmlake.dedup.survivors import CLOSENESS, Criterion, length_of

SURVIVORS: dict[str, tuple[Criterion, ...]] = {
    "text": text.FIDELITY,
    "image": (length_of("width_px"), CLOSENESS),
    "video": video.FIDELITY,
    "audio": audio.FIDELITY,
}


def criteria_of(modality: str) -> tuple[Criterion, ...]:
    """The criteria of the modality, the first that decides first."""
    return SURVIVORS[modality]
