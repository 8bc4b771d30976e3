"""The settings of the shard writer."""

from __future__ import annotations

from dataclasses import dataclass

from mmlake.errors import SettingsError

SMALL = ("auto", "tar", "parquet")


@dataclass(frozen=True, kw_only=True)
class ShardSettings:
    """How large training shards become."""

    shard_bytes: int = 256 * 1024 * 1024
    # target size of a tar file; large enough for sequential reads from an object store, small enough to fetch again
    max_samples: int = 100_000
    # samples per tar, which bounds the index of text shards
    small: str = "auto"
    # what holds samples that are a text alone: tar, which webdataset reads; parquet, a tenth of the bytes for short
    # texts; auto, whichever of them is smaller for the shard
    short_text_bytes: int = 1_000
    # mean size of a shard's texts up to which auto takes parquet; a tar takes 3.2 times their bytes there, and less
    # for longer ones (docs/shards.md)
    min_short_texts: int = 256
    # texts of a shard from which on auto takes parquet: fewer take less than the 20 kB of a file's footer and columns

    def __post_init__(self) -> None:
        if self.small not in SMALL:
            raise SettingsError(f"shards.small is {self.small!r}, expected one of {', '.join(SMALL)}")


DEFAULTS = ShardSettings()
