"""Hashes that publishers state, in their spellings, and whether bytes have them."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import IO, Any

_SIZES = {"md5": 16, "sha1": 20, "sha256": 32, "sha384": 48, "sha512": 64}  # bytes
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Checksum:
    """One hash that a publisher states."""

    algorithm: str
    value: bytes

    @classmethod
    def of_label(cls, label: str | None) -> Checksum | None:
        """The hash in a label such as `sha1:3I42H3S6...` (ISO 28500); None where there is none, or in words that are
        not known."""
        algorithm, _, text = (label or "").strip().partition(":")
        return cls.of(algorithm.lower().replace("-", ""), text)

    @classmethod
    def of(cls, algorithm: str, text: str) -> Checksum | None:
        """The hash that the text spells in hexadecimal, Base32 or Base64; None where it is none of that algorithm."""
        size = _SIZES.get(algorithm, 0)
        for spelled, decode in (
            (2 * size, bytes.fromhex),
            (-(-size * 8 // 5), _base32),
            (-(-size // 3) * 4, base64.b64decode),
        ):
            if size and len(text.rstrip("=") if decode is _base32 else text) == spelled:
                try:
                    value = decode(text)
                except (ValueError, binascii.Error):
                    continue
                if len(value) == size:
                    return cls(algorithm, value)
        return None

    def fits(self, stream: IO[bytes]) -> bool:
        """Whether the stream, which is read and closed, has this hash."""
        with stream:
            hasher = self.hasher()
            while part := stream.read(_CHUNK_BYTES):
                hasher.update(part)
        return self.is_of(hasher)

    def hasher(self) -> Any:
        """A new hash object of the algorithm."""
        return hashlib.new(self.algorithm, usedforsecurity=False)

    def is_of(self, hasher: Any) -> bool:
        """Whether the hash object has come to this value."""
        return bool(hasher.digest() == self.value)

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.value.hex()}"


def _base32(text: str) -> bytes:
    return base64.b32decode(text.upper().rstrip("=") + "=" * (-len(text.rstrip("=")) % 8))
