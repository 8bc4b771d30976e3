"""The kernel of the stage: one item's bytes to the columns of its track, and to keyframes and sound that are not stored
yet. It reads no store and writes to the folder of its item alone, so that it may run in another process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mmlake.film_decoders import DecodeSettings
from mmlake.formats.timed_text import OPEN_END_S
from mmlake.preprocess.audio import audio_track
from mmlake.preprocess.image import image_track
from mmlake.preprocess.outputs import Output, Outputs
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.text import normalize, text_track
from mmlake.preprocess.transcripts.embedded_subtitles import embedded_cues
from mmlake.preprocess.transcripts.subtitles import Cue, parse_cues
from mmlake.preprocess.video import video_track
from mmlake.preprocess.visual.keyframes import Keyframe
from mmlake.speech import VOICE_DETECTORS


@dataclass(frozen=True, slots=True)
class Encoded:
    """One item as it goes to its decoder."""

    content_type: str | None = None
    sample_text: str | None = None  # the caption or transcript that came in the same sample
    is_transcript: bool = False  # of a text: it says what is said in a recording or film
    charset: str | None = None  # of a text: its encoding, where its source noted another one than UTF-8
    data: bytes = b""  # of texts and pictures
    path: Path = Path()  # of films and recordings
    folder: Path | None = None  # of the same: empty, for what is large, gone with the item; None for memory


@dataclass(frozen=True, slots=True)
class Decoded:
    """What decoding gave."""

    columns: dict[str, object]
    keyframes: tuple[Keyframe, ...] = ()
    flac: Output | None = None  # mono 16 kHz
    frames: Output | None = None  # of a film, small and on a time grid (`mmlake.media.film_frames`)
    needs_transcript: bool = False  # the source gave no words; speech is recognized where there is sound


@dataclass(frozen=True, kw_only=True, slots=True)
class Decoder:
    """How items of one modality are decoded."""

    # (item, settings=) -> what decoding gave; raises UnreadableItem, and whatever a library raises
    kernel: Callable[..., Decoded]
    in_memory: bool = False  # whether the kernel takes bytes; a file otherwise
    has_pictures: bool = False  # whether the kernel takes decode=, by which row pictures of films are decoded

    def kernel_with(self, settings: PreprocessSettings, decode: DecodeSettings) -> Callable[[Encoded], Decoded]:
        """The kernel for these settings."""
        if self.has_pictures:
            return functools.partial(self.kernel, settings=settings, decode=decode)
        return functools.partial(self.kernel, settings=settings)


def _text(item: Encoded, *, settings: PreprocessSettings) -> Decoded:
    columns = text_track(
        item.data, item.content_type, charset=item.charset, is_transcript=item.is_transcript, settings=settings
    )
    return Decoded(columns)


def _image(item: Encoded, *, settings: PreprocessSettings) -> Decoded:
    return Decoded(image_track(item.data, settings=settings))


def _audio(item: Encoded, *, settings: PreprocessSettings) -> Decoded:
    with Outputs(item.folder) as outputs:
        columns, flac = audio_track(item.path, settings=settings, outputs=outputs)
        transcript = _transcript(item, columns["duration_s"], settings=settings)
        columns |= _speech(flac, outputs, settings=settings)
    return Decoded(columns | transcript, flac=flac, needs_transcript="transcript" not in transcript)


def _video(item: Encoded, *, settings: PreprocessSettings, decode: DecodeSettings) -> Decoded:
    with Outputs(item.folder) as outputs:
        film = video_track(item.path, settings=settings, decode=decode, outputs=outputs)
        transcript = _transcript(item, film.columns["duration_s"], settings=settings)
        columns = film.columns | _speech(film.flac, outputs, settings=settings) | transcript
    return Decoded(
        columns, tuple(film.keyframes), film.flac, film.frames, needs_transcript="transcript" not in transcript
    )


TEXT_DECODER = Decoder(kernel=_text, in_memory=True)
IMAGE_DECODER = Decoder(kernel=_image, in_memory=True)
VIDEO_DECODER = Decoder(kernel=_video, has_pictures=True)
AUDIO_DECODER = Decoder(kernel=_audio)


def _transcript(item: Encoded, duration_s: object, *, settings: PreprocessSettings) -> dict[str, object]:
    """transcript, transcript_source and cues as far as the source gave a transcript, next to the file or within it;
    else nothing. duration_s: where a cue ends that lasts as long as the recording."""
    cues = parse_cues(item.sample_text) if item.sample_text else []
    if isinstance(duration_s, float):
        cues = [replace(cue, end_s=duration_s) if _is_open(cue) else cue for cue in cues]
    cues = cues or embedded_cues(item.path, item.content_type)
    if not cues:
        return {}
    said = " ".join(cue.text for cue in cues if cue.is_shown)
    timed = {"cues": [asdict(cue) for cue in cues if cue.start_s is not None]}
    return timed | ({"transcript": normalize(said, settings=settings), "transcript_source": "source"} if said else {})


def _is_open(cue: Cue) -> bool:
    return cue.end_s is not None and cue.end_s >= OPEN_END_S


def _speech(flac: Output | None, outputs: Outputs, *, settings: PreprocessSettings) -> dict[str, object]:
    """The column `speech`; nothing where there is no sound, or no detector is chosen."""
    detector = VOICE_DETECTORS[settings.voice_detector]
    if flac is None or detector is None:
        return {}
    return {"speech": [{"start_s": start_s, "end_s": end_s} for start_s, end_s in detector(outputs.readable(flac))]}
