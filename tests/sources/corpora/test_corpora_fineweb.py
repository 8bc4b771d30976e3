"""FineWeb-Edu: Parquet with one document per row."""

from __future__ import annotations

import pytest

from mmlake.error_codes import CODES
from tests.sources.corpora.builders import fineweb, fineweb_record, landed, metadata
from tests.sources.source_builders import brief, rows_of


@pytest.mark.parametrize("path", ["data/CC-MAIN-2013-20/train-00000-of-00014.parquet", "sample/10BT/000_00000.parquet"])
def test_every_row_is_a_document_named_by_its_urn_with_typed_metadata(tmp_path, path):
    records = [fineweb_record(number) for number in range(3)]
    rows = rows_of(landed(tmp_path / "in", {path: fineweb(records)}))
    assert [(row["sample_id"], row["text_content"], row["role"], row["status"]) for row in rows] == [
        (f"{path}/{one['id']}", one["text"], "document", "ok") for one in records
    ]
    expected = {name: value for name, value in records[0].items() if name != "text"}
    assert metadata(rows[0]) == expected
    assert {name: type(value) for name, value in metadata(rows[0]).items()} == {
        name: type(value) for name, value in expected.items()
    }


def test_the_licence_is_what_the_source_file_says(tmp_path):
    files = {
        "fineweb-edu/_source.json": b'{"source":"FineWeb-Edu","licence":"odc-by"}',
        "fineweb-edu/sample/10BT/000_00000.parquet": fineweb([fineweb_record(1)]),
    }
    assert [(row["source"], row["licence"]) for row in rows_of(landed(tmp_path / "in", files))] == [
        ("FineWeb-Edu", "ODC-By-1.0")
    ]


def test_the_date_of_older_dumps_is_metadata(tmp_path):
    rows = rows_of(landed(tmp_path / "in", {"a.parquet": fineweb([fineweb_record(1, date="2013-05-18T05:16:00Z")])}))
    assert metadata(rows[0])["date"] == "2013-05-18T05:16:00Z"


def test_missing_scores_are_left_out_and_a_null_text_is_reported(tmp_path):
    data = fineweb([fineweb_record(1, score=float("nan"), int_score=None), fineweb_record(2, text=None)])
    rows = rows_of(landed(tmp_path / "in", {"a.parquet": data}))
    assert metadata(rows[0]).get("score") is None and "int_score" not in metadata(rows[0])
    assert brief(rows)[1][1:] == ("text", "document", 1003) and CODES[1003].name == "record_malformed"


def test_a_document_that_stands_twice_in_a_file_keeps_both_rows_apart(tmp_path):
    rows = rows_of(landed(tmp_path / "in", {"a.parquet": fineweb([fineweb_record(1), fineweb_record(1)])}))
    assert len({row["sample_id"] for row in rows}) == 2
