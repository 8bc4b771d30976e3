"""How many requests go to one host at once, and how far apart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Gates:
    """One gate per host, kept only while somebody waits at it or it has a pause to keep."""

    def __init__(self, *, per_host: int, delay_s: float) -> None:
        self._per_host, self._delay_s = per_host, delay_s
        self._gates: dict[str, _Gate] = {}

    @asynccontextmanager
    async def through(self, host: str, *, delay_s: float = 0.0) -> AsyncIterator[None]:
        """Held while a request to the host runs. delay_s: what the host itself asks for between two requests."""
        gate = self._gates.setdefault(host, _Gate(self._per_host))
        gate.num_users += 1
        try:
            async with gate.places:
                await gate.wait(max(delay_s, self._delay_s))
                yield
        finally:
            gate.num_users -= 1
            if not gate.num_users and gate.next_s <= asyncio.get_running_loop().time():
                self._gates.pop(host, None)

    def pause(self, host: str, pause_s: float) -> None:
        """Let no new request to the host start for so many seconds."""
        if pause_s > 0:
            gate = self._gates.setdefault(host, _Gate(self._per_host))
            gate.next_s = max(gate.next_s, asyncio.get_running_loop().time() + pause_s)


class _Gate:
    def __init__(self, num_places: int) -> None:
        self.places = asyncio.Semaphore(num_places)
        self.next_s = 0.0
        self.num_users = 0

    async def wait(self, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        while (left_s := self.next_s - loop.time()) > 0:
            await asyncio.sleep(left_s)
        self.next_s = max(self.next_s, loop.time() + delay_s)
