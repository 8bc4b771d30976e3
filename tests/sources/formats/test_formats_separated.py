"""Comma and tab separated values as records of texts."""

from __future__ import annotations

import json

import pytest

from mmlake import sources
from mmlake.records import SourceRef
from mmlake.sources import SourceSettings
from tests.sources.source_builders import SETTINGS, brief, gz, jsonl, land, png, rows_of, sha, wav, zst


def found(tmp_path, files, **options):
    return rows_of(land(tmp_path / "in", files), **options)


def formats(tmp_path, **options):
    return {
        shard.key: shard.format for shard in sources.scan(tmp_path / "in", settings=options.get("settings", SETTINGS))
    }


@pytest.mark.parametrize(
    "name, data",
    [
        ("a.csv", b'id,text,n\nx,"one, ""two""\nthree",1\ny,four,\n'),
        ("a.csv", b'\xef\xbb\xbfid, text,n\r\nx,"one, ""two""\nthree",1\r\n\r\ny,four,\r\n'),
        ("a.csv.gz", gz(b'id,text,n\nx,"one, ""two""\nthree",1\ny,four,\n')),
        ("a.csv.zst", zst(b'text,n,id\n"one, ""two""\nthree",1,x\nfour,,y')),
    ],
)
def test_rows_give_what_json_lines_of_their_cells_give(tmp_path, name, data):
    rows = found(tmp_path / "table", {name: data})
    lines = found(
        tmp_path / "lines",
        {"a.jsonl": jsonl({"id": "x", "text": 'one, "two"\nthree', "n": "1"}, {"id": "y", "text": "four"})},
    )
    reported = ["digest", "text_content", "metadata_json", "role", "error_code"]
    assert [[row[column] for column in reported] for row in rows] == [
        [row[column] for column in reported] for row in lines
    ]
    assert [member for member, *_ in brief(rows)] == ["row:1", "row:2"] and [row["sample_id"] for row in rows] == [
        f"{name}/x",
        f"{name}/y",
    ]


@pytest.mark.parametrize("delimiter", [";", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("pack", [bytes, gz])
def test_semicolons_and_bars_separate_where_no_comma_would_do(tmp_path, delimiter, encoding, newline, pack):
    lines = ["id;text;a,b", 'x;"one; ""two"", three";1', "y;gr\u00fcn;", ""]
    text = newline.join(lines).replace(";", delimiter)
    data = (b"\xfe\xff" if encoding == "utf-16-be" else b"") + text.encode(encoding)
    rows = found(tmp_path, {"a.csv" if pack is bytes else "a.csv.gz": pack(data)})
    assert [(row["text_content"], row["metadata_json"]) for row in rows] == [
        (f'one{delimiter} "two", three', '{"a,b":"1","id":"x"}'),
        ("gr\u00fcn", '{"id":"y"}'),
    ]


def test_a_comma_that_gives_a_text_comes_before_everything_else(tmp_path):
    rows = found(tmp_path, {"a.csv": b"text,a;caption;b\none,1;2;3\n"})
    assert [(row["text_content"], row["metadata_json"]) for row in rows] == [("one", '{"a;caption;b":"1;2;3"}')]


def test_bytes_that_are_no_utf_16_cost_their_row(tmp_path):
    data = "text\na\n".encode("utf-16") + b"\x00\xd8" + "b\nc\n".encode("utf-16-le") + b"d"
    assert [(row["error_code"], row["text_content"]) for row in found(tmp_path, {"a.csv": data})] == [
        (None, "a"),
        (1004, None),
        (None, "c"),
        (1004, None),
    ]


@pytest.mark.parametrize("cut", [1, 9, 40])
def test_a_cut_compressed_table_gives_the_rows_before_the_cut(tmp_path, cut):
    data = gz("".join(["id;text\r\n", *(f"{at};{sha(bytes([at]))}\r\n" for at in range(100))]).encode("utf-16"))
    rows = found(tmp_path, {"a.csv.gz": data[:-cut]})
    assert (
        rows[-1]["error_code"] == 1002
        and {row["error_code"] for row in rows[:-1]} <= {None, 1003, 1004}
        and len(rows) > 90
    )


def test_quotes_in_tab_separated_values_are_letters(tmp_path):
    rows = found(tmp_path, {"a.tsv": b'n\tcaption\n1\t"said\n2\tdone"\n'})
    assert [(row["text_content"], row["role"]) for row in rows] == [('"said', "caption"), ('done"', "caption")]


def test_a_broken_row_costs_itself_alone(tmp_path):
    rows = found(tmp_path, {"a.csv": b"text,n\na,1\nb,2,3\nc\n" + b"caf\xe9,4\n,5\nd,6\n"})
    assert [(row["error_code"], row["text_content"]) for row in rows] == [
        (None, "a"),
        (1003, None),
        (1003, None),
        (1004, None),
        (1003, None),
        (None, "d"),
    ]
    assert json.loads(sources.fetch(SourceRef.from_json(rows[4]["source_ref"]), landing=tmp_path / "in")) == {"n": "5"}


def test_a_table_that_is_cut_inside_of_quotes_says_so_behind_its_whole_rows(tmp_path):
    rows = found(tmp_path, {"a.csv": b'text,n\na,1\n"b and'})
    assert [(row["error_code"], row["text_content"]) for row in rows] == [(None, "a"), (1003, None)]


def test_a_document_in_a_cell_may_be_as_long_as_any_text(tmp_path):
    rows = found(tmp_path, {"a.csv": b'text,n\n"' + b"word\n" * 100_000 + b'",1\n'})
    assert [(row["error_code"], row["size_bytes"], row["metadata_json"]) for row in rows] == [
        (None, 500_000, '{"n":"1"}')
    ]


def test_a_quote_that_never_closes_ends_with_what_a_record_may_take(tmp_path):
    settings = SourceSettings(max_line_bytes=1000)
    rows = found(tmp_path, {"a.csv": b'text,n\n"open,1\n' + b"line,2\n" * 200}, settings=settings)
    assert (
        rows[0]["error_code"] == 1008
        and "record_bytes>=" in rows[0]["materialize_error"]
        and rows[-1]["text_content"] == "line"
    )
    assert len(rows) == 1 + 200 - 166  # 7 + 165 * 6 bytes are within the limit


def test_a_row_of_very_many_cells_is_not_parsed(tmp_path):
    settings = SourceSettings(max_json_values=1000)
    rows = found(tmp_path, {"a.csv": b"text,n\n" + b"," * 2000 + b"\nb,1\n"}, settings=settings)
    assert [(row["error_code"], row["text_content"]) for row in rows] == [(1008, None), (None, "b")]


def test_of_two_columns_of_one_name_both_are_kept(tmp_path):
    rows = found(tmp_path, {"a.csv": b"text,tag,tag\na,x,y\n"})
    assert json.loads(rows[0]["metadata_json"]) == {"tag": "x", "tag.1": "y"}


def test_a_line_of_names_without_rows_is_a_row(tmp_path):
    rows = found(tmp_path, {"a.csv": b"text,n\n"})
    assert [(row["error_code"], row["digest"]) for row in rows] == [(1006, sha(b"text,n\n"))]


@pytest.mark.parametrize(
    "data",
    [
        b"a,b\n1,2\n",
        b"text",
        b"",
        b'"text\na\n',
        b"id;text\n1,a\n",
        b"id;text,more\n1;a,b\n",
        "n\na\n".encode("utf-16"),
        b"text|n;text\na|b;c\n",
    ],
)
def test_a_table_without_a_text_is_a_document(tmp_path, data):
    found(tmp_path, {"a.csv": data})
    assert formats(tmp_path) == {"root": "folder"}


def test_a_table_next_to_a_medium_that_is_called_like_it_belongs_to_it(tmp_path):
    rows = found(
        tmp_path,
        {"d/talk.wav": wav(), "d/talk.csv": b"start,text\n0,hello\n", "d/other.csv": b"text\nhello\n", "e.png": png(1)},
    )
    assert formats(tmp_path) == {"root": "folder", "d": "folder", "d/other.csv": "separated"}
    assert [row["sample_text"] for row in rows if row["modality"] == "audio"] == ["start,text\n0,hello\n"]


def test_the_settings_say_which_name_is_a_text(tmp_path):
    settings = SourceSettings(text_fields=("body",))
    rows = found(tmp_path, {"a.csv": b"body,text\na,b\n"}, settings=settings)
    assert [row["text_content"] for row in rows] == ["a"] and formats(tmp_path, settings=settings) == {
        "a.csv": "separated"
    }
    assert json.loads(rows[0]["metadata_json"]) == {"text": "b"}


def test_the_longest_cell_is_that_of_a_table_s_own_settings_whatever_is_read_at_the_same_time(tmp_path):
    root = land(tmp_path / "in", {f"{name}.csv": b"text\n" + b"w" * 200_000 + b"\nx\n" for name in "ab"})
    first, second = sources.scan(root, settings=SETTINGS)
    narrow = SourceSettings(max_text_bytes=150_000)
    pairs = zip(
        sources.read(first, landing=root, settings=SETTINGS),
        sources.read(second, landing=root, settings=narrow),
        strict=True,
    )
    found = [(wide.size_bytes, tight.fault and tight.fault.code, tight.size_bytes) for wide, tight in pairs]
    assert found == [(200_000, 1003, 0), (1, None, 1)]


def test_a_cell_may_be_as_long_as_other_readers_allow_it_under_any_settings(tmp_path):
    """131,072 characters, which the module csv allows without being asked."""
    root = land(tmp_path / "in", {f"{size}.csv": b"text\n" + b"w" * size + b"\nx\n" for size in (131_072, 131_073)})
    tight = SourceSettings(max_text_bytes=1000)
    found = {
        shard.key: [item.fault and item.fault.code for item in sources.read(shard, landing=root, settings=tight)]
        for shard in sources.scan(root, settings=tight)
    }
    assert found == {"131072.csv": [None, None], "131073.csv": [1003, None]}
