"""What a user may set about joins that are larger than memory."""

from __future__ import annotations

from dataclasses import dataclass

from mmlake.errors import SettingsError

RUNNERS = ("local", "ray")


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
    runner: str = "local"
    # who joins, groups and sorts keys and fingerprints: "local", this machine, or "ray", a cluster (extra `ray`)
    cluster: str = ""
    # address of a Ray cluster, "HOST:PORT"; empty: one of this machine, begun with the first question
    cluster_folder: str = ""
    # that all machines of the cluster see, for what goes there and comes back; empty: `folder`

    def __post_init__(self) -> None:
        if self.runner not in RUNNERS:
            raise SettingsError(f"engine.runner is {self.runner!r}, expected one of {', '.join(RUNNERS)}")
        if self.cluster and self.runner != "ray":
            raise SettingsError(
                f'engine.cluster is {self.cluster!r} and engine.runner is {self.runner!r}; set runner = "ray", or no '
                "cluster"
            )
