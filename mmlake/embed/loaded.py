"""What a loaded encoder is to the stage that runs it, and the classical ones, which have nothing to load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mmlake.embed import classical
from mmlake.embed.media import Media
from mmlake.embed.settings import EmbedSettings


class LoadedEncoder(Protocol):
    """An encoder on one device."""

    @property
    def revision(self) -> str:
        """Of the weights or of the code; goes into every row."""

    @property
    def reads(self) -> str:
        """What it reads of pictures, films and recordings: one of mmlake.embed.media.READS. Of a text, the text."""

    @property
    def decode(self) -> Callable[[Media], Any]:
        """The kernel that makes of an item's bytes what `prepare` takes; picklable, without the model. May raise
        UnreadableItem."""

    @property
    def unit(self) -> str:
        """What `cost` counts: a unit of mmlake.compute."""

    def prepare(self, decoded: Any) -> Any:
        """What inference needs of one decoded item, made on the CPU, in threads. May raise UnreadableItem."""

    def cost(self, prepared: Any) -> int:
        """What the item takes of a batch's budget."""

    def infer(self, batch: list[Any]) -> list[np.ndarray]:
        """One vector per prepared item."""


@dataclass(frozen=True, slots=True)
class Classical:
    """A descriptor without weights: all the work is done in `decode`."""

    decode: Callable[[Media], np.ndarray]
    reads: str
    revision: str = "1"  # counted up when a constant or a block of the descriptor changes
    unit: str = "items"

    def prepare(self, decoded: np.ndarray) -> np.ndarray:
        return decoded

    def cost(self, prepared: np.ndarray) -> int:
        return 1

    def infer(self, batch: list[np.ndarray]) -> list[np.ndarray]:
        return batch


def _picture(media: Media) -> np.ndarray:
    return classical.picture(media.pictures()[0])


def _clip(media: Media) -> np.ndarray:
    return classical.clip(media.pictures(), media.signals)


def _sound(media: Media) -> np.ndarray:
    return classical.sound(media.samples())


def colour_gradient(settings: EmbedSettings, device: str) -> Classical:
    """Colour layout, colour histogram and gradient orientations of a picture."""
    return Classical(_picture, "pictures")


def frame_motion(settings: EmbedSettings, device: str) -> Classical:
    """The mean picture descriptor of the keyframes, and motion statistics."""
    return Classical(_clip, "pictures")


def mel_statistics(settings: EmbedSettings, device: str) -> Classical:
    """Statistics of log-mel bands and their modulation."""
    return Classical(_sound, "sound")
