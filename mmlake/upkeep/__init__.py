"""Upkeep of a lake: is everything still what its name says, what does nobody need, who uses how much, what failed
and may be tried again."""

from __future__ import annotations

from mmlake.upkeep.failures import failed_rows, request_retries
from mmlake.upkeep.garbage_collection import GRACE_S, Collected, collect
from mmlake.upkeep.integrity import check_blobs, check_tables, named_blobs, sampled
from mmlake.upkeep.inventory import KINDS, Checked, Kind, checked_all, checked_and_repaired, kind_of, named
from mmlake.upkeep.leftovers import refuse_pipes, remove_leftovers
from mmlake.upkeep.repair import repair_blobs
from mmlake.upkeep.strangers import strangers
from mmlake.upkeep.usage import Usage, usage

__all__ = [
    "GRACE_S",
    "KINDS",
    "Checked",
    "Kind",
    "checked_all",
    "checked_and_repaired",
    "kind_of",
    "named",
    "Collected",
    "Usage",
    "check_blobs",
    "check_tables",
    "collect",
    "failed_rows",
    "named_blobs",
    "refuse_pipes",
    "remove_leftovers",
    "repair_blobs",
    "request_retries",
    "sampled",
    "strangers",
    "usage",
]
