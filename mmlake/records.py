"""The small frozen records that every stage speaks in. No I/O, no third-party imports."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Final

MODALITIES: Final = ("text", "image", "video", "audio")
ROLES: Final = ("document", "caption", "transcript", "media")  # caption and transcript: text that came beside a media item of the same sample
STATUSES: Final = ("ok", "flagged", "quarantined", "unreadable")  # best first; flagged stays in versions with a smaller weight, the last two never do
SEVERITIES: Final = ("P0", "P1", "P2")  # P0 must not enter a version, P1 isolate for review, P2 downweight
ADMITTED: Final = ("ok", "flagged")  # the statuses that go on to fingerprints, embeddings and versions
UNKNOWN_LICENCE: Final = "NOASSERTION"  # SPDX's own word for "nobody said"

Digest = str  # 64 lower-case hex characters: the SHA-256 of a blob's bytes
_DIGEST = re.compile(r"[0-9a-f]{64}")


def is_digest(text: str) -> bool:
    """Whether the text is a digest in its one spelling."""
    return _DIGEST.fullmatch(text) is not None


def digest_of(data: bytes | memoryview) -> Digest:
    """The digest of these bytes."""
    return hashlib.sha256(data).hexdigest()


def canonical_json(value: Any) -> str:
    """The one JSON spelling of a value: sorted keys, no spaces, no NaN; equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, slots=True)
class SourceRef:
    """Where an item's bytes lie in the landing zone.

    path is relative to the landing zone. member is set for archives. byte_offset and byte_size are set only where reading that
    range of `path` as it lies on disk gives the item's very bytes (never for compressed archives). frame_index picks one frame.
    """

    path: str
    member: str | None = None
    byte_offset: int | None = None
    byte_size: int | None = None
    frame_index: int | None = None

    def to_json(self) -> str:
        """The locator as the `source_ref` column stores it."""
        return canonical_json(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> SourceRef:
        """The locator that `to_json` wrote. Unknown keys are ignored. Raises ValueError when the text is no JSON object with a path."""
        value = json.loads(text)
        if not isinstance(value, dict) or not isinstance(value.get("path"), str):
            raise ValueError(f"source_ref {text[:80]!r} is not a JSON object with a path")
        return cls(**{key: value[key] for key in cls.__dataclass_fields__ if key in value})
