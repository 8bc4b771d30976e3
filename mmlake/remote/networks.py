"""Which addresses of the network may be connected to: a name is resolved, checked and connected to in one step.

A list of URLs and a server's redirects come from outside, so they must not lead to what only this machine can reach
(server-side request forgery). Were a name resolved once for the check and again for the connection, its owner could
give two answers (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

Lookup = Callable[[str, int], Awaitable[list[str]]]  # host name and port -> its addresses

_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052: the last four bytes are an IPv4 address
_PLATFORM = frozenset({"168.63.129.16"})  # public by number, but Azure's host agent answers there


async def addresses_of(host: str, port: int) -> list[str]:
    """The addresses that this machine's resolver knows for the name. Raises OSError where it knows none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


class Networks:
    """Which addresses of the network may be connected to."""

    def __init__(self, allowed: tuple[str, ...] = ()) -> None:
        self._allowed = tuple(ipaddress.ip_network(network) for network in allowed)
        # called for every request, mostly with the same few addresses
        self.allows = lru_cache(maxsize=1024)(self._allows)

    def _allows(self, text: str) -> bool:
        """Whether the numeric address is public, or in a network that the settings allow."""
        try:
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        if any(address in network for network in self._allowed):
            return True
        return all(_is_public(one) for one in (address, *_inside(address)))


@lru_cache(maxsize=1024)
def is_numeric(host: str) -> bool:
    """Whether the host is a numeric address, about which no resolver is asked."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    unusual = (
        address.is_multicast
        or address.is_reserved
        and not (isinstance(address, ipaddress.IPv6Address) and address in _NAT64)
    )
    return address.is_global and not unusual and str(address) not in _PLATFORM


def _inside(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses at which packets to this IPv6 address may end, by 6to4, Teredo or NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found = [address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]


class AddressRefused(Exception):
    """A host has no address that may be connected to."""


def checking_resolver(networks: Networks, lookup: Lookup) -> Any:
    """An aiohttp resolver that returns only addresses which `networks` allows. It raises AddressRefused where a name
    has none."""
    from aiohttp.abc import AbstractResolver, ResolveResult

    class Resolver(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> list[ResolveResult]:
            found = [address for address in await lookup(host, port) if networks.allows(address)]
            if not found:
                raise AddressRefused
            flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
            families = {address: socket.AF_INET6 if ":" in address else socket.AF_INET for address in found}
            return [
                ResolveResult(hostname=host, host=address, port=port, family=families[address], proto=0, flags=flags)
                for address in found
            ]

        async def close(self) -> None:
            pass

    return Resolver()
