"""What readers of remote storage share: the logins of the addresses, blocks on the disk with the threads that fetch
them, and connections.

Whoever opens a lake, a landing zone or a store has one, or is given that of whoever opened it; nothing of it outlives
that owner but the blocks on the disk. Threads may share it. A forked child makes connections of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from typing import Any

from mmlake.remote import s3
from mmlake.remote.cache import BlockCache
from mmlake.remote.client import HttpClients
from mmlake.remote.credentials import Logins
from mmlake.remote.settings import RemoteSettings


class RemoteConnections:
    """The logins, block caches and connections of one owner, each made when first asked for."""

    def __init__(self) -> None:
        self.logins = Logins()
        self.http = HttpClients()
        self._caches: dict[RemoteSettings, BlockCache] = {}
        self._clients: dict[tuple[int, Hashable], Any] = {}  # by process: connections do not survive a fork
        self._lock = threading.Lock()

    def cache(self, settings: RemoteSettings) -> BlockCache:
        """The connections' one cache for these settings, whose one pool bounds the threads of all its readers."""
        with self._lock:
            if settings not in self._caches:
                self._caches[settings] = BlockCache(settings)
            return self._caches[settings]

    def s3_client(self, settings: RemoteSettings) -> Any:
        """The connections' one S3 client for the environment as it is now, so that its retry quota is that of all
        readers.
        Raises MissingExtra, SettingsError."""
        return self.client(s3.environment(settings), lambda: s3.new_client(settings))

    def client(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The client that was made for this key in this process; making one of S3 takes half a second."""
        place = (os.getpid(), key)
        if place not in self._clients:
            self._clients[place] = make()
        return self._clients[place]
