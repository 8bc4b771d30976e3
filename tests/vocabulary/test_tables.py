"""Stage tables: what is written is read back, damage is noticed, a killed writer leaves no table, and the data
version is of the rows alone."""

from __future__ import annotations

import json
import os
import random
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake import checked_json
from mmlake.errors import MmlakeError, SchemaMismatch, SettingsError, TableCorrupt
from mmlake.records import digest_of
from mmlake.schemas import MEASURES, TRACKS, conform, empty, from_rows
from mmlake.tables import ALL, Slot, Stamp, Stopwatch, Tables, joint_version

SLOT = Slot("measures", "image", "news/2026.tar")
MADE = {"code_version": "1", "settings_digest": "s", "inputs": {"image/tracks[news/2026.tar]": "v"}}


def rows(count: int, *, value: float = 1.5) -> pa.Table:
    return from_rows(
        MEASURES,
        [
            {"digest": digest_of(number.to_bytes(4, "big")), "measure": "min_side_px", "value": value, "status": "ok"}
            | {"producer": "image", "revision": "1"}
            for number in range(count)
        ],
    )


@pytest.fixture
def tables(tmp_path) -> Tables:
    return Tables(tmp_path / "tables")


def test_rows_come_back_as_they_were_written(tables) -> None:
    tables.write(SLOT, MEASURES, rows(100), **MADE)
    assert tables.read(SLOT).equals(rows(100), check_metadata=True)


def test_the_stamp_says_what_made_the_table(tables) -> None:
    given_fields = MADE | {
        "counts": {"ok": 3},
        "seconds": 1.25,
        "cpu_seconds": 0.5,
        "media_bytes": 7,
        "run_id": "r",
        "written_at": "2026-11-21T08:00:00+00:00",
    }
    written = tables.write(SLOT, MEASURES, rows(3), **given_fields)
    data = tables.path(SLOT).read_bytes()
    assert (
        tables.stamp(SLOT)
        == written
        == Stamp(
            data_version=digest_of(data),
            schema_version=MEASURES.version,
            num_rows=3,
            size_bytes=len(data),
            slot=str(SLOT),
            **given_fields,
        )
    )


def test_a_stamp_in_the_place_of_another_is_an_error_with_and_without_rows(tables) -> None:
    """Two tables that had changed places, each with its stamp, were read as each other."""
    other, catalog = replace(SLOT, shard="other"), Slot("catalog", "image")
    for slot in (SLOT, other):
        tables.write(slot, MEASURES, rows(3 + len(slot.shard)), **MADE)
    stamp = tables.mark(catalog, tables.stamp(SLOT))
    files = {slot: [tables.path(slot), tables.path(slot).with_name(f"{Path(slot.shard).name}.stamp.json")] for slot in
             (SLOT, other)}  # fmt: skip
    for mine, theirs in zip(*files.values(), strict=True):
        data = mine.read_bytes()
        mine.write_bytes(theirs.read_bytes())
        theirs.write_bytes(data)
    for slot, whose in ((SLOT, other), (other, SLOT)):
        with pytest.raises(TableCorrupt, match=re.escape(f"the stamp of table {slot} is that of {whose}")):
            tables.read(slot)
    assert tables.stamp(catalog) == stamp


def test_a_stamp_of_an_earlier_release_does_not_say_whose_it_is(tables) -> None:
    tables.write(SLOT, MEASURES, rows(3), **MADE)
    path = tables.path(SLOT).with_name("2026.tar.stamp.json")
    fields = checked_json.loads(path.read_bytes())
    del fields["slot"]
    path.write_bytes(checked_json.dumps(fields))
    assert tables.read(SLOT).num_rows == 3


def test_a_table_lies_where_its_slot_says(tables) -> None:
    tables.write(SLOT, MEASURES, rows(1), **MADE)
    home = tables.root / "measures" / "image" / "news"
    assert sorted(os.listdir(home)) == ["2026.tar.parquet", "2026.tar.stamp.json"]


@pytest.mark.parametrize(
    ("slot", "text"),
    [
        (SLOT, "image/measures[news/2026.tar]"),
        (Slot("pairs", "text"), "text/pairs"),
        (Slot("catalog", "all", ALL), "all/catalog"),
    ],
)
def test_a_slot_is_spelled_in_one_way(slot, text) -> None:
    assert str(slot) == text


@pytest.mark.parametrize("shard", [ALL, "a.tar", "news/2026.tar", "a[1]", "]", "two\nlines", "", "a=b@c+d"])
def test_a_spelled_slot_is_read_back(shard) -> None:
    assert Slot.parse(str(Slot("tracks", "image", shard))) == Slot("tracks", "image", shard)


@pytest.mark.parametrize(
    "text", ["", "image", "image/", "/tracks", "landing/a/b", "image/tracks[a", "image/tracks[a]x", "image[a]/tracks"]
)
def test_what_is_no_slot_is_refused(text) -> None:
    with pytest.raises(SettingsError, match="is no slot; expected 'modality/table'"):
        Slot.parse(text)


def test_the_joint_version_is_of_every_shard(tables) -> None:
    for shard, count in (("a", 1), ("b", 2)):
        tables.write(Slot("measures", "image", shard), MEASURES, rows(count), **MADE)
    stamps = tables.stamps("measures", "image")
    lines = [f"{shard}={tables.stamp(Slot('measures', 'image', shard)).data_version}" for shard in "ab"]
    assert joint_version(stamps) == digest_of("\n".join(lines).encode())


def test_a_stopwatch_gives_the_times_of_a_stamp() -> None:
    fields = Stopwatch().fields()
    assert sorted(fields) == ["cpu_seconds", "seconds", "written_at"]
    assert 0 <= fields["seconds"] < 60 and fields["written_at"].endswith("+00:00")


def test_an_empty_table_is_a_table(tables) -> None:
    tables.write(SLOT, MEASURES, empty(MEASURES), **MADE)
    assert tables.read(SLOT).equals(empty(MEASURES), check_metadata=True)


def test_columns_are_read_in_the_order_asked_for(tables) -> None:
    tables.write(SLOT, MEASURES, rows(5), **MADE)
    assert tables.read(SLOT, columns=["value", "digest"]).equals(rows(5).select(["value", "digest"]))


def test_a_column_that_the_table_does_not_have_is_named(tables) -> None:
    tables.write(SLOT, MEASURES, rows(5), **MADE)
    with pytest.raises(SchemaMismatch, match=r"image/measures.* has no columns \['unit'\] .schema v4.; re-materialize"):
        tables.read(SLOT, columns=["digest", "unit"])


def test_nested_columns_survive_the_file(tables) -> None:
    keyframes = [{"time_s": 0.5, "digest": "k", "shot": 0}]
    row = {
        "digest": "d",
        "modality": "video",
        "role": "media",
        "status": "ok",
        "size_bytes": 3,
        "transcript_source": "none",
        "keyframes": keyframes,
    }
    tables.write(Slot("tracks", "video", "a"), TRACKS, from_rows(TRACKS, [row]), **MADE)
    assert tables.read(Slot("tracks", "video", "a")).to_pylist() == from_rows(TRACKS, [row]).to_pylist()


def test_rows_that_break_the_schema_are_not_written(tables) -> None:
    with pytest.raises(SchemaMismatch):
        tables.write(SLOT, MEASURES, pa.table({"digest": ["a"]}), **MADE)
    assert not tables.has("measures", "image", SLOT.shard)


def test_rows_that_share_a_key_are_refused_with_counts(tables) -> None:
    table = pa.concat_tables([rows(3), rows(2)])
    with pytest.raises(
        SchemaMismatch, match=r"image/measures\[news/2026.tar\]: 2 of 5 rows repeat a key \('digest', 'measure'\)"
    ):
        tables.write(SLOT, MEASURES, table, **MADE)
    assert not tables.path(SLOT).exists()


def test_half_a_key_may_repeat(tables) -> None:
    taken = {"status": "ok", "producer": "p", "revision": "1"}
    table = from_rows(MEASURES, [{"digest": "d", "measure": name} | taken for name in "ab"])
    assert tables.write(SLOT, MEASURES, table, **MADE).num_rows == 2


@settings(max_examples=25)
@given(st.randoms(use_true_random=False), st.integers(1, 7))
def test_the_data_version_does_not_depend_on_arrival(chance, num_chunks) -> None:
    """Neither on the order of the rows, nor on how they were batched."""
    plain = rows(50)
    order = chance.sample(range(50), 50)
    parts = [plain.take(order[start::num_chunks]) for start in range(num_chunks)]
    assert version_of(pa.concat_tables(parts)) == version_of(plain)


def version_of(table: pa.Table, **stamp) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return Tables(folder).write(SLOT, MEASURES, table, **(MADE | stamp)).data_version


OTHER_RUN = {
    "seconds": 9.0,
    "cpu_seconds": 9.0,
    "run_id": "other",
    "written_at": "later",
    "inputs": {},
    "counts": {"ok": 1},
    "settings_digest": "t",
    "code_version": "2",
}


@pytest.mark.parametrize("stamp", [{name: value} for name, value in OTHER_RUN.items()], ids=OTHER_RUN)
def test_the_data_version_does_not_depend_on_the_stamp(stamp) -> None:
    assert version_of(rows(20), **stamp) == version_of(rows(20))


def test_the_data_version_does_not_depend_on_foreign_metadata_or_columns() -> None:
    assert version_of(
        rows(20).append_column("remark", pa.nulls(20)).replace_schema_metadata({"pandas": "{}"})
    ) == version_of(rows(20))


NULLS = conform(MEASURES, rows(20).set_column(2, "value", pa.nulls(20, pa.float64())))


@pytest.mark.parametrize(
    "other",
    [rows(19), rows(20, value=1.5000000000000002), rows(20, value=float("nan")), NULLS],
    ids=["row gone", "last bit", "nan", "nulls"],
)
def test_the_data_version_changes_with_any_row(other) -> None:
    assert version_of(other) != version_of(rows(20))


def test_any_flipped_bit_of_the_rows_is_noticed(tables) -> None:
    tables.write(SLOT, MEASURES, rows(2000), **MADE)
    path, rng = tables.path(SLOT), random.Random(7)
    sound = path.read_bytes()
    for place in (0, 3, len(sound) - 1, *(rng.randrange(len(sound)) for _ in range(40))):
        damaged = bytearray(sound)
        damaged[place] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(TableCorrupt, match=r"image/measures\[news/2026.tar\].*re-materialize"):
            tables.read(SLOT)
    path.write_bytes(sound)
    assert tables.read(SLOT).num_rows == 2000


@pytest.mark.parametrize("harmed", [b"", b"PAR1", b"PAR1" * 500], ids=["emptied", "cut", "other bytes"])
def test_rows_that_were_cut_are_noticed(tables, harmed) -> None:
    tables.write(SLOT, MEASURES, rows(5), **MADE)
    tables.path(SLOT).write_bytes(harmed)
    with pytest.raises(TableCorrupt):
        tables.read(SLOT)


def test_a_stamp_whose_rows_are_gone_is_noticed(tables) -> None:
    tables.write(SLOT, MEASURES, rows(5), **MADE)
    tables.path(SLOT).unlink()
    with pytest.raises(TableCorrupt, match="has a stamp but no rows"):
        tables.read(SLOT)


@pytest.mark.parametrize(
    "harmed",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"data_version":"x"}', b'{"later_field":1}'],
    ids=["emptied", "cut", "list", "not utf-8", "fields missing", "later release"],
)
def test_a_damaged_stamp_is_reported_with_the_file_to_delete(tables, harmed) -> None:
    tables.write(SLOT, MEASURES, rows(5), **MADE)
    stamp = tables.path(SLOT).with_name("2026.tar.stamp.json")
    stamp.write_bytes(harmed)
    with pytest.raises(TableCorrupt, match=f"delete {stamp}"):
        tables.read(SLOT)


@pytest.mark.parametrize("harm", ["rows", "stamp", "rows gone"])
def test_writing_a_damaged_table_again_heals_it(tables, harm) -> None:
    tables.write(SLOT, MEASURES, rows(5), **MADE)
    path = tables.path(SLOT)
    if harm == "rows gone":
        path.unlink()
    else:
        (path if harm == "rows" else path.with_name("2026.tar.stamp.json")).write_bytes(b"rot")
    tables.write(SLOT, MEASURES, rows(5), **MADE)
    assert tables.read(SLOT).equals(rows(5))


class Killed(BaseException):
    """Stands for the end of the process."""


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> Iterator[None]:
    """Ends the block, as the end of the process would, at the n-th use of a system call and before it does anything;
    lets it pass where there are fewer."""
    count, real = [0], getattr(os, name)

    def call(*args, **kwargs):
        count[0] += 1
        if count[0] == number:
            raise Killed
        return real(*args, **kwargs)

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(os, name, call)
        yield


def test_a_crash_between_rows_and_stamp_leaves_no_table(tables, monkeypatch) -> None:
    with killed_at(monkeypatch, "replace", 2):
        tables.write(SLOT, MEASURES, rows(5), **MADE)
    assert tables.path(SLOT).exists()
    assert (tables.has("measures", "image", SLOT.shard), tables.stamp(SLOT), tables.shards("measures", "image")) == (
        False,
        None,
        [],
    )
    with pytest.raises(MmlakeError, match="has not been made"):
        tables.read(SLOT)


@pytest.mark.parametrize("name", ["replace", "fsync", "unlink"])
@pytest.mark.parametrize("number", range(1, 6))
def test_a_crash_while_a_table_is_replaced_leaves_the_old_one_or_the_new_one_or_none(
    tables, monkeypatch, name, number
) -> None:
    """Never an old stamp next to new rows: its step would count as done, and every reader would fail."""
    tables.write(SLOT, MEASURES, rows(5), **MADE)
    with killed_at(monkeypatch, name, number):
        tables.write(SLOT, MEASURES, rows(6), **MADE)
    assert tables.stamp(SLOT) is None or tables.read(SLOT).num_rows in (5, 6)
    tables.write(SLOT, MEASURES, rows(6), **MADE)
    assert tables.read(SLOT).num_rows == 6


def test_equal_rows_written_again_never_take_the_table_away(tables, monkeypatch) -> None:
    tables.write(SLOT, MEASURES, rows(5), **MADE)
    with killed_at(monkeypatch, "replace", 1):
        tables.write(SLOT, MEASURES, rows(5), **(MADE | {"run_id": "never finished"}))
    assert (tables.read(SLOT).num_rows, tables.stamp(SLOT).run_id) == (5, "")


def test_a_table_that_was_never_made_says_so(tables) -> None:
    with pytest.raises(
        MmlakeError, match=r"table image/measures\[news/2026.tar\] has not been made .*; materialize it first"
    ):
        tables.read(SLOT)


SHARDS = [
    "b",
    "a",
    "a/b.tar",
    "a b",
    "ü%41",
    "100%/x",
    "it's [1]*?",
    "#1",
    "dir.with.dots/x.parquet",
    "x.stamp.json",
    "-rf",
    "new\nline",
    "ALL",
    "0" * 200,
]


def test_odd_names_of_shards_are_kept_apart_and_listed_sorted(tables) -> None:
    for number, shard in enumerate(SHARDS):
        tables.write(Slot("measures", "image", shard), MEASURES, rows(number), **MADE)
    assert tables.shards("measures", "image") == sorted(SHARDS)
    assert {shard: table.num_rows for shard, table in tables.scan("measures", "image")} == {
        shard: number for number, shard in enumerate(SHARDS)
    }


@pytest.mark.parametrize(
    "shard", ["", ".", "..", "../x", "a/../../x", "/etc/x", "a//b", "a/", "nul\0", "x" * 245, "é" * 123]
)
def test_a_shard_cannot_be_named_out_of_its_place(tables, shard) -> None:
    with pytest.raises(SettingsError, match="is no file name"):
        tables.write(Slot("measures", "image", shard), MEASURES, rows(1), **MADE)


@pytest.mark.parametrize("shard", ["x" * 244, "é" * 122])
def test_the_longest_name_of_a_shard_works(tables, shard) -> None:
    tables.write(Slot("measures", "image", shard), MEASURES, rows(1), **MADE)
    assert tables.shards("measures", "image") == [shard]


def test_tables_and_modalities_do_not_mix(tables) -> None:
    tables.write(SLOT, MEASURES, rows(1), **MADE)
    assert (
        tables.shards("measures", "audio"),
        tables.shards("tracks", "image"),
        tables.has("measures", "image", "other"),
    ) == ([], [], False)


def test_a_scan_goes_in_the_order_of_the_shards(tables) -> None:
    for shard in ("c", "a", "b/2", "b/10"):
        tables.write(Slot("measures", "image", shard), MEASURES, rows(1), **MADE)
    assert [shard for shard, _ in tables.scan("measures", "image", columns=["digest"])] == ["a", "b/10", "b/2", "c"]


def test_stamps_are_listed_for_every_finished_shard(tables) -> None:
    made = {
        Slot("measures", "image", shard): tables.write(Slot("measures", "image", shard), MEASURES, rows(1), **MADE)
        for shard in "ba"
    }
    stamps = tables.stamps("measures", "image")
    assert (stamps, [slot.shard for slot in stamps]) == (made, ["a", "b"])


def test_a_concatenation_holds_the_rows_of_all_shards(tables) -> None:
    for shard in "ba":
        tables.write(Slot("measures", "image", shard), MEASURES, rows(2), **MADE)
    assert tables.concat("measures", "image").equals(pa.concat_tables([rows(2), rows(2)]))


@pytest.mark.parametrize("columns", [None, ["value", "digest"]])
def test_a_concatenation_of_nothing_has_the_columns_asked_for(tables, columns) -> None:
    table = tables.concat("measures", "image", columns=columns)
    assert (table.num_rows, table.column_names) == (0, columns or MEASURES.arrow.names)


def test_a_removed_table_is_gone(tables) -> None:
    tables.write(SLOT, MEASURES, rows(1), **MADE)
    tables.remove(SLOT)
    tables.remove(SLOT)
    assert (
        tables.has("measures", "image", SLOT.shard),
        tables.path(SLOT).exists(),
        tables.shards("measures", "image"),
    ) == (False, False, [])


def test_a_half_removed_table_does_not_exist(tables, monkeypatch) -> None:
    tables.write(SLOT, MEASURES, rows(1), **MADE)
    with killed_at(monkeypatch, "unlink", 2):
        tables.remove(SLOT)
    assert (tables.stamp(SLOT), tables.path(SLOT).exists()) == (None, True)


def test_removing_a_table_leaves_its_neighbours(tables) -> None:
    for shard in ("a", "a/b", "ab"):
        tables.write(Slot("measures", "image", shard), MEASURES, rows(1), **MADE)
    tables.remove(Slot("measures", "image", "a"))
    assert tables.shards("measures", "image") == ["a/b", "ab"]


def test_something_that_is_no_parquet_file_can_be_marked(tables) -> None:
    stamp = Stamp(data_version="v", schema_version=1, num_rows=2, size_bytes=3, **MADE)
    marked = tables.mark(Slot("catalog", "all"), stamp)
    assert marked == tables.stamp(Slot("catalog", "all")) == replace(stamp, slot="all/catalog")
    assert tables.has("catalog", "all")


def test_a_stamp_is_canonical_json(tables) -> None:
    """Two runs that made the same table at the same speed wrote the same bytes."""
    tables.write(SLOT, MEASURES, rows(1), **MADE)
    text = tables.path(SLOT).with_name("2026.tar.stamp.json").read_text()
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
