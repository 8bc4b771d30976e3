"""What a loaded encoder is to the stage that runs it, and the classical ones, which have nothing to load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mmlake.embed import descriptors
from mmlake.embed.media import Media
from mmlake.embed.settings import EmbedSettings


class LoadedEncoder(Protocol):
    """An encoder on one device."""

    @property
    def revision(self) -> str:
        """Of the weights or of the code; goes into every row."""

    @property
    def unit(self) -> str:
        """What `cost` counts: a unit of mmlake.compute."""

    def prepare(self, media: Media) -> Any:
        """What inference needs of one item, made on the CPU, in threads. May raise UnreadableItem."""

    def cost(self, prepared: Any) -> int:
        """What the item takes of a batch's budget."""

    def infer(self, batch: list[Any]) -> list[np.ndarray]:
        """One vector per prepared item."""


@dataclass(frozen=True, slots=True)
class Classical:
    """A descriptor without weights: all the work is done in `prepare`, so it spreads over the decode threads."""

    describe: Callable[[Media], np.ndarray]
    revision: str = "1"  # counted up when a constant or a block of the descriptor changes
    unit: str = "items"

    def prepare(self, media: Media) -> np.ndarray:
        return self.describe(media)

    def cost(self, prepared: np.ndarray) -> int:
        return 1

    def infer(self, batch: list[np.ndarray]) -> list[np.ndarray]:
        return batch


def colour_gradient(settings: EmbedSettings, device: str) -> Classical:
    """Colour layout, colour histogram and gradient orientations of a picture."""
    return Classical(lambda media: descriptors.picture(media.pictures()[0]))


def frame_motion(settings: EmbedSettings, device: str) -> Classical:
    """The mean picture descriptor of the keyframes, and motion statistics."""
    return Classical(lambda media: descriptors.clip(media.pictures(), media.signals))


def mel_statistics(settings: EmbedSettings, device: str) -> Classical:
    """Statistics of log-mel bands and their modulation."""
    return Classical(lambda media: descriptors.sound(media.samples()))
