"""Which member of a tar holds which part of a sample, and by which ending."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from mmlake.formats.sniff import TIMED_NAMES
from mmlake.media_names import ENDINGS
from mmlake.records import LEADING_ROLES

PART, SOUND, KEYFRAMES = "part", "sound", "keyframes"
CUT_TYPES = {"video": "video/mp4", "audio": "audio/flac"}  # of what is cut from a film or a recording
_TRACK_ENDINGS = {SOUND: "sound.flac", KEYFRAMES: "keyframes.mjpeg"}
_EXTENSIONS = ENDINGS | {
    "text/plain": "txt",
    "text/html": "html",
    "text/markdown": "md",
    "application/json": "data.json",  # plain `json` is the sample's own description
    "text/vtt": "vtt",
    "application/x-subrip": "srt",
    **{content_type: ending for ending, content_type in reversed(TIMED_NAMES.items())},
}


def extension(content_type: str | None) -> str:
    """The member extension of a content type; `bin` for types that are not in the list, so that nothing executable
    ever gets a name of its own."""
    return _EXTENSIONS.get((content_type or "").partition(";")[0].strip().lower(), "bin")


class Kind(NamedTuple):
    """What the members of a part depend on."""

    role: str
    modality: str
    content_type: str | None
    is_span: bool = False
    has_sound: bool = False  # a member of its own holds it
    has_keyframes: bool = False


class PartMember(NamedTuple):
    """A member to be written."""

    number: int  # of the part
    holds: str  # PART, or the SOUND or KEYFRAMES of it
    ending: str


@lru_cache(maxsize=4096)
def part_members(kinds: tuple[Kind, ...], *, is_interleaved: bool, is_normalized: bool) -> tuple[PartMember, ...]:
    """The members that hold parts, in order; none where no part, or more than one, leads a sample that is not
    interleaved. Parts that are missing are in the JSON member alone.

    is_normalized: text is plain text, whatever the blob was.
    """
    own = ["txt" if is_normalized and kind.modality == "text" else _extension_of(kind) for kind in kinds]
    if is_interleaved:
        found: list[PartMember] = []
        for number, ending in enumerate(own):
            found.append(PartMember(number, PART, f"{number:03d}.{ending}"))
            found += _track_members(number, kinds[number], prefix=f"{number:03d}.")
        return tuple(found)
    leading = [number for number, kind in enumerate(kinds) if kind.role in LEADING_ROLES]
    if len(leading) != 1:
        return ()
    roles: dict[str, int] = {}
    for number, kind in enumerate(kinds):
        if kind.role not in LEADING_ROLES:
            roles.setdefault(kind.role, number)
    lead = leading[0]
    return (
        PartMember(lead, PART, own[lead]),
        *_track_members(lead, kinds[lead], prefix=""),
        *(PartMember(number, PART, f"{role}.txt") for role, number in sorted(roles.items())),
    )


def _extension_of(kind: Kind) -> str:
    return extension(CUT_TYPES.get(kind.modality) if kind.is_span else kind.content_type)


def _track_members(number: int, kind: Kind, *, prefix: str) -> list[PartMember]:
    wanted = [what for what, has in ((SOUND, kind.has_sound), (KEYFRAMES, kind.has_keyframes)) if has]
    return [PartMember(number, what, f"{prefix}{_TRACK_ENDINGS[what]}") for what in wanted]
