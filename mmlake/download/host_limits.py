"""How many requests go to one host at once, and how far apart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class HostLimiter:
    """One limit per host, kept only while a request to it waits or runs, or a pause lasts."""

    def __init__(self, *, per_host: int, delay_s: float) -> None:
        self._per_host, self._delay_s = per_host, delay_s
        self._hosts: dict[str, _HostLimit] = {}

    @asynccontextmanager
    async def slot(self, host: str, *, delay_s: float = 0.0) -> AsyncIterator[None]:
        """Held while a request to the host runs. delay_s: what the host itself asks for between two requests."""
        host_limit = self._hosts.setdefault(host, _HostLimit(self._per_host))
        host_limit.num_users += 1
        try:
            async with host_limit.slots:
                await host_limit.wait(max(delay_s, self._delay_s))
                yield
        finally:
            host_limit.num_users -= 1
            if not host_limit.num_users and host_limit.next_s <= asyncio.get_running_loop().time():
                self._hosts.pop(host, None)

    def pause(self, host: str, pause_s: float) -> None:
        """Let no new request to the host start for so many seconds."""
        if pause_s > 0:
            host_limit = self._hosts.setdefault(host, _HostLimit(self._per_host))
            host_limit.next_s = max(host_limit.next_s, asyncio.get_running_loop().time() + pause_s)


class _HostLimit:
    def __init__(self, num_slots: int) -> None:
        self.slots = asyncio.Semaphore(num_slots)
        self.next_s = 0.0
        self.num_users = 0

    async def wait(self, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        while (left_s := self.next_s - loop.time()) > 0:
            await asyncio.sleep(left_s)
        self.next_s = max(self.next_s, loop.time() + delay_s)
