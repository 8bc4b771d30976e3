"""Sentence encoders of BERT's architecture: mean of the token states over all windows of a text. all-MiniLM-L6-v2 is in
a package, for English; others, for other languages, are named by the settings.

sentence-transformers is not used: it takes 7 s to import, and this is all that it would do here.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mmlake.embed.bert import load_bert
from mmlake.embed.media import Media
from mmlake.embed.settings import EmbedSettings, ModelSource
from mmlake.embed.weights import folder_of, inference, minilm_folder, revision_of, source_of
from mmlake.errors import UnreadableItem
from mmlake.optional import need

_UNKNOWN = "[UNK]"
_OTHERS = "sentence-bert"
_CHARS_PER_TOKEN = 16  # more than any language needs on average; bounds what is tokenized of a book


class SentenceBert:
    """The encoder on one device. A text is up to `text_windows` windows of `text_window_tokens`; the rest is not
    read."""

    unit, reads = "tokens", "text"

    def __init__(
        self, name: str, source: ModelSource, folder: Path, *, device: str, settings: EmbedSettings, max_spelled: float
    ) -> None:
        """folder: tokenizer.json, config.json and model.safetensors. max_spelled: share of the letters of a text, 0..1,
        that may be spelled out."""
        need("tokenizers", extra="all", purpose=f"encoder {name!r}")
        import tokenizers
        import torch

        self._torch, self._device = torch, device
        self._inference = partial(inference, device, settings.precision)
        self._content = settings.text_window_tokens - 2  # [CLS] and [SEP] take two
        self._windows = settings.text_windows
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._begin, self._end = (_special(self._tokenizer, names) for names in (("[CLS]", "<s>"), ("[SEP]", "</s>")))
        self._letters, self._is_spelled = _letters_of(self._tokenizer)
        self._unknown = self._tokenizer.token_to_id(_UNKNOWN)
        self._name, self._max_spelled = name, max_spelled
        self._states = load_bert(folder, device)
        self.revision = revision_of(source, settings.precision)
        self.decode = partial(_beginning, num_chars=self._content * self._windows * _CHARS_PER_TOKEN)

    def prepare(self, decoded: str) -> list[list[int]]:
        """Token ids per window. Raises UnreadableItem 5003 where there are none, and of a text in a script that the
        vocabulary has letters of but no words: spelled out so, all texts are alike."""
        encoding = self._tokenizer.encode(decoded, add_special_tokens=False)
        ids = encoding.ids[: self._content * self._windows]
        if not ids:
            raise UnreadableItem(5003, "num_tokens=0 not in [1, inf)")
        if (spelled := self._spelled_fraction(decoded, encoding)) > self._max_spelled:
            raise UnreadableItem(
                5003,
                f"spelled_fraction={spelled:.2f} of the letters not in [0, {self._max_spelled:.2f}]: {self._name} has "
                "no words of their script",
            )
        # even windows: 300 tokens are 2 x 150, not 254 and a padded 46
        parts = np.array_split(ids, -(-len(ids) // self._content))
        return [[self._begin, *part.tolist(), self._end] for part in parts]

    def spelled_fraction(self, text: str) -> float:
        """Share of the letters of the text, 0..1, that the vocabulary spells out one by one or does not know."""
        return self._spelled_fraction(text, self._tokenizer.encode(text, add_special_tokens=False))

    def _spelled_fraction(self, text: str, encoding: Any) -> float:
        ids = np.array(encoding.ids, np.int64)
        # a word that is not known is one token, however long; signs such as emoji are no letters
        unknown = (text[slice(*encoding.offsets[at])] for at in np.flatnonzero(ids == self._unknown).tolist())
        num_unknown = sum(sign.isalpha() for word in unknown for sign in word)
        num_letters = int(self._letters[ids].sum()) + num_unknown
        return (int(self._is_spelled[ids].sum()) + num_unknown) / max(1, num_letters)

    def cost(self, prepared: list[list[int]]) -> int:
        """Tokens of all windows, the first of which is the longest."""
        return len(prepared) * len(prepared[0])

    def infer(self, batch: list[Any]) -> list[np.ndarray]:
        """Unit vectors of 384 numbers."""
        torch = self._torch
        rows = [window for windows in batch for window in windows]
        longest = max(len(row) for row in rows)
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        mask = torch.arange(longest)[None] < torch.tensor([len(row) for row in rows])[:, None]
        with self._inference():
            ids, mask = ids.to(self._device), mask.to(self._device)
            sums = (self._states(ids, mask) * mask[:, :, None]).sum(dim=1).float().cpu().numpy()
        bounds = np.cumsum([0, *(len(windows) for windows in batch)])
        pooled = [sums[low:high].sum(axis=0) for low, high in zip(bounds[:-1], bounds[1:], strict=True)]
        return [one / np.linalg.norm(one) for one in pooled]


def _letters_of(tokenizer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Of each token how many letters it has, and whether it is a single letter beyond ASCII."""
    vocabulary = tokenizer.get_vocab()
    letters = np.zeros(max(vocabulary.values()) + 1, np.int64)
    is_spelled = np.zeros(len(letters), bool)
    for token, at in vocabulary.items():
        piece = token.removeprefix("##")
        letters[at] = len(piece) if piece.isalpha() else 0
        is_spelled[at] = letters[at] == 1 and not piece.isascii()
    return letters, is_spelled


def _beginning(media: Media, *, num_chars: int) -> str:
    return media.text()[:num_chars]


def _special(tokenizer: Any, names: tuple[str, str]) -> int:
    """The id of the first of these tokens that the vocabulary has."""
    found = (tokenizer.token_to_id(name) for name in names)
    return int(next((at for at in found if at is not None), 0))


def load(settings: EmbedSettings, device: str) -> SentenceBert:
    """The text encoder from its package's folder; nothing is downloaded."""
    folder, most = minilm_folder(), settings.max_spelled_fraction
    source = ModelSource(path=str(folder))
    return SentenceBert("minilm-l6", source, folder, device=device, settings=settings, max_spelled=most)


def load_sentence_bert(settings: EmbedSettings, device: str) -> SentenceBert:
    """A sentence encoder from embed.models.sentence-bert. Raises ModelMissing, also for another architecture."""
    source = source_of(_OTHERS, settings)
    folder = folder_of(_OTHERS, source, ("tokenizer.json", "config.json", "model.safetensors"))
    return SentenceBert(_OTHERS, source, folder, device=device, settings=settings, max_spelled=1.0)
