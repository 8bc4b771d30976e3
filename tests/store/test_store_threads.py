"""Threads that read through one store object, from its very first scan of the packs on."""

from __future__ import annotations

import os
import threading

import pytest

from mmlake.store import BlobStore
from mmlake.store.pack_directory import Packs


def test_a_thread_that_comes_while_another_lists_the_packs_waits_for_the_list(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = BlobStore(tmp_path)
    with writer.batch():
        digest = writer.put(b"a small blob")
    os.utime(tmp_path / "packs", (1, 1))  # a directory that changed long ago is not listed again on a miss
    listing, asked = threading.Event(), threading.Event()
    listed = Packs._listed

    def slow(self: Packs, known):
        listing.set()
        asked.wait(0.1)
        return listed(self, known)

    monkeypatch.setattr(Packs, "_listed", slow)
    store, found = BlobStore(tmp_path), []
    first = threading.Thread(target=lambda: found.append(digest in store))
    first.start()
    listing.wait(5)
    found.append(digest in store)
    asked.set()
    first.join()
    assert found == [True, True]
