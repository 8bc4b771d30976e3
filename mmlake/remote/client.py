"""The process's HTTP client for landing zones: one pool of connections in fsspec's I/O thread, and which hosts a redirect may lead to."""

from __future__ import annotations

import asyncio
import atexit
import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from mmlake.remote.logins import Login

_Result = TypeVar("_Result")
_CONNECT_S, _IDLE_S = 10, 60  # as for S3
_CLOSING_S = 1.0
_CLIENTS: dict[tuple[int, int], Any] = {}  # (process, connections) -> client: a forked child makes its own, with a thread of its own


def run(action: Callable[[], Awaitable[_Result]]) -> _Result:
    """What the coroutine returns or raises, run in fsspec's I/O thread."""
    from fsspec.asyn import get_loop, sync

    return sync(get_loop(), action)  # type: ignore[no-any-return]


async def http_client(connections: int) -> Any:
    """The process's client with so many connections: no cookies, and no login but what a request brings."""
    key = (os.getpid(), connections)
    if key not in _CLIENTS:
        import aiohttp

        if not any(process == key[0] for process, _ in _CLIENTS):
            atexit.register(_close_all)
        _CLIENTS[key] = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_IDLE_S),
            headers={"User-Agent": "mmlake"},
        )
    return _CLIENTS[key]


def proxy_for(url: str) -> dict[str, Any]:
    """The arguments of a request that send it through the proxy that the environment names (HTTP_PROXY, HTTPS_PROXY, NO_PROXY); none where it names none."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    if not proxy or proxy_bypass(parts.netloc):
        return {}
    found = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    plain = found._replace(netloc=found.netloc.rpartition("@")[2]).geturl()
    if found.username is None:
        return {"proxy": plain}
    return {"proxy": plain, "proxy_headers": {"Proxy-Authorization": Login(unquote(found.username), unquote(found.password or "")).basic}}


def _close_all() -> None:
    """Close this process's connections, so that none is warned of when it ends."""
    from fsspec.asyn import get_loop, sync

    for key in [key for key in _CLIENTS if key[0] == os.getpid()]:
        with suppress(TimeoutError, RuntimeError):
            sync(get_loop(), _CLIENTS.pop(key).close, timeout=_CLOSING_S)


class Neighbourhood:
    """Which hosts the server of a landing zone may redirect to.

    A person names the landing zone, so it may be in a private network. A public server must not lead into one: it would make this
    machine read what only it can reach, such as the metadata of a cloud's machines.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._is_private: dict[str, bool] = {}

    async def admits(self, host: str) -> bool:
        """Whether a redirect to the host may be followed."""
        return host == self._host or not await self._private(host) or await self._private(self._host)

    async def _private(self, host: str) -> bool:
        """Whether an address of the host is not public. Behind a proxy names may mean nothing here; then the proxy decides."""
        if host not in self._is_private:
            try:
                found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except OSError:
                found = []
            self._is_private[host] = any(not ipaddress.ip_address(str(address[4][0]).partition("%")[0]).is_global for address in found)
        return self._is_private[host]
