"""WARC crawls: every record is a row or part of the crawl's own story; damage costs one row; nobody's opt-out is passed
over."""

from __future__ import annotations

import gzip
import io
import json
import logging
import random
import zlib

import pytest

from mmlake import sources
from mmlake.formats.warc import Damage, Record, records
from mmlake.records import SourceRef
from tests.sources.formats.warcs import PAGE, base32, chunked, record, response
from tests.sources.source_builders import SETTINGS, brief, gz, land, png, rows_of, sha, zst


class Counted(io.BytesIO):
    """Bytes that count how many of them are read."""

    num_bytes = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.num_bytes += len(data)
        return data


def crawl() -> list[bytes]:
    return [
        record("warcinfo", b"software: test\r\n"),
        record("request", b"GET /a HTTP/1.1\r\n\r\n"),
        response(uri="http://example.org/a"),
        record("metadata", b"fetchTimeMs: 3\r\n"),
        response(png(1), headers=("Content-Type: image/png",), uri="http://example.org/b.png"),
        record("conversion", "Ein Text über Häfen.".encode(), uri="http://example.org/c", Content_Type="text/plain"),
        record(
            "response",
            b"20260102030405\nexample.org. 60 IN A 192.0.2.1\n",
            uri="dns:example.org",
            Content_Type="text/dns",
        ),
        record("resource", png(2), uri="http://example.org/d.png", Content_Type="image/png"),
    ]


PACKINGS = {
    "a.warc": b"".join,
    "a.warc.gz": lambda records: b"".join(map(gz, records)),
    "whole.warc.gz": lambda records: gz(b"".join(records)),
    "a.warc.zst": lambda records: zst(b"".join(records)),
    "no-name": b"".join,
}


@pytest.mark.parametrize("name", PACKINGS)
def test_the_records_with_content_are_rows_in_every_packing(tmp_path, name):
    rows = sorted(rows_of(land(tmp_path / "in", {name: PACKINGS[name](crawl())})), key=lambda row: row["item_id"])
    assert [(row["modality"], row["digest"], row["error_code"]) for row in rows] == [
        ("text", sha(PAGE), None),
        ("image", sha(png(1)), None),
        ("text", sha("Ein Text über Häfen.".encode()), None),
        ("image", sha(png(2)), None),
    ]
    assert [json.loads(row["metadata_json"])["target_uri"] for row in rows] == [
        f"http://example.org/{end}" for end in ("a", "b.png", "c", "d.png")
    ]


def test_what_describes_the_crawl_is_counted(tmp_path, caplog):
    land(tmp_path / "in", {"a.warc": b"".join(crawl())})
    (shard,) = sources.scan(tmp_path / "in", settings=SETTINGS)
    with caplog.at_level(logging.INFO, logger="mmlake.sources"):
        rows = list(sources.read(shard, landing=tmp_path / "in", settings=SETTINGS))
    assert len(rows) == 4
    assert "records=8 rows=4 about_the_crawl={'dns': 1, 'metadata': 1, 'request': 1, 'warcinfo': 1}" in caplog.text


def test_a_plain_body_in_a_plain_file_has_a_byte_range(tmp_path):
    data = b"".join(crawl())
    rows = rows_of(land(tmp_path / "in", {"a.warc": data}))
    for ref in (SourceRef.from_json(row["source_ref"]) for row in rows):
        assert ref.byte_offset is not None and ref.byte_size is not None
        assert sha(data[ref.byte_offset : ref.byte_offset + ref.byte_size]) in {row["digest"] for row in rows}


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def _brotli(data: bytes) -> bytes:
    return pytest.importorskip("brotli").compress(data)


@pytest.mark.parametrize(
    "headers, pack",
    [
        ("Content-Encoding: gzip", gz),
        ("Content-Encoding: x-gzip", gz),
        ("Content-Encoding: deflate", zlib.compress),
        ("Content-Encoding: deflate", _raw_deflate),
        ("Content-Encoding: br", _brotli),
        ("Content-Encoding: zstd", zst),
        ("Content-Encoding: gzip, gzip", lambda data: gz(gz(data))),
        ("Transfer-Encoding: chunked", chunked),
        ("Transfer-Encoding: chunked\r\nContent-Encoding: gzip", lambda data: chunked(gz(data))),
        ("Content-Encoding: gzip", bytes),  # undone by the crawler, which kept the header
        ("Transfer-Encoding: chunked", bytes),
    ],
)
def test_a_body_is_stored_without_its_codings_and_without_a_range(tmp_path, headers, pack):
    (row,) = rows_of(
        land(tmp_path / "in", {"a.warc": response(pack(PAGE), headers=("Content-Type: text/html", headers))})
    )
    assert (row["error_code"], row["digest"], SourceRef.from_json(row["source_ref"]).byte_offset) == (
        None,
        sha(PAGE),
        None,
    )


@pytest.mark.parametrize(
    "headers, body, code",
    [
        ("Content-Encoding: gzip", gz(PAGE * 50)[:-12], 1002),
        ("Content-Encoding: deflate", zlib.compress(PAGE * 50)[:-12], 1002),
        ("Content-Encoding: gzip", gz(PAGE)[:20] + b"\xff" * 10 + gz(PAGE)[30:], 1003),
        ("Content-Encoding: squash", zlib.compress(PAGE * 50), 1003),
        ("Content-Encoding: gzip,gzip,gzip,gzip,gzip", PAGE, 1003),
        ("Transfer-Encoding: chunked", chunked(PAGE)[:-20], 1002),
        ("Transfer-Encoding: chunked\r\nContent-Encoding: zstd", chunked(zst(PAGE * 50)[:-12]), 1002),
        ("Transfer-Encoding: chunked\r\nContent-Encoding: gzip", chunked(gz(PAGE * 50)[:-12]), 1002),
    ],
)
def test_a_body_that_cannot_be_undone_is_a_row_with_its_bytes_as_they_are(tmp_path, headers, body, code):
    (row,) = rows_of(land(tmp_path / "in", {"a.warc": response(body, headers=("Content-Type: text/html", headers))}))
    assert (row["error_code"], row["digest"]) == (code, sha(body))


def test_a_body_that_explodes_is_a_row_and_takes_no_memory(tmp_path):
    bomb = gz(gz(bytes(64 << 20)))
    settings = sources.SourceSettings(max_item_bytes=1 << 20)
    rows = rows_of(
        land(tmp_path / "in", {"a.warc": response(bomb, headers=("Content-Encoding: gzip, gzip",)) + response()}),
        settings=settings,
    )
    assert [row["error_code"] for row in rows] == [1008, None]


@pytest.mark.parametrize(
    "content_type, body, text, charset",
    [
        ("text/plain; charset=iso-8859-2", "Žluťoučký kůň".encode("iso8859-2"), "Žluťoučký kůň", "iso8859-2"),
        # the web's meaning of the label
        ("text/plain; charset=ISO-8859-1", "“café”".encode("cp1252"), "“café”", "cp1252"),
        # what is UTF-8 is not taken for something else
        ("text/plain; charset=iso-8859-1", "café".encode(), "café", None),
        ("text/html", b'<html><meta charset="windows-1251"><body>' + "Гавань".encode("cp1251"), None, "cp1251"),
        ("text/plain; charset=rot13", b"abc", "abc", None),
    ],
)
def test_the_declared_charset_is_obeyed_where_the_bytes_do_not_say_otherwise(
    tmp_path, content_type, body, text, charset
):
    (row,) = rows_of(land(tmp_path / "in", {"a.warc": response(body, headers=(f"Content-Type: {content_type}",))}))
    assert row["error_code"] is None
    assert json.loads(row["metadata_json"]).get("charset") == charset
    assert row["text_content"] == text if text else "Гавань" in row["text_content"]


@pytest.mark.parametrize("label", [base32(PAGE), f"sha256:{sha(PAGE)}", f"SHA-256:{sha(PAGE)}", "unheard:0", ""])
def test_a_digest_that_fits_or_is_in_unknown_words_changes_nothing(tmp_path, label):
    (row,) = rows_of(land(tmp_path / "in", {"a.warc.gz": gz(response(WARC_Payload_Digest=label))}))
    assert (row["error_code"], row["digest"]) == (None, sha(PAGE))


@pytest.mark.parametrize("field", ["WARC_Payload_Digest", "WARC_Block_Digest"])
def test_bytes_that_are_not_what_was_hashed_are_a_row_with_the_bytes(tmp_path, field):
    (row,) = rows_of(land(tmp_path / "in", {"a.warc": response(**{field: base32(b"other")})}))
    assert (row["error_code"], row["digest"]) == (1010, sha(PAGE))


def test_the_digest_of_a_chunked_body_is_that_before_or_after_chunking(tmp_path):
    both = [
        response(
            chunked(PAGE),
            headers=("Transfer-Encoding: chunked", "Content-Type: text/html"),
            WARC_Payload_Digest=base32(data),
        )
        for data in (PAGE, chunked(PAGE))
    ]
    assert [row["error_code"] for row in rows_of(land(tmp_path / "in", {"a.warc": b"".join(both)}))] == [None, None]


def test_the_digest_of_a_payload_that_the_crawler_cut_is_not_held_against_it(tmp_path):
    (row,) = rows_of(
        land(tmp_path / "in", {"a.warc": response(WARC_Payload_Digest=base32(b"all of it"), WARC_Truncated="length")})
    )
    assert row["error_code"] is None
    assert json.loads(row["metadata_json"])["truncated"] == "length"


def test_the_protocol_of_an_answer_may_be_in_small_letters(tmp_path):
    """Some servers write it so; warcio reads it."""
    made = record("response", b"http/1.0 200 ok\r\nContent-Type: text/html\r\n\r\n" + PAGE)
    (row,) = rows_of(land(tmp_path / "in", {"a.warc": made}))
    assert (row["status"], row["digest"]) == ("ok", sha(PAGE))


@pytest.mark.parametrize("status", ["301 Moved Permanently", "404 Not Found", "503 Busy", "206 Partial Content"])
def test_an_answer_without_the_content_is_a_row_that_names_its_status(tmp_path, status):
    (row,) = rows_of(land(tmp_path / "in", {"a.warc": response(status=status)}))
    assert (row["error_code"], row["materialize_error"], row["digest"]) == (
        1106,
        f"http_status={status[:3]} not in [200, 200]",
        None,
    )


@pytest.mark.parametrize(
    "made, code",
    [
        (record("revisit", b"HTTP/1.1 200 OK\r\n\r\n", WARC_Refers_To="<urn:uuid:1>"), 1106),
        (record("continuation", b"rest"), 1005),
        (
            record(
                "response", b"HTTP/1.1 200 OK\r\n\r\nfirst", WARC_Segment_Number="1", WARC_Segment_Total_Length="90"
            ),
            1003,
        ),
        (record("response", b"no status line"), 1003),
        (record("response", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000), 1003),
        (response(b""), 1006),
        (response(b"%PDF-1.7 ...", headers=("Content-Type: application/pdf",)), 1005),
    ],
)
def test_a_record_without_usable_content_is_a_row(tmp_path, made, code):
    rows = rows_of(land(tmp_path / "in", {"a.warc": made + response()}))
    assert [row["error_code"] for row in rows] == [code, None]


OPT_OUTS = [
    (("X-Robots-Tag: noindex, noai",), PAGE),
    (("X-Robots-Tag: mmlake: noai",), PAGE),
    (("tdm-reservation: 1",), PAGE),
    ((), b"<html><head><META content='noarchive, noai' name=robots></head><body>text</body></html>"),
    ((), b'<html><head><meta name="tdm-reservation" content="1"></head><body>text</body></html>'),
    (("X-Robots-Tag: noimageai",), png(3)),
]
NO_OPT_OUTS = [
    (("X-Robots-Tag: noindex",), PAGE),
    (("X-Robots-Tag: otherbot: noai",), PAGE),
    (("X-Robots-Tag: noimageai",), PAGE),
    (("tdm-reservation: 0",), PAGE),
    ((), b'<html><!-- <meta name="robots" content="noai"> --><body>text</body></html>'),
]


@pytest.mark.parametrize("headers, body", OPT_OUTS)
def test_a_publisher_who_asks_not_to_be_used_is_obeyed_and_nothing_is_kept(tmp_path, headers, body):
    (row,) = rows_of(land(tmp_path / "in", {"a.warc": response(body, headers=headers)}))
    assert (row["error_code"], row["digest"], row["text_content"]) == (1108, None, None)


@pytest.mark.parametrize("headers, body", NO_OPT_OUTS)
def test_other_requests_change_nothing(tmp_path, headers, body):
    (row,) = rows_of(land(tmp_path / "in", {"a.warc": response(body, headers=headers)}))
    assert (row["error_code"], row["digest"]) == (None, sha(body))


def test_those_who_have_a_permission_may_say_so(tmp_path):
    (row,) = rows_of(
        land(tmp_path / "in", {"a.warc": response(headers=("X-Robots-Tag: noai",))}),
        settings=sources.SourceSettings(respect_opt_out=False),
    )
    assert (row["error_code"], row["digest"]) == (None, sha(PAGE))


def test_a_flipped_bit_costs_one_record_of_a_gzip_crawl(tmp_path):
    members = [gz(response(uri=f"http://example.org/{at}")) for at in range(5)]
    members[2] = members[2][:60] + bytes([members[2][60] ^ 0x10]) + members[2][61:]
    rows = rows_of(land(tmp_path / "in", {"a.warc.gz": b"".join(members)}))
    assert [row["error_code"] for row in rows] == [None, None, 1003, None, None]


def test_a_flipped_checksum_costs_one_record_too(tmp_path):
    members = [bytearray(gz(response())) for _ in range(3)]
    members[1][-6] ^= 1
    assert [row["error_code"] for row in rows_of(land(tmp_path / "in", {"a.warc.gz": b"".join(members)}))] == [
        None,
        1003,
        None,
    ]


@pytest.mark.parametrize("name, pack, num_cut", [("a.warc", bytes, 30), ("a.warc.gz", gz, 30)])
def test_a_cut_crawl_keeps_its_whole_records(tmp_path, name, pack, num_cut):
    data = b"".join(pack(response(uri=f"http://example.org/{at}")) for at in range(3))
    rows = rows_of(land(tmp_path / "in", {name: data[:-num_cut]}))
    assert [row["error_code"] for row in rows] == [None, None, 1002]
    assert json.loads(rows[2]["metadata_json"])["target_uri"] == "http://example.org/2"


@pytest.mark.parametrize("length", [0, 5, 400, 10**9])
def test_a_wrong_length_costs_one_record_and_the_next_is_found(tmp_path, length):
    wrong = record("response", b"HTTP/1.1 200 OK\r\n\r\n" + PAGE, length=length)
    rows = rows_of(land(tmp_path / "in", {"a.warc": response() + wrong + response(png(4)) + response(png(5))}))
    assert [row["error_code"] for row in sorted(rows, key=lambda row: row["item_id"])] == [None, 1003, None, None]


def test_a_length_that_leads_to_another_record_swallows_it_but_its_digest_shows_it(tmp_path):
    inner = response(png(4))
    block = b"HTTP/1.1 200 OK\r\n\r\n" + PAGE
    wrong = record("response", block, length=len(block) + 4 + len(inner) - 4, WARC_Block_Digest=base32(block))
    rows = rows_of(land(tmp_path / "in", {"a.warc": wrong + inner + response(png(5))}))
    assert [row["error_code"] for row in sorted(rows, key=lambda row: row["item_id"])] == [1010, None]


def test_what_stands_between_records_is_a_row(tmp_path):
    rows = rows_of(
        land(
            tmp_path / "in",
            {
                "a.warc": response() + b"junk\nmore junk\n" + response(),
                "b.warc.gz": gz(response()) + b"\x07" * 99 + gz(response()) + bytes(512),
            },
        )
    )
    assert [row["error_code"] for row in rows] == [None, 1003, None] * 2


def test_an_empty_crawl_is_a_row(tmp_path):
    assert brief(rows_of(land(tmp_path / "in", {"a.warc": b"", "b.warc.gz": gz(b"")}))) == [
        ("a.warc", "text", "document", 1006),
        ("b.warc.gz", "text", "document", 1006),
    ]


def test_credentials_in_an_address_do_not_reach_the_rows(tmp_path):
    (row,) = rows_of(
        land(
            tmp_path / "in", {"a.warc": response(uri="http://user:hunter2@example.org/a?X-Amz-Signature=c0ffee&size=3")}
        )
    )
    assert json.loads(row["metadata_json"])["target_uri"] == "http://example.org/a?X-Amz-Signature=-&size=3"


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz", "whole.warc.gz", "a.warc.zst"])
def test_no_single_wrong_byte_crashes_or_loses_the_untouched_records(tmp_path, name):
    """A flip may make one record a fault, or change content that nothing vouches for; every other row is as it was."""
    records = [
        response(WARC_Block_Digest=""),
        *(
            response(png(shade), headers=("Content-Type: image/png",), uri=f"http://example.org/{shade}")
            for shade in range(4)
        ),
    ]
    data = PACKINGS[name](records)
    rng = random.Random(name)
    whole = {sha(PAGE), *(sha(png(shade)) for shade in range(4))}
    for trial in range(40):
        at = rng.randrange(len(data))
        broken = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        rows = rows_of(land(tmp_path / f"in{trial}", {name: broken}))
        if name in ("a.warc", "a.warc.gz") and at > 10:
            assert len(whole - {row["digest"] for row in rows if row["status"] == "ok"}) <= 1, (trial, at)
        assert rows


def test_gzip_that_is_no_crawl_stays_what_it_is(tmp_path):
    (row,) = rows_of(land(tmp_path / "in", {"a.txt.gz": gzip.compress(b"WARC is a format of files.", mtime=0)}))
    assert (row["text_content"], row["error_code"]) == ("WARC is a format of files.", None)


def test_a_record_written_with_bare_line_feeds_ends_its_header_before_its_http_header(tmp_path):
    """The blank line of the HTTP header inside has carriage returns, and is not that of the record."""
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + PAGE
    data = b"WARC/1.0\nWARC-Type: response\nContent-Length: %d\n\n%s\n\n" % (len(block), block)
    assert [
        (row["digest"], row["error_code"])
        for row in rows_of(land(tmp_path, {"a.warc": data + response(uri="http://example.org/z")}))
    ] == [(sha(PAGE), None)] * 2


@pytest.mark.parametrize(
    "data",
    [
        b"\nWARC/1." * 8_000,
        b"WARC/1.0\nContent-Length: 9999999999\n\n" * 4_000,
        b"WARC/1.0\nContent-Length: x\n\n" * 6_000,
        b"\x1f\x8b\x08" * 50_000,
    ],
)
def test_marks_without_records_cost_a_little_each(data):
    """A header of 256 KiB was read, and a megabyte searched, for every eight bytes: a megabyte of marks took
    minutes."""
    counted = Counted(data)
    assert all(isinstance(found, Damage) for found in records(counted, settings=SETTINGS))
    assert counted.num_bytes < 1000 * len(data)


@pytest.mark.parametrize("mark", [b"WARC/1.\n", b"WARC/1.0\r\n", b"WARC/1.0\r\nWARC-Type: response\r\n"])
@pytest.mark.parametrize("num_marks", [2, 3, 200_000])
def test_headers_that_cut_each_other_are_one_row_that_counts_them(mark, num_marks):
    """Four million marks in 33 MB were four million rows, and a kilobyte read for each."""
    counted = Counted(mark * num_marks + response())
    damage, last = records(counted, settings=SETTINGS)
    assert damage.fault.code == 1003 and damage.fault.reason.startswith(f"{num_marks} record headers")
    assert isinstance(last, Record) and last.start + last.size_bytes + 4 == len(mark * num_marks + response())
    assert counted.num_bytes < 3 * len(mark * num_marks) + 20_000


def test_headers_that_cut_each_other_are_counted_across_pieces_of_the_file():
    # two pieces and a half
    data = b"".join(b"WARC/1.0\r\n" + b"x" * (1 + at % 97) + b"\r\n"[at % 2 :] for at in range(40_000))
    damage, last = records(io.BytesIO(data), settings=SETTINGS)
    assert damage.fault.reason.startswith("39999 record headers") and last.fault.code == 1002


def test_the_record_behind_a_false_length_is_sought_once():
    """Of each was read its head, and twice what follows."""
    data = response(length=10**9) * 300
    counted = Counted(data)
    assert [found.fault.code for found in records(counted, settings=SETTINGS)] == [1003] * 299 + [1002]
    assert counted.num_bytes < 300 * 2.5 * 2048
