"""How remote bytes are fetched and kept on this machine. None of it changes a result, so no stamp holds it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmlake.errors import SettingsError


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteSettings:
    """Cache, read-ahead and concurrency of remote storage."""

    cache_dir: str = ""
    # directory for blocks of remote files and indexes of remote packs; "" is mmlake in the user's cache directory.
    # Several lakes and processes may share one
    cache_bytes: int = 20 << 30
    # bound of that directory: about ten shards of a gigabyte in flight, twice; the least recently used goes first
    block_bytes: int = 1 << 20
    # smallest fetch and unit of the cache. At 100 ms to the first byte and 85 MB/s after it (S3's performance
    # guidelines) 1 MiB takes 1.1 times as long as one byte
    ahead_blocks: int = 16
    # read-ahead at most: it begins with 1 block and doubles while a file is read in order; 16 MiB hide 100 ms from a
    # reader of 160 MB/s
    request_blocks: int = 8
    # blocks per request of the read-ahead: the same guidelines name 8 to 16 MB; waiting is then half of the time, and
    # threads overlap it
    threads: int = 4
    # requests of the read-ahead in flight at once in one process, and parts of an upload; 4 x 85 MB/s fill 2.5 Gbit/s
    connections: int = 16
    # open connections per process, uploads and reads together
    spool_bytes: int = 4 << 30
    # bound of a file of a web server without byte ranges: it is copied to a temporary file in cache_dir as far as it is
    # read. A shard of a gigabyte, four times
    storage_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    # options of fsspec by scheme or beginning of an address, {"gs": {"project": "corpus"}}; a secret is written
    # "env:NAME" (docs/remote.md)

    def __post_init__(self) -> None:
        for name in ("cache_bytes", "block_bytes", "request_blocks", "threads", "connections", "spool_bytes"):
            if getattr(self, name) < 1:
                raise SettingsError(f"remote.{name} is {getattr(self, name)}, expected 1 or more; correct the settings")
        if self.ahead_blocks < 0 or self.cache_bytes < 2 * self.block_bytes:
            raise SettingsError(
                f"remote.ahead_blocks is {self.ahead_blocks} and remote.cache_bytes {self.cache_bytes}, expected "
                "0 or more and at least two blocks; correct them"
            )

    @property
    def files_at_once(self) -> int:
        """Files that a reader of many opens at once: half of the connections, since each may have a request under
        way next to those of the read-ahead."""
        return max(1, self.connections // 2)

    def directory(self) -> Path:
        """Where blocks and indexes are kept."""
        if self.cache_dir:
            return Path(self.cache_dir).expanduser()
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mmlake"
