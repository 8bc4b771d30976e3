"""What a corpus asks of a machine that is smaller than it: columns in files, and rows in the order of a key.

Stages import it; it knows nothing of them. An `Engine` is made by whoever knows the lake and the settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from mmlake.engine.scratch import Column, Scratch, TextColumn, cumulated, current, used
from mmlake.engine.settings import EngineSettings

if TYPE_CHECKING:  # a join of texts needs arrays alone, and starts sooner without Arrow
    import pyarrow as pa

    from mmlake.engine.cluster import Cluster, Kernel
    from mmlake.engine.relations import Relations

__all__ = ["Column", "Engine", "EngineSettings", "Scratch", "TextColumn", "cumulated", "current"]

_SORTED_SHARE = 16  # of the memory, which rows that are sorted at once may take: they are there four times
_SHARDS_AT_ONCE = 4
_ARRAY_SHARE = 32  # of the memory, which one array may take; a join has about a dozen at a time


class Engine:
    """The memory of one step, and the folder for what does not fit into it."""

    def __init__(self, folder: Path | None = None, settings: EngineSettings | None = None) -> None:
        """folder: unless the settings name one; a temporary one where neither does."""
        self.settings = settings or EngineSettings()
        memory_bytes = self.settings.memory_gib * 2**30
        self._most_sorted_bytes = memory_bytes / _SORTED_SHARE
        self.scratch = Scratch(self.settings.folder or folder, most_bytes=memory_bytes / _ARRAY_SHARE)

    @property
    def relations(self) -> Relations | Cluster:
        """Joins and group-bys over keys, within half of the memory, or on the cluster."""
        if self.settings.runner == "ray":
            return self._cluster
        from mmlake.engine.relations import Relations

        half = self.settings.memory_gib * 2**29
        return Relations(
            self.scratch, most_bytes=half, small_bytes=self._most_sorted_bytes, threads=self.settings.threads
        )

    def used(self) -> AbstractContextManager[None]:
        """A context in which large arrays are made here."""
        return used(self.scratch)

    def sorted_rows(self, parts: Iterable[pa.Table], by: Sequence[str]) -> Iterator[pa.Table]:
        """As `mmlake.engine.sorting.sorted_rows` says, within the memory."""
        if self.settings.runner == "ray":
            return self._cluster.sorted_rows(parts, by)
        from mmlake.engine.sorting import sorted_rows

        return sorted_rows(parts, by, scratch=self.scratch, most_bytes=self._most_sorted_bytes)

    def sorted_here(self, parts: Iterable[pa.Table], by: Sequence[str]) -> Iterator[pa.Table]:
        """The same on this machine, whoever sorts what is larger: rows of one shard, several of which are made at
        once, so that each has a quarter of the memory."""
        from mmlake.engine.sorting import sorted_rows

        return sorted_rows(parts, by, scratch=self.scratch, most_bytes=self._most_sorted_bytes / _SHARDS_AT_ONCE)

    def grouped(self, parts: Iterable[pa.Table], by: Sequence[str], kernel: Kernel) -> Iterator[pa.Table]:
        """What the kernel makes of the rows, sorted by the columns; it is given all rows of some values of the first
        column at a time. Of rows that are equal in all of the columns the first that came counts.

        kernel: a function of the top of a module, or a `partial` of one, from table to table."""
        if self.settings.runner == "ray":
            return self._cluster.grouped(parts, by, kernel)
        return map(kernel, self.sorted_rows(parts, by))

    @property
    def _cluster(self) -> Cluster:
        from mmlake.engine.cluster import Cluster

        settings = self.settings
        folder = Path(settings.cluster_folder) if settings.cluster_folder else None
        return Cluster(settings.cluster, self.scratch, folder, threads=settings.threads)
