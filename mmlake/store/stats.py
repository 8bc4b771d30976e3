"""How much lies in a store, counted from its indexes and a list of its single blobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mmlake.records import Digest
from mmlake.store.blobs import StoreStats
from mmlake.store.index import PackIndex, places


def counted(
    indexes: Sequence[PackIndex], singles: Iterable[tuple[Digest, int]], *, is_packed: Callable[[Digest], bool]
) -> StoreStats:
    """The numbers of a store with these packs and these (digest, size in bytes) of blobs that lie by themselves."""
    num_packed = packed_bytes = num_loose = loose_bytes = num_spare = spare_bytes = 0
    for (_, first), *others in places(indexes):
        num_packed, packed_bytes = num_packed + 1, packed_bytes + first.size_bytes
        num_spare, spare_bytes = num_spare + len(others), spare_bytes + len(others) * first.size_bytes
    for digest, size_bytes in singles:
        if is_packed(digest):
            num_spare, spare_bytes = num_spare + 1, spare_bytes + size_bytes
        else:
            num_loose, loose_bytes = num_loose + 1, loose_bytes + size_bytes
    return StoreStats(
        num_loose=num_loose,
        loose_bytes=loose_bytes,
        num_packed=num_packed,
        packed_bytes=packed_bytes,
        num_packs=len(indexes),
        num_spare=num_spare,
        spare_bytes=spare_bytes,
    )
