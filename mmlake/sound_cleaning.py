"""The noise taken out of the 16 kHz sound of samples: the denoiser that the settings of cuts name, for who cuts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from mmlake.cuts import Cleaner
from mmlake.cuts.settings import CutSettings
from mmlake.errors import SettingsError
from mmlake.speech import VOICE_DETECTORS
from mmlake.speech.denoise import denoise_file, denoiser_of

_FORMAT = 1  # counted up when equal settings give other sound


def cleaner_of(settings: CutSettings, *, voice_detector: str, environments: str) -> Cleaner | None:
    """The cleaner; None where no denoiser is named. Its library is loaded when first needed. Raises SettingsError."""
    if settings.denoiser == "none":
        return None
    find_speech = VOICE_DETECTORS[voice_detector]
    if find_speech is None:
        raise SettingsError(
            f"cuts.denoiser={settings.denoiser!r} has to know where somebody speaks, and preprocess.voice_detector is "
            f"{voice_detector!r}; set it to 'silero', or the denoiser to 'none'"
        )
    denoise = denoiser_of(
        settings.denoiser,
        below_db=settings.denoise_below_db,
        model=settings.denoiser_model,
        environments=environments,
    )
    facts = {
        "denoiser": settings.denoiser,
        "denoiser_model": Path(settings.denoiser_model).name,
        "below_db": settings.denoise_below_db,
        "voice_detector": voice_detector,
        "cleaning": _FORMAT,
    }
    return Cleaner(clean=partial(denoise_file, denoise=denoise, find_speech=find_speech), facts=facts)
