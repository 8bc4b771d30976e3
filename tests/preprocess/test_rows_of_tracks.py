"""A shard of a million lines: few of its rows are Python objects at once."""

from __future__ import annotations

import sys
import weakref

import pyarrow as pa
import pytest
from preprocess_media import items

from mmlake import preprocess, schemas
from mmlake.modalities import MODALITIES
from mmlake.preprocess import decoding
from mmlake.store import BlobStore

tracks_module = sys.modules["mmlake.preprocess.tracks"]  # the package has a function of that name


def made(rows: pa.Table, store: BlobStore) -> pa.Table:
    return preprocess.tracks(rows, "text", decoder=MODALITIES["text"].decoder, store=store)


@pytest.fixture
def rows(tmp_path):
    store = BlobStore(tmp_path / "blobs")
    with store.batch():
        table = items(store, [f"text number {at // 2}".encode() for at in range(600)], "text")
    return table, store


def test_parts_make_the_table_that_one_makes(rows, monkeypatch):
    table, store = rows
    expected = made(table, store)
    monkeypatch.setattr(tracks_module, "_HELD_ROWS", 7)
    again = made(table.take(pa.array([*range(599, -1, -1)])), store)
    assert again.equals(expected) and again.num_rows == 300
    assert all(column.num_chunks == 1 for column in again.columns)


def test_the_records_of_items_are_made_as_they_are_wanted(rows, monkeypatch):
    table, store = rows
    monkeypatch.setattr(tracks_module, "_HELD_ROWS", 10)
    living, now, kernel = [], weakref.WeakSet(), decoding.TEXT_DECODER.kernel

    class Counted(tracks_module._Occurrences):
        """Without slots, so that it may be referred to weakly."""

        def __init__(self, *values, **named):
            super().__init__(*values, **named)
            now.add(self)

        __hash__ = object.__hash__

    monkeypatch.setattr(tracks_module, "_Occurrences", Counted)

    def counting(item, **settings):
        living.append(len(now))
        return kernel(item, **settings)

    decoder = decoding.Decoder(kernel=counting, in_memory=True)
    preprocess.tracks(table, "text", decoder=decoder, store=store)
    assert len(living) == 300 and 0 < max(living) < 5


def test_items_without_rows_make_an_empty_table(rows):
    table, store = rows
    assert made(table.slice(0, 0), store).equals(schemas.empty(schemas.TRACKS))
