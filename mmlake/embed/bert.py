"""A BERT's states from its files by torch's own layers: `import transformers` takes as long again as torch itself, in
every process that embeds a text or searches for one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mmlake import checked_json
from mmlake.errors import ModelMissing

if TYPE_CHECKING:
    from torch import Tensor, nn

# what torch's layers compute as well, by the keys of config.json
_COMPUTED = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
_NAMES = {  # torch's -> those of the published weights
    "self_attn.out_proj": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "linear1": "intermediate.dense",
    "linear2": "output.dense",
    "norm2": "output.LayerNorm",
}


def load_bert(folder: Path, device: str) -> Callable[[Tensor, Tensor], Tensor]:
    """(token ids of shape (N, L) int64, mask (N, L) bool: which are tokens) -> last states (N, L, D) float32, on the
    device; states outside of the mask mean nothing.

    Post-norm encoder with learned positions and one segment (Devlin et al. 2019), as `transformers.BertModel` computes
    it. folder: config.json and model.safetensors. Raises ModelMissing for a model of another kind.
    """
    import torch
    from safetensors.torch import load_file
    from torch import nn

    config = checked_json.loads((folder / "config.json").read_bytes())
    if others := [key for key, value in _COMPUTED.items() if config.get(key, value) != value]:
        raise ModelMissing(
            f"{folder / 'config.json'} has {others[0]} {config[others[0]]!r}, not {_COMPUTED[others[0]]!r}; "
            "install the package's weights again"
        )
    weights = {name.removeprefix("bert."): one for name, one in load_file(folder / "model.safetensors", device).items()}
    with torch.device("meta"):  # no random numbers are drawn for what is replaced at once
        layer = nn.TransformerEncoderLayer(
            config["hidden_size"],
            config["num_attention_heads"],
            config["intermediate_size"],
            activation="gelu",
            layer_norm_eps=config["layer_norm_eps"],
            batch_first=True,
        )
        layers = nn.TransformerEncoder(layer, config["num_hidden_layers"], enable_nested_tensor=False)
    layers.load_state_dict(_of_torch(weights, config["num_hidden_layers"]), assign=True)
    words, places, segments = (
        weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
    )
    norm, bias = (weights[f"embeddings.LayerNorm.{kind}"] for kind in ("weight", "bias"))
    eps, size = config["layer_norm_eps"], (config["hidden_size"],)

    def states(ids: Tensor, mask: Tensor) -> Tensor:
        first = words[ids] + places[: ids.shape[1]] + segments[0]
        padding = None if mask.all() else ~mask  # torch's check of one imports sympy
        return _encoded(layers, nn.functional.layer_norm(first, size, norm, bias, eps), padding)

    layers.eval()
    return states


def _of_torch(weights: dict[str, Tensor], num_layers: int) -> dict[str, Tensor]:
    import torch

    found: dict[str, Tensor] = {}
    for layer in range(num_layers):
        own, theirs = f"layers.{layer}", f"encoder.layer.{layer}"
        for kind in ("weight", "bias"):
            parts = [weights[f"{theirs}.attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
            found[f"{own}.self_attn.in_proj_{kind}"] = torch.cat(parts)
            found |= {f"{own}.{name}.{kind}": weights[f"{theirs}.{named}.{kind}"] for name, named in _NAMES.items()}
    return found


def _encoded(layers: nn.TransformerEncoder, first: Tensor, padding: Tensor | None) -> Tensor:
    """Without torch's fused path, whose attention takes a third longer on processors than the plain one."""
    from torch.backends import mha

    fused = mha.get_fastpath_enabled()
    mha.set_fastpath_enabled(False)
    try:
        encoded: Tensor = layers(first, src_key_padding_mask=padding)
    finally:
        mha.set_fastpath_enabled(fused)
    return encoded
