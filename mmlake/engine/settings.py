"""What a user may set about joins that are larger than memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings:
    """How much memory joins and group-bys over a whole corpus take, and where they put the rest. No table depends on
    it. JSON-able."""

    memory_gib: float = 2.0
    # what one step holds of sorts, joins and columns at a time; beyond it, they lie in files
    threads: int = 2
    # of a join or group-by; the outcome is the same for any number
    folder: str = ""
    # for files while a step runs, on a local disk; empty: `scratch` in the lake. /tmp is memory on many machines
