"""The settings of the shard writer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ShardSettings:
    """How large training shards become."""

    shard_bytes: int = 256 * 1024 * 1024
    # target size of a tar file; large enough for sequential reads from an object store, small enough to fetch again
    max_samples: int = 100_000
    # samples per tar, which bounds the index of text shards


DEFAULTS = ShardSettings()
