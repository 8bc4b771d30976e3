"""HTTP clients for landing zones: pools of connections in fsspec's I/O thread; some reach public addresses alone."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import wait
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from mmlake.remote import networks
from mmlake.remote.backoff import Transient
from mmlake.remote.credentials import Login
from mmlake.remote.networks import Networks, checking_resolver, is_numeric

_Result = TypeVar("_Result")
_CONNECT_S, _IDLE_S = 10, 60  # as in `remote/s3.py`
_CLOSING_S = 1.0
_Key = tuple[int, int, bool]  # (process, connections, public only): a forked child makes its own, in its own I/O thread
PUBLIC, _ALL = Networks(), Networks(("0.0.0.0/0", "::/0"))


def run(action: Callable[[], Awaitable[_Result]]) -> _Result:
    """What the coroutine returns or raises, run in fsspec's I/O thread."""
    from fsspec.asyn import get_loop, sync

    return sync(get_loop(), action)  # type: ignore[no-any-return]


class HttpClients:
    """The HTTP clients of one set of connections, made when first asked for, closed when the connections goes or the
    process ends."""

    def __init__(self) -> None:
        self._clients: dict[_Key, Any] = {}
        weakref.finalize(self, _close, self._clients)

    async def client(self, connections: int, *, is_public_only: bool = False) -> Any:
        """The client with so many connections. It keeps no cookies, and sends no login but the one that a request
        brings.

        is_public_only: names are resolved to public addresses alone, and its requests raise AddressRefused where there
        is none. Numeric hosts are for the caller to check.
        """
        key = (os.getpid(), connections, is_public_only)
        if key not in self._clients:
            import aiohttp

            resolver = checking_resolver(PUBLIC if is_public_only else _ALL, _addresses_of)
            self._clients[key] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=connections, resolver=resolver, use_dns_cache=False),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_IDLE_S),
                headers={"User-Agent": "mmlake"},
            )
        return self._clients[key]


async def _addresses_of(host: str, port: int) -> list[str]:
    return await networks.addresses_of(host, port)  # by its module, so that tests can replace it


def proxy_for(url: str) -> dict[str, Any]:
    """Arguments of a request that send it through the environment's proxy (HTTP_PROXY, HTTPS_PROXY, NO_PROXY); empty
    where there is none for the address."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    if not proxy or proxy_bypass(parts.netloc):
        return {}
    found = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    plain = found._replace(netloc=found.netloc.rpartition("@")[2]).geturl()
    if found.username is None:
        return {"proxy": plain}
    return {
        "proxy": plain,
        "proxy_headers": {"Proxy-Authorization": Login(unquote(found.username), unquote(found.password or "")).basic},
    }


def _close(clients: dict[_Key, Any]) -> None:
    """Close this process's connections, which else would be warned of. Also called by the garbage collector, in any
    thread: the I/O thread cannot wait for itself."""
    mine = [client for (process, *_), client in clients.items() if process == os.getpid()]
    clients.clear()
    if not mine:
        return
    from fsspec.asyn import get_loop, iothread

    async def close() -> None:
        for client in mine:
            await client.close()

    closing = asyncio.run_coroutine_threadsafe(close(), get_loop())
    if threading.current_thread() is not iothread[0]:
        wait([closing], timeout=_CLOSING_S)


class Neighbourhood:
    """Where the requests of a landing zone may lead.

    A person names the landing zone, so it may be in a private network. A public server must not lead into one, by a
    redirect or by another answer of its name server: this machine would then read for it what only this machine can
    reach, such as a cloud's metadata service (server-side request forgery).
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._is_public: bool | None = None

    async def is_public(self) -> bool:
        """Whether the landing zone's server had a public address when it was first asked for. Raises Transient where
        its name has no address."""
        if self._is_public is None:
            found = await _known_addresses(self._host)
            if not found:
                raise Transient("no address for the host's name")
            self._is_public = any(map(PUBLIC.allows, found))
        return self._is_public

    async def admits(self, host: str, *, is_by_proxy: bool) -> bool:
        """Whether a redirect to the host may be followed. Names are checked when they are connected to; behind a
        proxy, which resolves them itself, by what this machine's resolver says."""
        if host == self._host:
            return True
        if is_by_proxy:
            here, there = await _known_addresses(self._host), await _known_addresses(host)
            is_inside = bool(here) and not any(map(PUBLIC.allows, here))
            return is_inside or all(map(PUBLIC.allows, there))
        return not is_numeric(host) or PUBLIC.allows(host) or not await self.is_public()


async def _known_addresses(host: str) -> list[str]:
    if is_numeric(host):
        return [host]
    try:
        return await networks.addresses_of(host, 0)
    except OSError:
        return []
