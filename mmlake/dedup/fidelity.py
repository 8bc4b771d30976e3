"""What makes one copy truer than another, of each modality, in the order in which it counts."""

from __future__ import annotations

from mmlake.dedup.audio import fingerprints as audio_fingerprints
from mmlake.dedup.criteria import Criterion
from mmlake.dedup.image import fingerprints as image_fingerprints
from mmlake.dedup.text import fingerprints as text_fingerprints
from mmlake.dedup.video import fingerprints as video_fingerprints

SURVIVORS: dict[str, tuple[Criterion, ...]] = {
    "text": text_fingerprints.FIDELITY,
    "image": image_fingerprints.FIDELITY,
    "video": video_fingerprints.FIDELITY,
    "audio": audio_fingerprints.FIDELITY,
}


def criteria_of(modality: str) -> tuple[Criterion, ...]:
    """The criteria of the modality, the first that decides first."""
    return SURVIVORS[modality]
