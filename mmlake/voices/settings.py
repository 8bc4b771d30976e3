"""Settings of the diarizer: a section of its own, so that a change decodes nothing again."""

from __future__ import annotations

from dataclasses import dataclass

from mmlake.errors import SettingsError


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeakerSettings:
    """Who is found to speak, and what finding it may take."""

    diarizer: str = "none"
    # row of DIARIZERS; the weights of `resemblyzer` and `pyannote` are not part of mmlake, so the default is to name
    # nobody and to say so
    diarizer_model: str = ""
    # pyannote: folder of a pipeline with its config.yaml and weights
    diarizer_device: str = "cpu"
    # "cpu" or "cuda"
    environments: str = ""
    # where `mmlake environments` made them; default: the user's cache
    max_speakers: int = 10
    # of one recording
    memory_bytes: int = 8 << 30
    # that the diarizer's process may take beyond what it has when it is ready
    item_s: float = 120.0
    # deadline of one recording, whatever its length
    item_s_per_s: float = 4.0
    # of the deadline, for each second of sound on top
    batch_s: float = 7_200.0
    # of sound that one process is given: whatever leaks has an end

    def __post_init__(self) -> None:
        """Refuse what no run could use."""
        for name in ("max_speakers", "memory_bytes", "item_s", "batch_s"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"speakers.{name}={getattr(self, name)} must be above 0; correct the setting")
        if self.item_s_per_s < 0:
            raise SettingsError(f"speakers.item_s_per_s={self.item_s_per_s} must be at least 0; correct the setting")
