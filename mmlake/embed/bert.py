"""A BERT's states from its files in torch's functions alone. In every process that embeds a text or searches for one,
`import transformers` takes as long again as torch itself, and torch's own layers import sympy for texts of two lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmlake import checked_json
from mmlake.errors import ModelMissing

if TYPE_CHECKING:
    from torch import Tensor

# what is computed here, by the keys of config.json
_COMPUTED = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}


def load_bert(folder: Path, device: str) -> Callable[[Tensor, Tensor], Tensor]:
    """(token ids of shape (N, L) int64, mask (N, L) bool: which are tokens) -> last states (N, L, D) float32, on the
    device; states outside of the mask mean nothing.

    Post-norm encoder with learned positions and one segment (Devlin et al. 2019), as `transformers.BertModel` computes
    it. folder: config.json and model.safetensors. Raises ModelMissing for a model of another kind.
    """
    from safetensors.torch import load_file
    from torch.nn.functional import layer_norm

    config = checked_json.loads((folder / "config.json").read_bytes())
    if others := [key for key, value in _COMPUTED.items() if config.get(key, value) != value]:
        raise ModelMissing(
            f"{folder / 'config.json'} has {others[0]} {config[others[0]]!r}, not {_COMPUTED[others[0]]!r}; "
            "install the package's weights again"
        )
    weights = {name.removeprefix("bert."): one for name, one in load_file(folder / "model.safetensors", device).items()}
    layers = [_Layer.of(weights, number, config) for number in range(config["num_hidden_layers"])]
    words, places, segments = (
        weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
    )
    norm, bias = (weights[f"embeddings.LayerNorm.{kind}"] for kind in ("weight", "bias"))
    eps, size = config["layer_norm_eps"], (config["hidden_size"],)

    def states(ids: Tensor, mask: Tensor) -> Tensor:
        found = layer_norm(words[ids] + places[: ids.shape[1]] + segments[0], size, norm, bias, eps)
        seen = None if mask.all() else mask[:, None, None, :]
        for layer in layers:
            found = layer.states(found, seen)
        return found

    return states


@dataclass(frozen=True, slots=True)
class _Layer:
    """Attention and a feed-forward network, each added to what went in and normalized; pairs are (weight, bias)."""

    attended: tuple[Tensor, Tensor]  # queries, keys and values, one below the other
    joined: tuple[Tensor, Tensor]
    inner: tuple[Tensor, Tensor]
    outer: tuple[Tensor, Tensor]
    norms: tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]
    num_heads: int
    eps: float

    @classmethod
    def of(cls, weights: Mapping[str, Tensor], number: int, config: Mapping[str, Any]) -> _Layer:
        import torch

        def pair(name: str) -> tuple[Tensor, Tensor]:
            return weights[f"encoder.layer.{number}.{name}.weight"], weights[f"encoder.layer.{number}.{name}.bias"]

        parts = [pair(f"attention.self.{name}") for name in ("query", "key", "value")]
        return cls(
            (torch.cat([weight for weight, _ in parts]), torch.cat([bias for _, bias in parts])),
            pair("attention.output.dense"),
            pair("intermediate.dense"),
            pair("output.dense"),
            (pair("attention.output.LayerNorm"), pair("output.LayerNorm")),
            config["num_attention_heads"],
            config["layer_norm_eps"],
        )

    def states(self, given: Tensor, seen: Tensor | None) -> Tensor:
        """given: (N, L, D). seen: (N, 1, 1, L) bool, which tokens are attended to; None: all."""
        from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

        size = given.shape[2:]
        heads = linear(given, *self.attended).view(*given.shape[:2], 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(heads[0], heads[1], heads[2], attn_mask=seen)
        found = layer_norm(
            given + linear(mixed.transpose(1, 2).flatten(2), *self.joined), size, *self.norms[0], self.eps
        )
        return layer_norm(found + linear(gelu(linear(found, *self.inner)), *self.outer), size, *self.norms[1], self.eps)
