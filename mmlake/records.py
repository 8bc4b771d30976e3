"""The small frozen records that every stage speaks in. No I/O, no third-party imports."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Final, NamedTuple

# caption and transcript: text that came next to a media item of the same sample
ROLES: Final = ("document", "caption", "transcript", "media")
CAPTION: Final = "caption"
LEADING_ROLES: Final = ("document", "media")  # what a sample is about; the other roles say something of it
INTERLEAVED: Final = "interleaved"  # the modality of a sample that several parts lead
# best first; flagged stays in versions with a smaller weight, the last two never do
STATUSES: Final = ("ok", "flagged", "quarantined", "unreadable")
SEVERITIES: Final = ("P0", "P1", "P2")  # P0 must not enter a version, P1 isolate for review, P2 downweight
ADMITTED: Final = ("ok", "flagged")  # the statuses that go on to duplicates and versions
UNKNOWN_LICENCE: Final = "NOASSERTION"  # SPDX's own word for "nobody said"

Digest = str  # 64 lower-case hex characters: the SHA-256 of a blob's bytes
_DIGEST = re.compile(r"[0-9a-f]{64}")
# metadata of a setting that came after lakes had been made without it: at its default it makes none of them stale
LATER: Final = {"later": True}


def is_digest(text: str) -> bool:
    """Whether the text is a digest in its one spelling."""
    return _DIGEST.fullmatch(text) is not None


def digest_of(data: bytes | memoryview) -> Digest:
    """The digest of these bytes."""
    return hashlib.sha256(data).hexdigest()


def signed(text: str, plugin: str) -> str:
    """The text as rows show it: with the plugin ("name==version") that it comes from, where it comes from one."""
    return f"{text} ({plugin})" if plugin else text


# json.dumps would make one per call
_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


# What `JSONEncoder.encode` does with the C encoder, which it makes anew for each call: half of what a small value
# costs.
_MAKE: Final = getattr(json.encoder, "c_make_encoder", None)
_PIECES: Final = (
    _MAKE(None, _ENCODER.default, json.encoder.encode_basestring, None, ":", ",", True, False, False)
    if _MAKE is not None
    else None
)


def canonical_json(value: Any) -> str:
    """The one JSON spelling of a value: sorted keys, no spaces, no NaN; equal values give equal text."""
    return _ENCODER.encode(value) if _PIECES is None else "".join(_PIECES(value, 0))


# 1: the same keys without `v`, every one present; 0: the keys of the first interleaved pipelines, `content_path` and
# its like
LOCATOR_FORM: Final = 2
_OLD_KEYS: Final = {
    "content_path": "path",
    "content_key": "member",
    "content_offset": "byte_offset",
    "content_size": "byte_size",
}


_QUOTED: Final = json.encoder.encode_basestring  # a JSON string with its non-ASCII characters as they are


def _quoted(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which no table holds: escaped, it survives
        return json.dumps(text)
    return _QUOTED(text)


class SourceRef(NamedTuple):  # a frozen dataclass takes five times as long to make, and every row has one
    """Where an item's bytes lie in the landing zone.

    path is relative to the landing zone. member is set for archives. byte_offset and byte_size are set only where
    reading that range of `path` as it lies on disk gives the item's very bytes (never for compressed archives).
    frame_index picks one frame.
    """

    path: str
    member: str | None = None
    byte_offset: int | None = None
    byte_size: int | None = None
    frame_index: int | None = None

    def to_json(self) -> str:
        """The locator as the `source_ref` column stores it; `frame_index` stands in it only where a frame is picked."""
        # Spelled out, since every row has one: `canonical_json` of a dict would take six times as long.
        path, member, offset, size, frame_index = self
        named = "null" if member is None else _QUOTED(member) if member.isascii() else _quoted(member)
        place = f'"member":{named},"path":{_QUOTED(path) if path.isascii() else _quoted(path)},"v":{LOCATOR_FORM}}}'
        if frame_index is not None:
            place = f'"frame_index":{frame_index},{place}'
        at = "null" if offset is None else offset
        return f'{{"byte_offset":{at},"byte_size":{"null" if size is None else size},{place}'

    @classmethod
    def from_json(cls, text: str) -> SourceRef:
        """The locator that this release or an older one wrote. Unknown keys are ignored.

        Raises ValueError where the text is no JSON object with a path, is of a later form, or has a value of the wrong
        type.
        """
        ref = cls.parse(text)
        if ref is None:
            raise ValueError(f"source_ref {text[:80]!r} is not a JSON object with a path")
        return ref

    @classmethod
    def parse(cls, value: object) -> SourceRef | None:
        """The locator in a cell of a `source_ref` column; None where there is none: null, NaN, "", or an object
        without a path. Raises ValueError as `from_json`."""
        if (
            value is None
            or (isinstance(value, str) and not value)
            or (isinstance(value, float) and value != value)
            or type(value).__name__ == "NAType"
        ):
            return None  # NaN and NA are what data frames put for null
        if not isinstance(value, str):
            raise ValueError(f"source_ref is of type {type(value).__name__}, expected text")
        try:
            given = json.loads(value)
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict):
            raise ValueError(f"source_ref {value[:80]!r} is not a JSON object with a path")
        if isinstance(form := given.get("v"), int) and form > LOCATOR_FORM:
            raise ValueError(
                f"source_ref has the form {form}, this release reads forms up to {LOCATOR_FORM}; use the release "
                "that wrote it, or a later one"
            )
        fields = {new: given[old] for old, new in _OLD_KEYS.items() if given.get(old) is not None}
        fields |= {name: given[name] for name in cls._fields if given.get(name) is not None}
        if "path" not in fields:
            return None
        return cls(**{name: _typed(name, field) for name, field in fields.items()})


def _typed(name: str, value: Any) -> Any:
    """The locator's value in its one type. Raises ValueError."""
    if name in ("path", "member"):
        if isinstance(value, str):
            return value
    # data frames make floats of integers next to nulls
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value == value // 1:
        return int(value)
    raise ValueError(
        f"source_ref has {name}={str(value)[:40]!r}, expected "
        f"{'text' if name in ('path', 'member') else 'a whole number from 0'}"
    )
