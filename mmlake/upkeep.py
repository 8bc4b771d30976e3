"""Checks of what lies on disk, for `mmlake fsck`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mmlake.errors import MmlakeError
from mmlake.lake import Lake
from mmlake.records import Digest
from mmlake.tables import Slot


def check_blobs(lake: Lake, digests: Iterable[Digest]) -> Iterator[str]:
    """A sentence for each blob whose bytes are not what its name says."""
    for digest in digests:
        if (wrong := lake.store.verify(digest)) is not None:
            yield f"blob {digest} is {wrong}: ingest its shard again (`mmlake why {digest[:12]}` names it)"


def check_tables(lake: Lake, slots: Iterable[Slot]) -> Iterator[str]:
    """A sentence for each stage table whose bytes are not what its stamp says."""
    for slot in slots:
        if not lake.tables.path(slot).exists():
            if slot.modality != "all":
                yield f"table {slot} has a stamp but no rows; run `mmlake run` after removing {slot.shard}.stamp.json"
            continue
        try:
            lake.tables.read(slot, columns=[])
        except MmlakeError as error:
            yield str(error)
