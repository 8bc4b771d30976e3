"""WARC crawls of other times and writers: drafts of the standard, records without line ends, codings that are none."""

from __future__ import annotations

import gzip
import zlib

import pytest

from tests.sources.formats.warcs import PAGE, record, response
from tests.sources.source_builders import brief, land, png, rows_of, sha

A, B = response(uri="http://example.org/a"), response(PAGE + b"<p>b</p>", uri="http://example.org/b")
SAVED = [sha(PAGE), sha(PAGE + b"<p>b</p>")]


@pytest.mark.parametrize("version", ["0.17", "0.18", "1.1"])
def test_records_of_drafts_are_read_as_those_of_the_standard(tmp_path, version: str) -> None:
    crawl = (A + B).replace(b"WARC/1.0", f"WARC/{version}".encode())
    rows = rows_of(land(tmp_path / "landing", {"a.warc": crawl, "b.warc.gz": gzip.compress(crawl)}))
    assert [row["digest"] for row in rows] == [*SAVED, *SAVED]


@pytest.mark.parametrize("version", ["2.0", "x.y"])
def test_what_is_no_version_begins_no_record(tmp_path, version: str) -> None:
    other = B.replace(b"WARC/1.0", f"WARC/{version}".encode())
    rows = rows_of(land(tmp_path / "landing", {"a.warc": A + other}))
    assert [(row["digest"], row["error_code"]) for row in rows] == [(SAVED[0], None), (None, 1003)]


def test_a_record_that_ends_where_the_next_begins_is_whole(tmp_path) -> None:
    rows = rows_of(land(tmp_path / "landing", {"a.warc": A.removesuffix(b"\r\n\r\n") + B}))
    assert [row["digest"] for row in rows] == SAVED


@pytest.mark.parametrize("coding", ["none", "utf-8", "text/html", "x-unknown", "binary"])
def test_a_coding_that_nobody_knows_of_a_readable_body_is_none(tmp_path, coding: str) -> None:
    pages = [
        response(headers=("Content-Type: text/html", f"Content-Encoding: {coding}")),
        response(png(), headers=("Content-Type: image/png", f"Content-Encoding: {coding}"), uri="http://example.org/p"),
    ]
    rows = rows_of(land(tmp_path / "landing", {"a.warc": b"".join(pages)}))
    assert [(row["digest"], row["modality"]) for row in rows] == [(sha(PAGE), "text"), (sha(png()), "image")]


def test_a_body_that_is_really_coded_by_something_unknown_is_a_row(tmp_path) -> None:
    body = zlib.compress(bytes(range(256)) * 9)
    rows = rows_of(land(tmp_path / "landing", {"a.warc": response(body, headers=("Content-Encoding: compress",))}))
    assert [code for *_, code in brief(rows)] == [1003]
    assert rows[0]["digest"] == sha(body)


@pytest.mark.parametrize("uri", ["metadata://gnu.org/software/wget/warc/wget.log", "<urn:X-wpull:log>"])
def test_what_a_crawler_keeps_of_itself_is_no_content(tmp_path, uri: str) -> None:
    log = record("resource", b"wget --http-password=secret http://example.org/", uri=uri, Content_Type="text/plain")
    other = record("resource", PAGE, uri="http://example.org/metadata:", Content_Type="text/html")
    rows = rows_of(land(tmp_path / "landing", {"a.warc": A + log + other}))
    assert [row["digest"] for row in rows] == [SAVED[0], SAVED[0]]
