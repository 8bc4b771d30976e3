"""Files in a lake that are of no kind."""

from __future__ import annotations

from mmlake.lake import Lake
from mmlake.upkeep.inventory import kind_of
from mmlake.upkeep.leftovers import files_of


def strangers(lake: Lake) -> list[str]:
    """The files in the lake, below it and sorted, that are of no kind: nothing of ours reads them or checks them."""
    paths = (path.relative_to(lake.root).as_posix() for path in files_of(lake.root))
    return sorted(path for path in paths if kind_of(path) is None)
