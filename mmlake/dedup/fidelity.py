"""What makes one copy truer than another, of each modality, in the order in which it counts."""

from __future__ import annotations

from mmlake.dedup import audio, image, text, video
from mmlake.dedup.criteria import Criterion

SURVIVORS: dict[str, tuple[Criterion, ...]] = {
    "text": text.FIDELITY,
    "image": image.FIDELITY,
    "video": video.FIDELITY,
    "audio": audio.FIDELITY,
}


def criteria_of(modality: str) -> tuple[Criterion, ...]:
    """The criteria of the modality, the first that decides first."""
    return SURVIVORS[modality]
