"""Ports for servers that must be given their number before they take it."""

from __future__ import annotations

import os
import random
import socket

# below the ports that kernels give to a program that asks for any, and to connections: nothing takes one of these by
# chance
_FIRST, _EACH = 12_000, 2_000


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on. The workers of a parallel run choose among different ones, and
    runs side by side hardly ever the same."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = _FIRST + _EACH * (worker % 10)
    for port in random.SystemRandom().sample(range(first, first + _EACH), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"none of 100 ports from {first} on is free")
