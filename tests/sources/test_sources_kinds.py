"""What a loose file is: by its bytes, its name, its encoding."""

from __future__ import annotations

import json

import pytest
from source_builders import gz, land, mp4, png, rows_of, sha, wav, zst


def test_html_is_known_by_its_bytes_and_read_through_gzip(tmp_path):
    page = b"<!-- x --><HTML><p>hi"
    rows = rows_of(land(tmp_path / "in", {"a.html.gz": gz(page), "b.txt": page, "c": page, "d.htm.zst": zst(page)}))
    assert {(row["content_type"], row["digest"], row["text_content"]) for row in rows} == {
        ("text/html", sha(page), page.decode())
    }


@pytest.mark.parametrize(
    "name, data, modality, content_type",
    [
        ("x.txt", png(), "image", "image/png"),
        ("x.png", wav(), "audio", "audio/wav"),
        ("x.jpg", b"GIF89a" + bytes(9), "image", "image/gif"),
        ("x", b"RIFF\4\0\0\0WEBPVP8 ", "image", "image/webp"),
        ("x", b"MM\0*" + bytes(9), "image", "image/tiff"),
        ("x", b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0" + bytes(9), "image", "image/bmp"),
        ("x", b"\0\0\0\x1cftypavif" + bytes(16), "image", "image/avif"),
        ("x", b"\0\0\0\x1cftypheic" + bytes(16), "image", "image/heic"),
        ("x.mp4", mp4(b"vide", b"soun"), "video", "video/mp4"),
        ("x.mp4", mp4(b"soun"), "audio", "audio/mp4"),
        ("x.mp4", mp4(), "video", "video/mp4"),
        ("x.m4a", mp4(), "audio", "audio/mp4"),
        ("x", b"\0\0\0\x14ftypqt  " + bytes(8), "video", "video/quicktime"),
        (
            "x",
            b"\x1aE\xdf\xa3\x84\x42\x82\x81w\x18\x53\x80\x67\x8b\x16\x54\xae\x6b\x86\xae\x84\x83\x81\x02\xd7",
            "audio",
            "audio/x-matroska",
        ),
        (
            "x",
            b"\x1aE\xdf\xa3\x84\x42\x82\x81w\x18\x53\x80\x67\x8b\x16\x54\xae\x6b\x86\xae\x84\x83\x81\x01\xd7",
            "video",
            "video/x-matroska",
        ),
        ("x.mka", b"\x1aE\xdf\xa3\x80", "audio", "audio/x-matroska"),
        ("x", b"OggS" + bytes(24) + b"OpusHead", "audio", "audio/ogg"),
        ("x", b"OggS" + bytes(24) + b"\x80theora", "video", "video/ogg"),
        ("x", b"fLaC" + bytes(9), "audio", "audio/flac"),
        ("x", b"ID3\4" + bytes(9), "audio", "audio/mpeg"),
        ("x", (b"\xff\xfb\x90\x00" + bytes(413)) * 2, "audio", "audio/mpeg"),
        ("x", (b"\xff\xf1\x50\x80\x02\x1f\xfc" + bytes(9)) * 9, "audio", "audio/aac"),
        ("x", b"RIFF\4\0\0\0AVI LIST", "video", "video/x-msvideo"),
        ("x", (b"G" + bytes(187)) * 4, "video", "video/mp2t"),
        ("x", b"\0\0\1\xba" + bytes(9), "video", "video/mpeg"),
        ("x.ts", (b"G" + bytes(187)) * 4, "video", "video/mp2t"),
        ("x.d.ts", b"export const answer: number;\n", "text", "text/plain"),
        ("x.mts", "export const größe = 1;\n".encode(), "text", "text/plain"),
        ("x.mts", b"\0\0\0\0" + bytes(300), "video", "video/mp2t"),
        ("x.mp4", b"ffconcat version 1.0\nfile /etc/passwd\n", "video", "video/mp4"),
        ("x.csv", b"a,b\n1,2\n", "text", "text/csv"),
        ("x", "grüß Gott".encode(), "text", "text/plain"),
        ("x.txt", "Wide".encode("utf-16"), "text", "text/plain"),
    ],
)
def test_bytes_decide_the_kind_and_the_name_only_where_they_are_silent(tmp_path, name, data, modality, content_type):
    row = rows_of(land(tmp_path / "in", {name: data}))[0]
    assert (row["modality"], row["content_type"], row["status"]) == (modality, content_type, "ok")


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.4",
        b"\x93NUMPY\1\0",
        b"\0\1\2\3" * 9,
        b"<svg xmlns='x'/>",
        b'<!DOCTYPE svg PUBLIC "a" "b" [\n<!ENTITY c "d">\n]>\n<!-- e --><svg/>',
    ],
)
def test_content_that_no_modality_takes_is_a_row_in_its_directory_s_modality(tmp_path, data):
    rows = rows_of(land(tmp_path / "in", {"my_videos/x.bin": data}))
    assert [(row["modality"], row["error_code"], row["digest"]) for row in rows] == [("video", 1005, sha(data))]


def test_a_drawing_among_recordings_is_a_row_among_pictures(tmp_path):
    folder = {"stamps/a.ogg": b"OggS" + bytes(300), "stamps/b.ogg": b"OggS" + bytes(200), "stamps/b.svg": b"<svg/>"}
    rows = rows_of(land(tmp_path / "in", folder))
    assert [row["modality"] for row in rows if row["error_code"] == 1005] == ["image"]


def test_a_text_next_to_a_drawing_and_a_recording_is_the_caption_of_the_drawing(tmp_path):
    files = {"stamps/hammer.ogg": b"OggS" + bytes(300), "stamps/hammer.txt": b"A hammer."}
    roles = []
    for more in ({}, {"stamps/hammer.svg": b"<svg/>"}):
        rows = rows_of(land(tmp_path / f"in{len(more)}", files | more))
        roles += [row["role"] for row in rows if row["modality"] == "text"]
    assert roles == ["transcript", "caption"]


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-le", "cp1251", "shift_jis", "iso2022_jp"]
)
def test_texts_in_other_encodings_are_rows_with_their_charset(tmp_path, encoding):
    text = (
        "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 4
        if encoding == "cp1251"
        else "日本語の文章です。これは試験のための短い文で、文字の符号を調べます。" * 4
    )
    text = "plain ascii words in a wide encoding" if encoding == "utf-16-le" else text
    row = rows_of(land(tmp_path / "in", {"x.txt": text.encode(encoding)}))[0]
    assert row["text_content"] == text
    assert ("charset" in json.loads(row["metadata_json"] or "{}")) == (encoding != "utf-8-sig")


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"caf\xe9", bytes(range(128, 256)) * 3])
def test_bytes_in_a_text_file_that_are_no_text_are_refused(tmp_path, data):
    row = rows_of(land(tmp_path / "in", {"x.txt": data}))[0]
    assert (row["error_code"], row["digest"], row["text_content"]) == (1004, sha(data), None)


def test_a_drawing_is_no_caption_however_late_its_first_tag_comes(tmp_path):
    rows = rows_of(land(tmp_path / "in", {"a.png": png(), "a.svg": b"<!--" + b" made by hand " * 400 + b"--><svg/>"}))
    assert [(row["modality"], row["error_code"], row["sample_text"]) for row in rows] == [
        ("image", None, None),
        ("image", 1005, None),
    ]


@pytest.mark.parametrize(
    "declared",
    [b'<?xml version="1.0" encoding="iso-8859-15"?>\n<a>', b"\n<html><head><meta charset=iso-8859-15></head>"],
)
def test_a_page_is_read_in_the_encoding_that_it_names(tmp_path, declared):
    """Its one letter beyond ASCII is a currency sign in the encoding that would be guessed."""
    row = rows_of(
        land(tmp_path / "in", {"x.html": declared + "Twelve tickets cost 96 € at the gate.".encode("iso-8859-15")})
    )[0]
    assert (row["status"], row["metadata_json"]) == ("ok", '{"charset":"iso8859-15"}') and "96 €" in row["text_content"]


@pytest.mark.parametrize("name", ["x.gz", "x.bin.zst", "x.png.gz"])
def test_a_compressed_file_of_nothing_is_empty(tmp_path, name):
    rows = rows_of(land(tmp_path / "in", {name: zst(b"") if name.endswith("zst") else gz(b"")}))
    assert [row["error_code"] for row in rows] == [1006]


def test_archives_that_are_not_read_are_reported_as_such(tmp_path):
    rows = rows_of(
        land(tmp_path / "in", {"a.rar": b"Rar!\x1a\x07\x01\x00" + bytes(60), "b.7z": b"7z\xbc\xaf\x27\x1c" + bytes(60)})
    )
    assert [row["error_code"] for row in rows] == [1012, 1012] and all(
        "unpack it" in row["materialize_error"] for row in rows
    )
