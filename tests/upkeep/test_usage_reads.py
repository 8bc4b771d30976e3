"""`mmlake usage` over many versions: the items of each are read once, besides the search for what something names."""

from __future__ import annotations

from collections import Counter

from mmlake.upkeep.usage import usage
from mmlake.versions import VersionStore


def test_the_items_of_each_version_are_read_once(done, monkeypatch) -> None:
    read = Counter[str]()
    items = VersionStore.items
    monkeypatch.setattr(VersionStore, "items", lambda store, ref: read.update([ref]) or items(store, ref))
    found = usage(done.lake)
    assert len(found.versions) == len(read) and set(read.values()) == {1}
    assert found.missing_blobs == 0 and all(share.num_blobs for share in found.versions)
