"""How well an image goes with the texts of its sample, by a model that sees both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mmlake.compute import Executor
from mmlake.embed import ENCODERS, EmbedSettings
from mmlake.embed.media import Media
from mmlake.errors import MmlakeError, ModelMissing
from mmlake.records import canonical_json

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

    def __init__(self, settings: EmbedSettings, executor: Executor) -> None:
        name = encoder_of(settings)
        source = settings.models[name]
        self._executor, self._settings, self._row = executor, settings, ENCODERS[name]
        self._key = canonical_json(["rows", name, source.path, source.revision])
        self._model = executor.model(self._key, self._load)
        self.encoder, self.revision = name, self._model.revision

    def _load(self, device: str):  # type: ignore[no-untyped-def]  # mmlake.embed.loaded.LoadedEncoder
        return self._row.loader(self._settings, device)

    def scores(self, pictures: Sequence[tuple[bytes, Sequence[str]]]) -> list[float | None | Exception]:
        """For each picture its highest cosine with one of the texts; None without texts; the exception where it
        cannot be encoded."""
        texts = sorted({text for _, sample_texts in pictures for text in sample_texts})
        media = [_text(text) for text in texts] + [_picture(data) for data, sample_texts in pictures if sample_texts]
        vectors = iter(list(self._vectors(media)))
        of_text = {text: next(vectors) for text in texts}
        return [
            _best(next(vectors), [of_text[text] for text in sample_texts]) if sample_texts else None
            for _, sample_texts in pictures
        ]

    def _vectors(self, media: list[Media]) -> Iterator[np.ndarray | Exception]:
        outcomes = self._executor.map_batches(
            media,
            model_key=self._key,
            load=self._load,
            prepare=self._model.prepare,
            infer=lambda one, batch: one.infer(batch),
            cost=self._model.cost,
            unit=self._model.unit,
        )
        for outcome in outcomes:
            if isinstance(outcome.error, MmlakeError):
                raise outcome.error
            yield outcome.error if outcome.value is None and outcome.error is not None else np.asarray(outcome.value)


def _best(picture: np.ndarray | Exception, texts: list[np.ndarray | Exception]) -> float | None | Exception:
    if isinstance(picture, Exception):
        return picture
    return max((float(picture @ text) for text in texts if isinstance(text, np.ndarray)), default=None)


def _text(text: str) -> Media:
    return Media("text", "text", lambda: text, list, lambda: np.empty(0, np.float32))


def _picture(data: bytes) -> Media:
    return Media("picture", "image", str, lambda: [data], lambda: np.empty(0, np.float32))
