"""What a user may set about embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from mmlake.errors import SettingsError
from mmlake.records import LATER

PRECISIONS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSource:
    """Where the weights of a model encoder lie."""

    path: str
    # a local directory in the layout of `save_pretrained`, or a model id of the hub
    revision: str = ""
    # branch, tag or commit of the hub; empty means the hub's main branch, or the SHA-256 of a local directory's weights


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedSettings:
    """How items become vectors. JSON-able."""

    encoders: Mapping[str, str] = field(default_factory=dict)
    # modality -> encoder, where it shall not be the modality's default (`mmlake/modalities.py`)
    models: Mapping[str, ModelSource] = field(default_factory=dict)
    # encoder name -> weights; needed by sentence-bert, clip, siglip, dinov2, whisper-encoder and clap, which have no
    # weights in a package
    text_window_tokens: int = 256
    # per window of minilm-l6, special tokens included; it was trained on no more
    text_windows: int = 4
    # windows per text whose token states are averaged; what follows the last one (about 750 words) is not read
    max_spelled_fraction: float = 1 / 3
    # of the letters of a text that minilm-l6 spells out, one token each, or does not know: up to .17 in languages that
    # are written in Latin letters, .42 and more in others, of which pages on different subjects have cosines of .95
    keyframes_per_s: float = 2.0
    # of a film, evenly chosen among those that it has: by its length, so that 30 s are read by more than
    # 3 s. Keyframes lie where the picture has changed, so a still clip has fewer
    max_keyframes: int = 64
    # whatever its length; a film that could not be cut is one unit
    audio_windows: int = 4
    # 30 s windows (Whisper) or 10 s windows (CLAP) per recording, evenly chosen
    precision: str = field(default="float32", metadata=LATER)
    # in which models multiply: float32, bfloat16 or float16. Halves are faster where the device multiplies them itself
    # (CUDA; CPUs with AVX512-BF16 or AMX), and move the cosine of two vectors in the third digit

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise SettingsError(
                f"embed.precision={self.precision!r} is not one of {', '.join(PRECISIONS)}; correct the setting"
            )
        if self.keyframes_per_s <= 0 or self.max_keyframes < 1:
            raise SettingsError(
                f"embed.keyframes_per_s={self.keyframes_per_s} must be above 0 and embed.max_keyframes="
                f"{self.max_keyframes} at least 1; correct the setting"
            )
        # a settings file gives plain tables
        object.__setattr__(
            self,
            "models",
            {
                name: ModelSource(**source) if isinstance(source, dict) else source
                for name, source in self.models.items()
            },
        )

    def num_keyframes(self, duration_s: float | None) -> int:
        """How many keyframes an encoder reads of a film of this length at most."""
        if duration_s is None:
            return self.max_keyframes
        return min(self.max_keyframes, max(1, ceil(duration_s * self.keyframes_per_s)))
