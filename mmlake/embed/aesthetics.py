"""How much people would like a picture: heads that were trained on votes, over vectors of CLIP.

Enters: unit vectors. Leaves: scores, of LAION's heads about 1 to 10. The weights are of LAION (Improved Aesthetic
Predictor, 2022, and the linear one before it, for CLIP ViT-L/14 of OpenAI): linear layers behind each other, with
dropout between them, which does nothing here. They come as pickles, which are never opened; a file of safetensors is
what is read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmlake.errors import ModelMissing, SettingsError

AESTHETIC = "aesthetic_score"
SETTING = "quality.aesthetic_head"
_LAYER = re.compile(r"(?:layers\.(\d+)\.)?(weight|bias)")
# places of the linear layers -> whether a ReLU stands between them: in a sequence, with a dropout behind some of them
_FORMS = {(0,): False, (0, 2, 4, 6, 7): False, (0, 3, 6, 9, 11): True}
_CONVERSION = (
    '`python -c "import sys, torch; from safetensors.torch import save_file; save_file(torch.load(sys.argv[1], '
    'weights_only=True), sys.argv[2])" HEAD.pth HEAD.safetensors`'
)


@dataclass(frozen=True, slots=True)
class AestheticHead:
    """Layers that make a score of a vector."""

    layers: tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...]  # (weights of shape (out, in), bias (out,))
    bends: bool  # whether a ReLU stands between the layers
    revision: str  # `sha256:<12 hex>` of the file

    @classmethod
    def of(cls, path: str) -> AestheticHead:
        """The head in a file of safetensors. Raises ModelMissing where there is none, SettingsError where the file is
        of something else."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            data = Path(path).read_bytes()
        except (FileNotFoundError, IsADirectoryError) as error:
            raise ModelMissing(
                f"{SETTING} is {path!r}, which is no file; correct the path, or leave it empty for no score"
            ) from error
        try:
            tensors = load(data)
        except SafetensorError as error:
            raise SettingsError(
                f"{SETTING} is {path!r}, which is no file of safetensors; a head that comes as a pickle is converted "
                f"by {_CONVERSION}"
            ) from error
        layers, bends = _layers(path, tensors)
        return cls(layers, bends, f"sha256:{hashlib.sha256(data).hexdigest()[:12]}")

    @property
    def dimension(self) -> int:
        """Of the vectors that it takes."""
        return int(self.layers[0][0].shape[1])

    def scores(self, vectors: NDArray[Any]) -> NDArray[np.float64]:
        """The score of each vector. vectors: (N, D) of unit norm. Raises SettingsError where they have another D."""
        if vectors.shape[1] != self.dimension:
            raise SettingsError(
                f"{SETTING} takes vectors of {self.dimension} numbers, embed.models.clip gives {vectors.shape[1]}; "
                "set embed.models.clip to the model that the head was trained on (LAION's: "
                "openai/clip-vit-large-patch14)"
            )
        made = np.asarray(vectors, np.float64)
        for number, (weights, bias) in enumerate(self.layers):
            made = made @ weights.T + bias
            if self.bends and number < len(self.layers) - 1:
                made = np.maximum(made, 0)
        return made[:, 0]


def _layers(
    path: str, tensors: Mapping[str, NDArray[Any]]
) -> tuple[tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...], bool]:
    """(weights and bias of each layer, whether a ReLU stands between them)."""
    found: dict[int, dict[str, NDArray[np.float64]]] = {}
    for name, tensor in tensors.items():
        if (match := _LAYER.fullmatch(name)) is not None:
            found.setdefault(int(match[1] or 0), {})[match[2]] = tensor.astype(np.float64)
    places = tuple(sorted(found))
    layers = tuple((found[at]["weight"], found[at]["bias"]) for at in places if len(found[at]) == 2)
    widths = [(weights.shape, bias.shape) for weights, bias in layers]
    fits = all(len(of_weights) == 2 and of_weights[:1] == of_bias for of_weights, of_bias in widths) and all(
        one[0][0] == other[0][1] for one, other in zip(widths, widths[1:], strict=False)
    )
    if len(found) != len(layers) or places not in _FORMS or not fits or layers[-1][0].shape[0] != 1:
        raise SettingsError(
            f"{SETTING} is {path!r}, which holds {sorted(tensors)[:6]}; expected `weight` and `bias` of one linear "
            "layer, or `layers.N.weight` and `layers.N.bias` of LAION's predictor (N of "
            f"{' or '.join(str(one) for one in _FORMS if len(one) > 1)}), the last with one output"
        )
    return layers, _FORMS[places]
