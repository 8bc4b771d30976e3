"""CLIP, SigLIP and DINOv2 through transformers, with our own preprocessing from preprocessor_config.json (Pillow and
numpy, no torchvision)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from mmlake.embed.media import Media, upright_rgb
from mmlake.embed.settings import EmbedSettings, ModelSource
from mmlake.embed.weights import inference, loaded, model, padded, preprocessor, revision_of, source_of
from mmlake.optional import need

_DRAFT_PX = 512  # the largest input of the usual checkpoints is 448 px


class VisionEncoder:
    """Pictures, keyframes (their mean) and, where the model has a text tower, texts."""

    unit, reads = "pixels", "pictures"

    def __init__(self, name: str, source: ModelSource, *, device: str, settings: EmbedSettings) -> None:
        need("transformers", extra="all", purpose=f"encoder {name!r}")
        import torch
        from transformers import AutoModel

        self._torch, self._device, self._name, self._source = torch, device, name, source
        self._inference = partial(inference, device, settings.precision)
        self._plan = preprocessor(name, source)
        self._model = model(name, source, AutoModel.from_pretrained).to(device).eval()
        self._has_text = hasattr(self._model, "get_text_features")
        self._tokenizer: Any = loaded(name, source, _tokenizer) if self._has_text else None
        self.revision = revision_of(source, settings.precision)
        self.decode = partial(_decoded, plan=self._plan)

    def prepare(self, decoded: str | np.ndarray) -> Any:
        """float32 (pictures, 3, height, width) as it is, or the token ids of a text."""
        if isinstance(decoded, str):
            limit = self._model.config.text_config.max_position_embeddings
            # SigLIP was trained on texts padded to the full length and without a mask
            padding = {"padding": "max_length"} if self._model.config.model_type.startswith("siglip") else {}
            return self._tokenizer(decoded, truncation=True, max_length=limit, **padding)["input_ids"]
        return decoded

    def cost(self, prepared: Any) -> int:
        """Pixels; a token of a text counts as a patch of 16x16."""
        return (
            len(prepared) * 256
            if isinstance(prepared, list)
            else prepared.shape[0] * prepared.shape[2] * prepared.shape[3]
        )

    def infer(self, batch: list[Any]) -> list[np.ndarray]:
        """Unit vectors. A video's is the mean of its keyframes' unit vectors."""
        texts = [at for at, one in enumerate(batch) if isinstance(one, list)]
        pictures = [at for at, one in enumerate(batch) if not isinstance(one, list)]
        out: dict[int, np.ndarray] = dict(zip(texts, self._of_texts([batch[at] for at in texts]), strict=True))
        if pictures:
            stacked = np.concatenate([batch[at] for at in pictures])
            with self._inference():
                vectors = _units(self._features(self._torch.from_numpy(stacked).to(self._device)))
            bounds = np.cumsum([0, *(len(batch[at]) for at in pictures)])
            out |= {
                at: _units(vectors[low:high].mean(axis=0))
                for at, low, high in zip(pictures, bounds[:-1], bounds[1:], strict=True)
            }
        return [out[at] for at in range(len(batch))]

    def _features(self, pixels_NCHW: Any) -> np.ndarray:
        if self._has_text:
            features = self._model.get_image_features(pixel_values=pixels_NCHW)
            features = getattr(features, "pooler_output", features)  # transformers 5 wraps the tensor
        else:
            features = self._model(pixel_values=pixels_NCHW).last_hidden_state[:, 0]  # DINOv2: the class token
        found: np.ndarray = features.float().cpu().numpy()
        return found

    def _of_texts(self, texts: list[list[int]]) -> list[np.ndarray]:
        if not texts:
            return []
        with self._inference():
            features = self._model.get_text_features(**padded(texts, self._tokenizer.pad_token_id, self._device))
        return list(_units(getattr(features, "pooler_output", features).float().cpu().numpy()))


def _decoded(media: Media, *, plan: Mapping[str, Any]) -> str | np.ndarray:
    """The text, or float32 (pictures, 3, height, width)."""
    if media.modality == "text":
        return media.text()
    return np.stack([pixels(upright_rgb(data, draft_px=_DRAFT_PX), plan) for data in media.pictures()])


def pixels(picture: Any, plan: Mapping[str, Any]) -> np.ndarray:
    """float32 (3, height, width) of a PIL picture as preprocessor_config.json says: resize, crop, rescale,
    normalize."""
    size: Any = plan.get("size") or 224
    resample = int(plan.get("resample", 3))
    if plan.get("do_resize", True):
        shortest = size if isinstance(size, int) else size.get("shortest_edge")
        if shortest:
            scale = shortest / min(picture.size)
            target = (max(shortest, round(picture.width * scale)), max(shortest, round(picture.height * scale)))
            # a ruler-shaped picture must not grow into gigabytes before its middle is cut out
            if max(target) > 32 * shortest:
                target = (min(target[0], 32 * shortest), min(target[1], 32 * shortest))
        else:
            target = (int(size["width"]), int(size["height"]))
        picture = picture.resize(target, resample)
    if plan.get("do_center_crop", False):
        crop = plan.get("crop_size") or size
        width, height = (crop, crop) if isinstance(crop, int) else (int(crop["width"]), int(crop["height"]))
        left, top = (picture.width - width) // 2, (picture.height - height) // 2
        picture = picture.crop((left, top, left + width, top + height))
    values: Any = np.asarray(picture, dtype=np.float32)
    if plan.get("do_rescale", True):
        values = values * np.float32(plan.get("rescale_factor", 1 / 255))
    if plan.get("do_normalize", True):
        values = (values - np.asarray(plan["image_mean"], np.float32)) / np.asarray(plan["image_std"], np.float32)
    return np.ascontiguousarray(values.transpose(2, 0, 1))


def _units(vectors: np.ndarray) -> np.ndarray:
    units: np.ndarray = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    return units


def _tokenizer(path: str, **arguments: Any) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(path, **arguments)


def load_clip(settings: EmbedSettings, device: str) -> VisionEncoder:
    """A CLIP model from embed.models.clip."""
    return VisionEncoder("clip", source_of("clip", settings), device=device, settings=settings)


def load_siglip(settings: EmbedSettings, device: str) -> VisionEncoder:
    """A SigLIP model from embed.models.siglip."""
    return VisionEncoder("siglip", source_of("siglip", settings), device=device, settings=settings)


def load_dinov2(settings: EmbedSettings, device: str) -> VisionEncoder:
    """A DINOv2 model from embed.models.dinov2; pictures only."""
    return VisionEncoder("dinov2", source_of("dinov2", settings), device=device, settings=settings)
