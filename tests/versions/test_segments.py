"""Segments: cut by source shard, named by their values, shared between versions."""

from __future__ import annotations

import os
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake.errors import BlobCorrupt
from mmlake.versions import VersionStore
from mmlake.versions.sample_schemas import VERSION_SAMPLES
from mmlake.versions.segments import cut
from mmlake.versions.values import digest_of_values
from tests.versions.sample_rows import build, chosen, many, name, of_shards


@pytest.fixture
def store(tmp_path) -> VersionStore:
    return VersionStore(tmp_path, clock=lambda: "2026-01-01T00:00:00+00:00")


def test_samples_come_back_sorted_and_whole(store, monkeypatch) -> None:
    monkeypatch.setattr("mmlake.versions.segments.MAX_SAMPLES", 64)
    manifest = build(store, rows := many(1000, weight=0.25))
    assert store.samples(manifest.id).equals(chosen(rows).samples)
    assert store.items(manifest.id)["digest"].to_pylist() == sorted(name(number) for number in range(1000))
    assert sum(part.num_rows for part in store.iter_items(manifest.id)) == 1000
    assert len(store.tree(manifest.id).segments) == 16


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 3)), min_size=1, max_size=60))
def test_segments_hold_every_row_once_by_shard_and_range_of_names(rows: list[tuple[int, int]]) -> None:
    table = pa.table({"sample": [name(number) for number, _ in rows], "shard": [f"s{shard}" for _, shard in rows]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mmlake.versions.segments.MAX_SAMPLES", 4)
        pieces = [piece.to_pylist() for piece in cut(table)]
    joined = [(row["shard"], row["sample"]) for piece in pieces for row in piece]
    assert joined == sorted(zip(table["shard"].to_pylist(), table["sample"].to_pylist(), strict=True))
    assert all(len({row["shard"] for row in piece}) == 1 for piece in pieces)
    for before, after in zip(pieces[:-1], pieces[1:], strict=True):
        if before[0]["shard"] == after[0]["shard"]:
            assert before[-1]["sample"][:4] < after[0]["sample"][:4]


def test_one_percent_more_items_rewrites_the_new_shards_and_two_percent_of_the_others(store) -> None:
    rows, samples = of_shards(*[20] * 100)
    more_rows, more = of_shards(20, start=100)
    old = build(store, rows, samples)
    # one of the new items takes the place of an old one
    gone = rows[0] | {"tier": "near", "survivor": more_rows[0]["digest"]}
    new = build(store, [gone, *rows[1:], *more_rows], samples + more)
    written = _segments(store, new) - _segments(store, old)
    others = {one for one in written if one[0] != "news/0100"}
    assert {shard for shard, _ in others} == {"news/0000"}
    assert len(others) <= 0.02 * len(_segments(store, old))
    assert (len(written), len(new.excluded_segments), len(old.excluded_segments)) == (2, 1, 0)


def _segments(store: VersionStore, made) -> set[tuple[str | None, str]]:
    return {(segment.shard, segment.digest) for segment in store.tree(made.id).segments}


def test_excluded_rows_are_shared_shard_by_shard_too(store) -> None:
    rows, samples = of_shards(5, 5, 5)
    out = [row | {"status": "quarantined", "rule": "blank"} for row in rows]
    old = build(store, out, samples)
    new = build(store, [rows[0], *out[1:]], samples)
    shared = {one.digest for one in old.excluded_segments} & {one.digest for one in new.excluded_segments}
    assert (len(old.excluded_segments), len(shared)) == (3, 2)


def test_a_segment_is_named_by_its_values_whatever_the_file(store) -> None:
    made = build(store, many(20))
    (segment,) = store.tree(made.id).segments
    path = store.segments.path(segment.digest)
    table = pq.read_table(path)
    pq.write_table(table, path, compression="gzip", row_group_size=3, use_dictionary=True)
    assert store.verify(made.id) == []
    chunked = pa.concat_tables([table.slice(0, 7), table.slice(7)])
    assert digest_of_values(table) == digest_of_values(chunked) == (segment.digest, segment.size_bytes)


_VALUES = {
    "text": st.one_of(st.none(), st.text(max_size=3)),
    "flag": st.one_of(st.none(), st.booleans()),
    "number": st.one_of(st.none(), st.integers(-5, 5)),
    "list": st.one_of(st.none(), st.lists(st.one_of(st.none(), st.text(max_size=2)), max_size=2)),
}
_KINDS = {"text": pa.string(), "flag": pa.bool_(), "number": pa.int64(), "list": pa.list_(pa.string())}
_ROWS = st.lists(st.fixed_dictionaries(_VALUES), max_size=5)


@given(_ROWS, _ROWS, st.integers(0, 5))
def test_digests_of_values_are_equal_where_the_values_are(rows: list[dict], others: list[dict], at: int) -> None:
    one, other = (pa.Table.from_pylist(each, schema=pa.schema(list(_KINDS.items()))) for each in (rows, others))
    assert (digest_of_values(one) == digest_of_values(other)) == (rows == others)
    assert digest_of_values(pa.concat_tables([one.slice(0, at), one.slice(at)])) == digest_of_values(one)
    longer = pa.concat_tables([other, one]).slice(len(others))  # the same rows in the middle of larger buffers
    assert digest_of_values(longer) == digest_of_values(one)


def test_a_segment_that_was_checked_is_decoded_once_whichever_store_reads_it(store, tmp_path, monkeypatch) -> None:
    """The dozen steps of a version open the lake anew, each; what they share is the file."""
    made = build(store, many(20))
    expected = store.samples(made.id)
    monkeypatch.setattr(pq, "ParquetFile", None)
    assert VersionStore(tmp_path).samples(made.id).equals(expected)
    assert VersionStore(tmp_path).verify(made.id) == []


def test_damage_to_a_segment_that_was_checked_is_found_whatever_its_times(store) -> None:
    made = build(store, many(20))
    assert store.verify(made.id) == []
    path = store.segments.path(store.tree(made.id).segments[0].digest)
    before, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert len(store.verify(made.id)) == 1


def test_a_tree_that_counts_other_bytes_is_refused_whoever_read_the_segment(store) -> None:
    made = build(store, many(20))
    (segment,) = store.tree(made.id).segments
    store.segments.read(segment, VERSION_SAMPLES)
    for other in (replace(segment, size_bytes=segment.size_bytes + 1), replace(segment, num_rows=19)):
        with pytest.raises(BlobCorrupt):
            store.segments.read(other, VERSION_SAMPLES)


def test_a_missing_segment_is_named(store) -> None:
    manifest = build(store, many(3))
    store.segments.path(store.tree(manifest.id).segments[0].digest).unlink()
    assert "absent" in store.verify(manifest.id)[0]


def test_a_segment_that_unpacks_to_more_than_the_tree_says_is_refused(store) -> None:
    manifest = build(store, many(3))
    (segment,) = store.tree(manifest.id).segments
    path = store.segments.path(segment.digest)
    table = pq.read_table(path)
    long = pa.array(["0" * 50_000_000] * 3)
    for bomb in (pa.concat_tables([table] * 9999), table.set_column(1, "lead", long)):
        pq.write_table(bomb, path, compression="zstd", use_dictionary=False)
        with pytest.raises(BlobCorrupt):
            store.items(manifest.id)
