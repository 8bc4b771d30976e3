"""How much memory a process that reads foreign bytes may still take: one limit for worker processes and for those that
read columnar files. It imports nothing that such a process does not need anyway."""

from __future__ import annotations

import os
import resource
from contextlib import suppress


def limit_memory(size_bytes: int, *, is_final: bool = False) -> None:
    """Let this process take so much more than it has now, in bytes. Not by its address space, of which threads and
    pools reserve what they never use. Systems without /proc have no limit. is_final: whether nothing may raise it."""
    with suppress(OSError, ValueError, IndexError):
        with open("/proc/self/statm", "rb") as statm:
            taken_bytes = int(statm.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        wanted = taken_bytes + size_bytes
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, soft if is_final else hard))
