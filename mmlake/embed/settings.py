"""What a user may set about embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
    # encoder name -> weights; needed by clip, siglip, dinov2, whisper-encoder and clap, which have no weights in a
    # package
    text_window_tokens: int = 256
    # per window of minilm-l6, special tokens included; it was trained on no more
    text_windows: int = 4
    # windows per text whose token states are averaged; what follows the last one (about 750 words) is not read
    max_keyframes: int = 16
    # per video, evenly chosen; more change a mean little
    audio_windows: int = 4
    # 30 s windows (Whisper) or 10 s windows (CLAP) per recording, evenly chosen

    def __post_init__(self) -> None:
        # a settings file gives plain tables
        object.__setattr__(
            self,
            "models",
            {
                name: ModelSource(**source) if isinstance(source, dict) else source
                for name, source in self.models.items()
            },
        )
