"""How many cores this process may keep busy."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Cores that this process may keep busy: those of its affinity, at most the quota of its cgroup rounded up; at
    least 1."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        cores = os.cpu_count() or 1
    return max(1, min(cores, _quota() or cores))


def _quota() -> int | None:
    """Cores that the cgroup grants in time; None where it grants all. Version 2, else version 1."""
    with suppress(OSError, ValueError):
        own = Path("/proc/self/cgroup").read_text().rpartition("0::")[2].strip().lstrip("/")
        for directory in (_CGROUPS / own, _CGROUPS):
            with suppress(OSError):
                granted, _, period = (directory / "cpu.max").read_text().partition(" ")
                return None if granted == "max" else math.ceil(int(granted) / int(period))
        granted_us = int((_CGROUPS / "cpu/cpu.cfs_quota_us").read_text())
        return math.ceil(granted_us / int((_CGROUPS / "cpu/cpu.cfs_period_us").read_text())) if granted_us > 0 else None
    return None
