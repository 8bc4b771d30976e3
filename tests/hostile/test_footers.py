"""Footers of Parquet that contradict themselves: asked about their columns, pyarrow ends the process, which no test
would survive."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mmlake.errors import TableCorrupt, UnreadableItem
from mmlake.landing import as_landing
from mmlake.rows.landing_rows import landing_rows, pick_shards
from mmlake.rows.stored_rows import read_parquet_rows
from mmlake.sources.tables.compact import INT16, INT32, INT64, Malformed, passed, read_integer, read_struct
from mmlake.sources.tables.footers import Footer
from tests.hostile.memory import SETTINGS, rows_of
from tests.hostile.seeds import media, parquet, seeds


def _land(root: Path, data: bytes) -> Path:
    (root / "in").mkdir()
    (root / "in" / "a.parquet").write_bytes(data)
    return root / "in"


def _footer(fields: bytes) -> Footer:
    """That of a file with these fields in the place of `FileMetaData`."""
    return Footer(io.BytesIO(b"PAR1" + bytes(500) + fields + len(fields).to_bytes(4, "little") + b"PAR1"))


def _chunk(about: bytes, behind: bytes = b"") -> bytes:
    """`FileMetaData` of one row group of one column. about: its fields from the codec on. Heads are (step << 4 |
    kind), integers twice their value."""
    return b"\x49\x1c" + b"\x19\x1c" + b"\x3c" + about + b"\x00" + behind + b"\x00" + b"\x00" + b"\x00"


_CODEC, _STORED, _DATA = b"\x45\x0c", b"\x36\x14", b"\x26\x10"  # field 4, int32 6; field 7, int64 10; field 9, int64 8


def test_a_histogram_of_levels_that_the_column_does_not_have_costs_its_row_group(tmp_path):
    """Nullable when the histogram was counted, required by the schema: one bit. The name in the schema stands behind
    its repetition."""
    data = parquet({"text": pa.array(["a", "b"])}, store_schema=False)
    damaged = data.replace(b"\x25\x02\x18\x04text", b"\x25\x00\x18\x04text")
    assert damaged != data
    landing = _land(tmp_path, damaged)
    assert [row["error_code"] for row in rows_of(landing)] == [1001]
    with pytest.raises(TableCorrupt):
        list(read_parquet_rows(["a.parquet"], landing=landing))


@pytest.mark.parametrize(
    "seed", [seed for seed in seeds() if seed.name.endswith(".parquet")], ids=lambda seed: seed.name
)
def test_a_sound_footer_says_what_pyarrow_reads_in_it(seed):
    metadata, footer = pq.ParquetFile(io.BytesIO(seed.data)).metadata, Footer(io.BytesIO(seed.data))
    for group in range(metadata.num_row_groups):
        wanted = [metadata.row_group(group).column(at) for at in range(metadata.num_columns)]
        found = footer.chunks(group)
        assert [chunk.stored_bytes for chunk in found] == [chunk.total_compressed_size for chunk in wanted]
        assert [chunk.start for chunk in found] == [
            chunk.dictionary_page_offset or chunk.data_page_offset for chunk in wanted
        ]
        assert {chunk.codec.partition("_")[0] for chunk in found} == {chunk.compression.lower() for chunk in wanted}
        assert not any(chunk.is_elsewhere or chunk.is_encrypted for chunk in found)
    with pytest.raises(UnreadableItem):
        footer.chunks(metadata.num_row_groups)


def test_fields_that_are_not_known_are_passed_over():
    """A list of two bytes, a map, a double, a set, true, a struct in a struct, and a field whose number stands
    alone."""
    unknown = (
        b"\x59\x23\x01\x02"
        + b"\x1b\x01\x88\x01k\x01v"
        + b"\x17"
        + bytes(8)
        + b"\x1a\x15\x02"
        + b"\x11"
        + b"\x1c\x1c\x00\x00"
        + b"\x05\x80\x01\x02"
    )
    (chunk,) = _footer(_chunk(_CODEC + _STORED + _DATA + unknown)).chunks(0)
    assert (chunk.start, chunk.stored_bytes, chunk.codec) == (8, 10, "zstd")


def test_columns_elsewhere_and_encrypted_ones_are_told():
    (chunk,) = _footer(_chunk(_CODEC + _STORED + _DATA, b"\x5c\x1c\x00\x00")).chunks(0)
    assert chunk.is_encrypted and not chunk.is_elsewhere
    elsewhere = b"\x49\x1c" + b"\x19\x1c" + b"\x18\x01b" + b"\x2c" + _CODEC + _STORED + _DATA + b"\x00" * 4
    assert _footer(elsewhere).chunks(0)[0].is_elsewhere


@pytest.mark.parametrize(
    "fields",
    [
        b"\x49\x1c\x19\xfc\xff\xff\xff\xff\x0f\x00",  # more columns than bytes
        b"\x49\x15\x02\x00",  # row groups that are numbers
        _chunk(_CODEC + _STORED + _DATA + b"\x05\x08\x0c"),  # a second codec
        _chunk(b"\x46\x0c" + _STORED + _DATA),  # a codec of 64 bits, which Thrift would pass over
        _chunk(b"\x45\x8c\x80\x80\x80\x20" + _STORED + _DATA),  # a codec that Thrift would cut to 32 bits
        _chunk(_CODEC + _STORED + b"\x26\x10")[:-6],
        b"\x1c" * 40,
        b"\x1e\x00",
        b"",
    ],
    ids=["count", "kind", "twice", "width", "overflow", "cut", "deep", "unknown kind", "empty"],
)
def test_footers_that_do_not_parse_are_told(fields):
    with pytest.raises(UnreadableItem) as told:
        _footer(fields)
    assert told.value.code == 1001


@pytest.mark.parametrize(
    "about",
    [_CODEC + b"\x36\xd0\x0f" + _DATA, _CODEC + b"\x36\x01" + _DATA, _CODEC + _STORED + b"\x26\x01", _CODEC + _STORED],
    ids=["long", "less than none", "before", "nowhere"],
)
def test_columns_that_do_not_lie_before_the_footer_are_told(about):
    with pytest.raises(UnreadableItem):
        _footer(_chunk(about)).chunks(0)


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [(INT16, b"\xff\xff\x03", b"\xfe\xff\x03"), (INT32, b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x0f")],
)
def test_integers_have_the_bits_of_their_kind(kind, least, most):
    bits = {INT16: 16, INT32: 32}[kind]
    assert (read_integer(least, 0, kind)[0], read_integer(most, 0, kind)[0]) == (
        -(2 ** (bits - 1)),
        2 ** (bits - 1) - 1,
    )
    with pytest.raises(Malformed):
        read_integer(b"\xff\xff\xff\xff\xff\x01", 0, kind)
    with pytest.raises(Malformed):
        read_integer(b"\xff" * 10 + b"\x01", 0, INT64)


def test_a_page_header_says_nothing_twice_and_no_number_that_others_would_cut():
    """A kind of 2**32 is a data page to who keeps 32 bits of it, and would weigh nothing here."""
    assert read_struct(b"\x15\x00\x15\x10\x00", 0)[0] == {1: 0, 2: 8}
    for data in (b"\x15\x00\x05\x02\x02\x00", b"\x15\x80\x80\x80\x80\x20\x00", b"\x05\x00\x02\x00"):
        with pytest.raises(Malformed):
            read_struct(data, 0)


def test_nothing_is_nested_without_end():
    with pytest.raises(Malformed):
        passed(b"\x1c" * 1000, 0, 12)
    with pytest.raises(Malformed):
        passed(b"\x19" * 1000, 0, 9)


def test_a_column_whose_name_is_no_text_is_damage_and_no_crash(tmp_path):
    landing = _land(
        tmp_path,
        parquet({"text": ["a"], "name": ["b"]}, store_schema=False).replace(b"\x18\x04name", b"\x18\x04\xff\xffme"),
    )
    assert [row["error_code"] for row in rows_of(landing)] == [1001]
    rows = landing_rows(
        pick_shards(as_landing(landing), None, settings=SETTINGS), landing=as_landing(landing), settings=SETTINGS
    )
    assert sum(batch.num_rows for batch in rows) == 1


def test_a_path_of_bytes_beside_a_picture_is_kept_as_metadata(tmp_path):
    rows = rows_of(_land(tmp_path, parquet({"image": [{"bytes": media()["p.png"], "path": b"\xffa.png"}]})))
    assert [row["metadata_json"] for row in rows] == ['{"image":{"path":{"base64":"/2EucG5n"}}}']
