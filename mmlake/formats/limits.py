"""What a reader of a format may take: the limits that whoever reads sets. `SourceSettings` is one set of them."""

from __future__ import annotations

from typing import Protocol


class Limits(Protocol):
    """Bounds that hold before anything is expanded or parsed; sizes in bytes."""

    @property
    def max_shard_bytes(self) -> int:
        """What a compressed file may expand to."""

    @property
    def max_line_bytes(self) -> int:
        """One line or record."""

    @property
    def max_json_values(self) -> int:
        """Values of one JSON record."""

    @property
    def max_json_depth(self) -> int:
        """Levels of nesting of one JSON record."""

    @property
    def max_decoded_bytes(self) -> int:
        """What one record may take in memory."""

    @property
    def max_charset_mess_fraction(self) -> float:
        """The "chaos" of charset-normalizer's best guess, 0..1, up to which it is believed."""
