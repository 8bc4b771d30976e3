"""A BERT encoder (Devlin et al. 2018) of the weights and settings that lie in a folder.

transformers has one that does the same in the same order, so its numbers are the same to the bit; importing that takes
4 s of CPU, which each process paid that embeds or searches a text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmlake.errors import SettingsError

_SUPPORTED = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What of a `config.json` says how the weights are used."""

    num_layers: int
    num_heads: int
    epsilon: float  # of the layer norms

    @classmethod
    def read(cls, path: Path) -> Shape:
        """That of the file. Raises SettingsError for an encoder of another kind."""
        config = json.loads(path.read_text(encoding="utf-8"))
        for name, expected in _SUPPORTED.items():
            if (found := config.get(name, expected)) != expected:
                raise SettingsError(f"{path}: {name} is {found!r}, expected {expected!r}; name the folder of a BERT")
        return cls(
            num_layers=config["num_hidden_layers"],
            num_heads=config["num_attention_heads"],
            epsilon=config["layer_norm_eps"],
        )


class Bert:
    """The encoder on one device."""

    # B batch, T tokens, H heads, D numbers of a state

    def __init__(self, folder: Path, *, device: str) -> None:
        """folder: with `config.json` and `model.safetensors`."""
        import torch
        from safetensors.torch import load_file

        self._torch, self._shape = torch, Shape.read(folder / "config.json")
        self._weights: dict[str, Any] = load_file(folder / "model.safetensors", device=device)

    def states(self, ids_BT: Any, mask_BT: Any) -> Any:
        """The last states, BTD. mask_BT: false where a row has ended."""
        embedding, weights = self._torch.nn.functional.embedding, self._weights
        num_tokens = ids_BT.shape[1]
        states = embedding(ids_BT, weights["embeddings.word_embeddings.weight"])
        states = states + weights["embeddings.token_type_embeddings.weight"][0]
        states = states + weights["embeddings.position_embeddings.weight"][:num_tokens]
        states = self._norm(states, "embeddings.LayerNorm")
        # without a mask the attention takes a faster way
        mask = None if bool(mask_BT.all()) else mask_BT[:, None, None, :].expand(-1, 1, num_tokens, -1)
        for number in range(self._shape.num_layers):
            states = self._layer(states, mask, f"encoder.layer.{number}")
        return states

    def _layer(self, states: Any, mask: Any, name: str) -> Any:
        attended = self._linear(
            self._attention(states, mask, f"{name}.attention.self"), f"{name}.attention.output.dense"
        )
        states = self._norm(attended + states, f"{name}.attention.output.LayerNorm")
        wide = self._torch.nn.functional.gelu(self._linear(states, f"{name}.intermediate.dense"))
        return self._norm(self._linear(wide, f"{name}.output.dense") + states, f"{name}.output.LayerNorm")

    def _attention(self, states: Any, mask: Any, name: str) -> Any:
        size = states.shape[-1] // self._shape.num_heads
        query, key, value = (
            self._linear(states, f"{name}.{part}").view(*states.shape[:-1], -1, size).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        attended_BHTD = self._torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, scale=size**-0.5
        )
        return attended_BHTD.transpose(1, 2).reshape(states.shape).contiguous()

    def _linear(self, states: Any, name: str) -> Any:
        return self._torch.nn.functional.linear(states, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _norm(self, states: Any, name: str) -> Any:
        return self._torch.nn.functional.layer_norm(
            states,
            states.shape[-1:],
            self._weights[f"{name}.weight"],
            self._weights[f"{name}.bias"],
            self._shape.epsilon,
        )
