"""Settings of what models say of units. Nothing is asked of any model unless a row is chosen here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mmlake.errors import SettingsError

# coarse kinds of what films show, after the top levels of the ontologies of AudioSet and ActivityNet
VOCABULARY = (
    "accident", "animals", "animation", "argument", "celebration", "chase", "children", "conversation", "cooking",
    "crowd", "dance", "drawing", "driving", "explosion", "fall", "fight", "fire", "flight", "food", "gaming",
    "gesture", "handicraft", "household", "impact", "interview", "lecture", "machinery", "medical", "music", "nature",
    "news", "playing", "repair", "science", "screen_recording", "shopping", "singing", "speech", "sports", "text",
    "tools", "traffic", "travel", "walking", "water", "weather", "work",
)  # fmt: skip
_GLOSSARY_TERMS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionSettings:
    """Who corrects transcripts, who describes clips, and what of their answers counts."""

    corrector: str = "none"
    # "none", "glossary" (no model, nothing leaves the machine), or a row of MODELS, which gets the glossary first
    corrector_model: str = ""
    # the server's name of it, instead of endpoint.model
    glossary: Mapping[str, str] = field(default_factory=dict)
    # what recognizers write -> what it should be, whole words in any case: {"cooper netties" = "Kubernetes"}
    lines_per_question: int = 40
    # of a transcript; a model that gets hundreds of lines begins to skip some
    max_edit_fraction: float = 0.5
    # characters that a correction may change, of those of the longer line; more is another sentence
    min_edits: int = 4
    # characters that may always change: a short word is wrong as a whole
    describer: str = "none"
    # "none", or a row of MODELS that reads pictures
    describer_model: str = ""
    # the server's name of it, instead of endpoint.model
    vocabulary: tuple[str, ...] = VOCABULARY
    # the event tags; a recipe can mix by them only if models choose among few
    max_frames: int = 8
    # keyframes of a clip that are shown, evenly chosen
    max_events: int = 24
    # of a clip; clips are at most half a minute long
    local_model: str = ""
    # folder of the weights for the row "local": an image-text-to-text model, as save_pretrained writes it
    device: str = "cpu"
    # "cpu" or "cuda", for the row "local"
    local_tokens: int = 512
    # of one answer of the row "local"

    def __post_init__(self) -> None:
        """Refuse what no run could use."""
        for name in ("lines_per_question", "min_edits", "max_frames", "max_events", "local_tokens"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"captions.{name}={getattr(self, name)} must be above 0; correct the setting")
        if not 0 <= self.max_edit_fraction <= 1:
            raise SettingsError(
                f"captions.max_edit_fraction={self.max_edit_fraction} must lie in 0..1; correct the setting"
            )
        if len(self.glossary) > _GLOSSARY_TERMS or not all(
            isinstance(wrong, str) and isinstance(right, str) and wrong.strip() and right.strip()
            for wrong, right in self.glossary.items()
        ):
            raise SettingsError(
                f"captions.glossary has {len(self.glossary)} terms, expected up to {_GLOSSARY_TERMS} pairs of texts "
                "that are not empty; correct them"
            )
        if not self.vocabulary or not all(isinstance(tag, str) and tag.strip() for tag in self.vocabulary):
            raise SettingsError("captions.vocabulary must hold tags, each a text that is not empty; correct it")
