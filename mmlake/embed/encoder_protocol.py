"""What a loaded encoder is to the stage that runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from mmlake.embed.media import Media


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
