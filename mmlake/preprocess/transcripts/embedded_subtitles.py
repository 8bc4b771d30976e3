"""Subtitles within a film or recording: the words of the stream in the language that is spoken.

Enters: a file. Leaves: lines with times on the clock of its tracks, which begins where the container does. Text alone:
subtitles that are pictures (PGS, VobSub, DVB) would have to be read as pictures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmlake.border import is_machine_fault
from mmlake.errors import UnreadableItem
from mmlake.media.decoders import open_media
from mmlake.preprocess.transcripts.highlights import ShownLine, marked_part, said_of
from mmlake.preprocess.transcripts.subtitles import Cue
from mmlake.preprocess.transcripts.timed_files import plain_dialogue

if TYPE_CHECKING:
    from av.container import InputContainer

_TEXTS = frozenset(["srt", "subrip", "ass", "ssa", "mov_text", "webvtt", "text"])  # names of decoders
_MAY_HOLD = ("audio/mp4", "audio/x-matroska", "audio/webm")  # of recordings
_MOST_CUES = 100_000  # a film of ten hours has a tenth of it
_SPACES = re.compile(r"\s+")
_UNKNOWN = ("und", "mul", "zxx", "mis")  # ISO 639-2: nobody says which, several, none, one without a code


def embedded_cues(path: Path, content_type: str | None) -> list[Cue]:
    """The lines in order of time; none where the file has no subtitles that are text, where all are in another language
    than the sound, or where they cannot be read: the film can. content_type: of the file; most kinds of recordings hold
    none, and are not opened for it."""
    import av.error

    if content_type is not None and content_type.startswith("audio/") and content_type not in _MAY_HOLD:
        return []
    try:
        with open_media(path) as container:
            stream = _spoken(container)
            shown = [] if stream is None else list(_lines(container, stream))
            return [Cue(words, start_s, end_s) for start_s, end_s, words in said_of(shown)]
    except (UnreadableItem, av.error.FFmpegError, ValueError) as error:
        if is_machine_fault(error):
            raise
        return []


def _spoken(container: InputContainer) -> Any:
    """The stream whose lines say what is said: in the language of the sound, where both are known, whole ones before
    those that translate signs alone, those that are shown by default first."""
    from av.stream import Disposition

    spoken = next((language for one in container.streams.audio if (language := _language(one))), "")
    found = [
        one
        for one in container.streams.subtitles
        if one.codec_context is not None
        and one.codec_context.name in _TEXTS
        and (not spoken or _language(one) in ("", spoken))
    ]
    return min(
        found,
        key=lambda one: (
            bool(one.disposition & (Disposition.forced | Disposition.comment)),
            _language(one) != spoken,
            bool(one.disposition & Disposition.hearing_impaired),  # which says sounds as well
            not one.disposition & Disposition.default,
            one.index,
        ),
        default=None,
    )


def _language(stream: Any) -> str:
    """As the file has it (ISO 639-2, or BCP 47); empty where it says none."""
    said = str(stream.metadata.get("language", "")).lower().partition("-")[0]
    return "" if said in _UNKNOWN else said


def _lines(container: InputContainer, stream: Any) -> Iterator[ShownLine]:
    import av.error

    origin_s, num = (container.start_time or 0) / av.time_base, 0
    for packet in container.demux(stream):
        if packet.pts is None or not packet.size:
            continue
        try:
            body = " ".join(line.dialogue.decode("utf-8", "replace") for line in packet.decode())
        except (av.error.FFmpegError, ValueError, AttributeError) as error:
            if is_machine_fault(error):
                raise
            continue  # one line that is none
        words = _SPACES.sub(" ", plain_dialogue(body)).strip()
        if words and num < _MOST_CUES:
            num += 1
            start_s = float(packet.pts * packet.time_base) - origin_s
            end_s = start_s + float((packet.duration or 0) * packet.time_base)
            yield ShownLine(start_s, end_s, words, marked_part(body))
