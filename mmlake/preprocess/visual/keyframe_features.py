"""How far one picture is from another: the rows by which keyframes are kept.

Add yours here: a row in KEYFRAME_FEATURES whose `load` gives a function from candidates to vectors.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mmlake.errors import ModelMissing, SettingsError
from mmlake.preprocess.settings import PreprocessSettings

# what a candidate is seen by: its JPEG, its shot vector
Picture = tuple[bytes, np.ndarray]
# C candidates, D features: float32 (C, D) of which the mean absolute difference, or the Euclidean distance, is taken
Features = Callable[[Sequence[Picture]], np.ndarray]
_BATCH = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureRow:
    """One row of KEYFRAME_FEATURES."""

    name: str
    what: str
    load: Callable[[PreprocessSettings], Features] | None  # None: grey levels of the shot vector


def _load_dinov2(settings: PreprocessSettings) -> Features:
    """Unit class tokens of DINOv2 from a local directory. Raises ModelMissing."""
    folder = Path(settings.keyframe_model)
    if not settings.keyframe_model or not (folder / "config.json").is_file():
        raise ModelMissing(
            f"keyframe feature 'dinov2': no config.json in preprocess.keyframe_model={settings.keyframe_model!r}; "
            "save or download a DINOv2 model there"
        )
    import torch
    from transformers import Dinov2Model

    model: Any = Dinov2Model.from_pretrained(folder, local_files_only=True, use_safetensors=True)
    model.eval()
    side_px, mean, deviation = _plan(folder, int(model.config.image_size))

    def features(pictures: Sequence[Picture]) -> np.ndarray:
        found = []
        for at in range(0, len(pictures), _BATCH):
            pixels = np.stack([_pixels(jpeg, side_px, mean, deviation) for jpeg, _ in pictures[at : at + _BATCH]])
            with torch.inference_mode():
                found.append(model(pixel_values=torch.from_numpy(pixels)).last_hidden_state[:, 0].float().numpy())
        tokens = np.concatenate(found)
        units: np.ndarray = tokens / np.maximum(np.linalg.norm(tokens, axis=1, keepdims=True), 1e-12)
        return units

    return features


def _plan(folder: Path, side_px: int) -> tuple[int, np.ndarray, np.ndarray]:
    """(side, mean, deviation) as the preprocessor has them; ImageNet's where it says nothing."""
    path = folder / "preprocessor_config.json"
    plan = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    mean = plan.get("image_mean", (0.485, 0.456, 0.406))
    deviation = plan.get("image_std", (0.229, 0.224, 0.225))
    return side_px, np.asarray(mean, np.float32), np.asarray(deviation, np.float32)


def _pixels(jpeg: bytes, side_px: int, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """float32 (3, side, side): the whole picture, so that nothing at its sides is left out."""
    from PIL import Image

    with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as picture:
        small = picture.convert("RGB").resize((side_px, side_px), Image.Resampling.BICUBIC)
    values = (np.asarray(small, np.float32) / 255 - mean) / deviation
    return np.ascontiguousarray(values.transpose(2, 0, 1))


_ROWS = (
    FeatureRow(
        name="classical", what="48 x 27 grey levels and 16 x 9 of each chroma: mean absolute difference", load=None
    ),
    FeatureRow(
        name="dinov2",
        what="unit class tokens of DINOv2 from a local directory: Euclidean distance, 0..2",
        load=_load_dinov2,
    ),
)
KEYFRAME_FEATURES: dict[str, FeatureRow] = {row.name: row for row in _ROWS}


def keyframe_features(settings: PreprocessSettings) -> Features | None:
    """What the settings choose, None for grey levels. Raises SettingsError, ModelMissing."""
    if settings.keyframe_feature not in KEYFRAME_FEATURES:
        raise SettingsError(
            f"preprocess.keyframe_feature={settings.keyframe_feature!r} is not one of {sorted(KEYFRAME_FEATURES)}; "
            "choose one"
        )
    load = KEYFRAME_FEATURES[settings.keyframe_feature].load
    return None if load is None else load(settings)
