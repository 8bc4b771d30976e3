"""The kernel of the stage: one item's bytes to the columns of its track, and to keyframes and sound that are not stored
yet. It reads no store and writes nothing, so that it may run in another process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mmlake.preprocess.align import Aligner
from mmlake.preprocess.audio import audio_track
from mmlake.preprocess.image import image_track
from mmlake.preprocess.keyframes import Keyframe
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.subtitles import parse_cues
from mmlake.preprocess.text import normalize, text_track
from mmlake.preprocess.video import video_track


@dataclass(frozen=True, slots=True)
class Encoded:
    """One item as it goes to its decoder."""

    content_type: str | None = None
    sample_text: str | None = None  # the caption or transcript that came in the same sample
    data: bytes = b""  # of texts and pictures
    path: Path = Path()  # of films and recordings


@dataclass(frozen=True, slots=True)
class Decoded:
    """What decoding gave."""

    columns: dict[str, object]
    keyframes: tuple[Keyframe, ...] = ()
    flac: bytes | None = None  # mono 16 kHz
    needs_transcript: bool = False  # there is sound, and the source gave no words


@dataclass(frozen=True, kw_only=True, slots=True)
class Decoder:
    """How items of one modality are decoded."""

    # (item, settings=, aligner=) -> what decoding gave; raises UnreadableItem, and whatever a library raises
    kernel: Callable[..., Decoded]
    in_memory: bool = False  # whether the kernel takes bytes; a file otherwise

    def kernel_with(self, settings: PreprocessSettings) -> Callable[[Encoded], Decoded]:
        """The kernel for these settings."""
        return functools.partial(self.kernel, settings=settings, aligner=Aligner(settings))


def _text(item: Encoded, *, settings: PreprocessSettings, aligner: Aligner) -> Decoded:
    return Decoded(text_track(item.data, item.content_type, settings=settings))


def _image(item: Encoded, *, settings: PreprocessSettings, aligner: Aligner) -> Decoded:
    return Decoded(image_track(item.data, settings=settings))


def _audio(item: Encoded, *, settings: PreprocessSettings, aligner: Aligner) -> Decoded:
    columns, flac = audio_track(item.path, settings=settings)
    words, needs_transcript = _words(flac, item.sample_text, settings=settings, aligner=aligner)
    return Decoded(columns | words, flac=flac, needs_transcript=needs_transcript)


def _video(item: Encoded, *, settings: PreprocessSettings, aligner: Aligner) -> Decoded:
    film = video_track(item.path, settings=settings)
    words, needs_transcript = _words(film.flac, item.sample_text, settings=settings, aligner=aligner)
    return Decoded(film.columns | words, tuple(film.keyframes), film.flac, needs_transcript)


TEXT_DECODER = Decoder(kernel=_text, in_memory=True)
IMAGE_DECODER = Decoder(kernel=_image, in_memory=True)
VIDEO_DECODER = Decoder(kernel=_video)
AUDIO_DECODER = Decoder(kernel=_audio)


def _words(
    flac: bytes | None, sample_text: str | None, *, settings: PreprocessSettings, aligner: Aligner
) -> tuple[dict[str, object], bool]:
    """(transcript, transcript_source and words as far as the source gave a transcript, whether one is to be
    recognized)."""
    cues = parse_cues(sample_text) if sample_text else []
    if not cues:
        return {}, flac is not None
    words = aligner.align(flac, cues).words if flac is not None and settings.align else []
    transcript = normalize(" ".join(cue.text for cue in cues), settings=settings)
    return {"transcript": transcript, "transcript_source": "source", "words": words}, False
