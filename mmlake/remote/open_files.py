"""How many files this process may open, a limit that many workers meet first.

`ensure` is called at the start of a run: one that ends after an hour with "too many open files" has wasted the hour.
"""

from __future__ import annotations

import contextlib
import logging
import resource
from dataclasses import dataclass

from mmlake.errors import SettingsError

_LOG = logging.getLogger("mmlake.remote")
# per process: a small run holds 32 at most; a large corpus adds packs, Lance fragments and a pool of connections
FIXED = 256
# twice what one worker holds: a shard, its temporary copy, a pack, a table, connections and cache blocks
PER_WORKER = 64
_LEAST = 128  # four times what a small run holds: with fewer a real one ends in the middle


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The open files that this process may have."""

    soft: int  # in force
    hard: int  # what the soft limit may be raised to without privileges
    needed: int  # for the given number of workers


def needed(num_workers: int) -> int:
    """Open files that so many workers of one process may want at once."""
    return FIXED + PER_WORKER * max(1, num_workers)


def ensure(num_workers: int) -> Descriptors:
    """The limits, after the soft one was raised as far as the system allows. Warns where that is too few for the
    workers.

    Raises SettingsError below 128 files, with which a real run would end in the middle.
    """
    wanted = needed(num_workers)
    soft, hard = _limits()
    if soft < hard:
        for aim in (hard, min(hard, wanted)):  # macOS states an infinite hard limit and refuses to set it
            if aim <= soft:
                continue
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (aim, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
                break
        soft, hard = _limits()
    remedy = (
        f"raise it with `ulimit -n {wanted}` (a service: LimitNOFILE={wanted}; a container: --ulimit nofile={wanted})"
    )
    if soft < _LEAST:
        raise SettingsError(
            f"this process may open {soft} files, hard limit {hard}, expected at least {wanted} for {num_workers} "
            f"workers; {remedy}"
        )
    if soft < wanted:
        _LOG.warning(
            "this process may open %d files, %d workers may want %d; %s, or use at most %d workers",
            soft,
            num_workers,
            wanted,
            remedy,
            max(1, (soft - FIXED) // PER_WORKER),
        )
    return Descriptors(soft, hard, wanted)


def _limits() -> tuple[int, int]:
    """(soft, hard); an infinite limit as a large number."""
    endless = 1 << 30
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (endless if soft == resource.RLIM_INFINITY else soft, endless if hard == resource.RLIM_INFINITY else hard)
