"""The settings of the shard writer."""

from __future__ import annotations

from dataclasses import dataclass

from mmlake.errors import SettingsError

SMALL = ("tar", "parquet")


@dataclass(frozen=True, kw_only=True)
class ShardSettings:
    """How large training shards become."""

    shard_bytes: int = 256 * 1024 * 1024
    # target size of a tar file; large enough for sequential reads from an object store, small enough to fetch again
    max_samples: int = 100_000
    # samples per tar, which bounds the index of text shards
    small: str = "tar"
    # what holds samples that are a text alone: tar, which webdataset reads, or parquet, a tenth of the bytes for short
    # texts

    def __post_init__(self) -> None:
        if self.small not in SMALL:
            raise SettingsError(f"shards.small is {self.small!r}, expected one of {', '.join(SMALL)}")


DEFAULTS = ShardSettings()
