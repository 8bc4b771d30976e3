"""Which member of a tar holds which part of a sample, and by which ending."""

from __future__ import annotations

from functools import lru_cache

from mmlake.records import LEADING_ROLES

INTERLEAVED = "interleaved"  # the modality of a sample with several leading parts
Kind = tuple[str, str, str | None]  # role, modality and content type of a part
_EXTENSIONS = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/webp": "webp",
    "image/gif": "gif",
    "image/tiff": "tiff",
    "image/bmp": "bmp",
    "video/mp4": "mp4",
    "video/webm": "webm",
    "video/x-matroska": "mkv",
    "video/quicktime": "mov",
    "video/x-msvideo": "avi",
    "video/mp2t": "ts",
    "video/mpeg": "mpg",
    "audio/flac": "flac",
    "audio/x-flac": "flac",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/ogg": "ogg",
    "audio/mp4": "m4a",
    "audio/aac": "aac",
    "text/plain": "txt",
    "text/html": "html",
    "text/markdown": "md",
    "application/json": "data.json",  # plain `json` is the sample's own description
    "text/vtt": "vtt",
    "application/x-subrip": "srt",
}


def extension(content_type: str | None) -> str:
    """The member extension of a content type; `bin` for types that are not in the list, so that nothing executable
    ever gets a name of its own."""
    return _EXTENSIONS.get((content_type or "").partition(";")[0].strip().lower(), "bin")


@lru_cache(maxsize=4096)
def member_endings(kinds: tuple[Kind, ...], *, is_interleaved: bool, is_normalized: bool) -> dict[int, str]:
    """Number of a part -> ending of the member that holds it, in the order of the members; empty where no part, or more
    than one, leads a sample that is not interleaved. Parts that are missing are in the JSON member alone.

    is_normalized: text is plain text, whatever the blob was.
    """
    own = ["txt" if is_normalized and modality == "text" else extension(kind) for _, modality, kind in kinds]
    if is_interleaved:
        return {number: f"{number:03d}.{ending}" for number, ending in enumerate(own)}
    leading = [number for number, (role, _, _) in enumerate(kinds) if role in LEADING_ROLES]
    if len(leading) != 1:
        return {}
    roles: dict[str, int] = {}
    for number, (role, _, _) in enumerate(kinds):
        if role not in LEADING_ROLES:
            roles.setdefault(role, number)
    return {leading[0]: own[leading[0]]} | {number: f"{role}.txt" for role, number in sorted(roles.items())}
