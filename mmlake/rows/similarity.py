"""How well an image goes with the texts of its sample, by a model that sees both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TypeVar

import numpy as np

from mmlake.border import IN_PROCESS, Failure, Runner
from mmlake.compute import Executor
from mmlake.embed import ENCODERS, EmbedSettings
from mmlake.embed.embedding import Running
from mmlake.embed.media import Media
from mmlake.errors import ModelMissing

K = TypeVar("K")
_ENCODERS = ("clip", "siglip")  # those with pictures and texts in one space; the first that has weights is taken


def encoder_of(settings: EmbedSettings) -> str:
    """The encoder of pictures and texts that the settings have weights for. Raises ModelMissing where there is none."""
    name = next((name for name in _ENCODERS if name in settings.models), None)
    if name is None:
        raise ModelMissing(
            "filter 'clip_score' needs a model: set embed.models.clip (or siglip) to a directory made by "
            "save_pretrained or to a model id of the hub"
        )
    return name


class Similarity:
    """A loaded model. Raises ModelMissing where the settings name no weights for one."""

    def __init__(self, settings: EmbedSettings, executor: Executor, runner: Runner = IN_PROCESS) -> None:
        self._running = Running.start(ENCODERS[encoder_of(settings)], executor, settings)
        self._runner = runner
        self.encoder, self.revision = self._running.name, self._running.model.revision

    def scores(self, pictures: Sequence[tuple[bytes, Sequence[str]]]) -> list[float | None | Failure]:
        """For each picture its highest cosine with one of the texts; None without texts; why not where it cannot be
        encoded."""
        texts = sorted({text for _, sample_texts in pictures for text in sample_texts})
        of_text = self._vectors({text: Media("text", "text", words=text) for text in texts})
        of_picture = self._vectors(
            {
                at: Media("picture", "image", encoded=(data,))
                for at, (data, sample_texts) in enumerate(pictures)
                if sample_texts
            }
        )
        return [
            _best(of_picture[at], [of_text[text] for text in sample_texts]) if sample_texts else None
            for at, (_, sample_texts) in enumerate(pictures)
        ]

    def _vectors(self, media: Mapping[K, Media]) -> dict[K, np.ndarray | Failure]:
        found = self._running.vectors(media, opened=lambda key: nullcontext(media[key]), runner=self._runner)
        return {key: one if isinstance(one, Failure) else np.asarray(one) for key, one in found}


def _best(picture: np.ndarray | Failure, texts: list[np.ndarray | Failure]) -> float | None | Failure:
    if isinstance(picture, Failure):
        return picture
    return max((float(picture @ text) for text in texts if isinstance(text, np.ndarray)), default=None)
