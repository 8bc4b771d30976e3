"""The Whisper encoder and CLAP through transformers, on windows of a recording."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mmlake.embed.media import RATE_HZ, Media, evenly, resampled
from mmlake.embed.settings import EmbedSettings, ModelSource
from mmlake.embed.weights import inference, loaded, model, padded, revision_of, source_of
from mmlake.optional import need


class WhisperEncoder:
    """Mean encoder state over the frames that hold sound, of up to `audio_windows` windows."""

    unit, reads = "samples", "sound"

    def __init__(self, source: ModelSource, *, device: str, settings: EmbedSettings) -> None:
        need("transformers", extra="all", purpose="encoder 'whisper-encoder'")
        import torch
        from transformers import WhisperFeatureExtractor, WhisperModel

        self._torch, self._device = torch, device
        self._inference = partial(inference, device, settings.precision)
        self._extract = loaded("whisper-encoder", source, WhisperFeatureExtractor.from_pretrained)
        self._model = model("whisper-encoder", source, WhisperModel.from_pretrained).get_encoder().to(device).eval()
        self._frames = self._model.config.max_source_positions
        self.revision = revision_of(source, settings.precision)
        self.decode = partial(_decoded, rate_hz=RATE_HZ, length=self._extract.n_samples, count=settings.audio_windows)

    def prepare(self, decoded: list[np.ndarray]) -> list[tuple[np.ndarray, int]]:
        """(log-mel features, encoder frames with sound) per window."""
        length, parts = self._extract.n_samples, decoded
        features = [
            self._extract(part, sampling_rate=RATE_HZ, return_tensors="np")["input_features"][0] for part in parts
        ]
        return [
            (feature, max(1, -(-len(part) * self._frames // length)))
            for feature, part in zip(features, parts, strict=True)
        ]

    def cost(self, prepared: list[tuple[np.ndarray, int]]) -> int:
        """Samples of all windows, which are always padded to full length."""
        return len(prepared) * int(self._extract.n_samples)

    def infer(self, batch: list[Any]) -> list[np.ndarray]:
        """Unit vectors."""
        features = np.stack([feature for parts in batch for feature, _ in parts])
        with self._inference():
            states = (
                self._model(self._torch.from_numpy(features).to(self._device)).last_hidden_state.float().cpu().numpy()
            )
        out, at = [], 0
        for parts in batch:
            total = np.sum(
                [states[at + k, :frames].sum(axis=0, dtype=np.float64) for k, (_, frames) in enumerate(parts)], axis=0
            )
            out.append(total / max(float(np.linalg.norm(total)), 1e-12))
            at += len(parts)
        return out


class Clap:
    """Sounds and texts in one space."""

    unit, reads = "samples", "sound"

    def __init__(self, source: ModelSource, *, device: str, settings: EmbedSettings) -> None:
        need("transformers", extra="all", purpose="encoder 'clap'")
        import torch
        from transformers import AutoTokenizer, ClapFeatureExtractor, ClapModel

        self._torch, self._device = torch, device
        self._inference = partial(inference, device, settings.precision)
        self._extract = loaded("clap", source, ClapFeatureExtractor.from_pretrained)
        self._tokenizer = loaded("clap", source, AutoTokenizer.from_pretrained)
        self._model: Any = model("clap", source, ClapModel.from_pretrained).eval()  # type: ignore[no-untyped-call]
        self._model = self._model.to(device)
        self.revision = revision_of(source, settings.precision)
        # windows no longer than the model's input: the extractor would else cut at a random place
        self.decode = partial(
            _decoded,
            rate_hz=self._extract.sampling_rate,
            length=self._extract.nb_max_samples,
            count=settings.audio_windows,
        )

    def prepare(self, decoded: str | list[np.ndarray]) -> Any:
        """Mel features per window, or the token ids of a text."""
        if isinstance(decoded, str):
            return self._tokenizer(
                decoded, truncation=True, max_length=self._model.config.text_config.max_position_embeddings - 2
            )["input_ids"]
        rate_hz = self._extract.sampling_rate
        return np.concatenate(
            [
                self._extract(
                    part, sampling_rate=rate_hz, truncation="rand_trunc", padding="repeatpad", return_tensors="np"
                )["input_features"]
                for part in decoded
            ]
        )

    def cost(self, prepared: Any) -> int:
        """Samples of all windows at full length."""
        return 1_000 if isinstance(prepared, list) else len(prepared) * self._extract.nb_max_samples

    def infer(self, batch: list[Any]) -> list[np.ndarray]:
        """Unit vectors; the mean over windows."""
        texts = [at for at, one in enumerate(batch) if isinstance(one, list)]
        sounds = [at for at, one in enumerate(batch) if not isinstance(one, list)]
        totals: dict[int, np.ndarray] = {}
        if texts:
            ids = padded([batch[at] for at in texts], self._tokenizer.pad_token_id, self._device)
            totals |= zip(texts, self._features(self._model.get_text_features, **ids), strict=True)
        if sounds:
            values = self._torch.from_numpy(
                np.concatenate([batch[at] for at in sounds]).astype(np.float32, copy=False)
            ).to(self._device)
            is_longer = self._torch.zeros((len(values), 1), dtype=self._torch.bool, device=self._device)
            rows = self._features(self._model.get_audio_features, input_features=values, is_longer=is_longer)
            ends = np.cumsum([len(batch[at]) for at in sounds])
            parts = np.split(rows, ends[:-1])
            totals |= {at: part.sum(axis=0) for at, part in zip(sounds, parts, strict=True)}
        return [totals[at] / max(float(np.linalg.norm(totals[at])), 1e-12) for at in range(len(batch))]

    def _features(self, tower: Callable[..., Any], **given: Any) -> np.ndarray:
        """What that tower makes of it, float64 (N, D)."""
        with self._inference():
            features = tower(**given)
        found: np.ndarray = getattr(features, "pooler_output", features).float().cpu().numpy().astype(np.float64)
        return found


def _decoded(media: Media, *, rate_hz: int, length: int, count: int) -> str | list[np.ndarray]:
    """The text, or windows of the samples at that rate."""
    if media.modality == "text":
        return media.text()
    return windows(resampled(media.samples(), RATE_HZ, rate_hz), length, count)


def windows(samples: np.ndarray, length: int, count: int) -> list[np.ndarray]:
    """At most `count` stretches of at most `length` samples, evenly chosen, in order; the last one may be short."""
    return [samples[at : at + length] for at in evenly(list(range(0, max(1, len(samples)), length)), count)]


def load_whisper(settings: EmbedSettings, device: str) -> WhisperEncoder:
    """A Whisper model from embed.models.whisper-encoder."""
    return WhisperEncoder(source_of("whisper-encoder", settings), device=device, settings=settings)


def load_clap(settings: EmbedSettings, device: str) -> Clap:
    """A CLAP model from embed.models.clap."""
    return Clap(source_of("clap", settings), device=device, settings=settings)
