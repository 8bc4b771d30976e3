"""Files that are not read: the row says what the file is and what to make of it."""

from __future__ import annotations

import io
import json
import zipfile

import pytest

from tests.make import tar
from tests.sources.source_builders import land, png, rows_of

WORD, SHEET, SLIDES, BOOK = "word processor", "a spreadsheet", "a presentation", "an e-book"
OPEN = "application/vnd.oasis.opendocument"


def packed(first: str, data: str = "x") -> bytes:
    """A zip of which this is the first member, stored as it is."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(first, data)
        archive.writestr("content.xml", "<x/>")
    return buffer.getvalue()


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    ("name", "data", "what", "remedy"),
    [
        ("a.docx", packed("[Content_Types].xml"), WORD, "text or HTML"),
        ("a.xlsx", packed("[Content_Types].xml"), SHEET, "CSV"),
        ("a.pptx", packed("[Content_Types].xml"), SLIDES, "slides as pictures"),
        ("a.odt", packed("mimetype", f"{OPEN}.text"), WORD, "text or HTML"),
        ("a.epub", packed("mimetype", "application/epub+zip"), BOOK, "text or HTML"),
        ("a.npz", packed("arr_0.npy"), "arrays of NumPy", "out of the landing zone"),  # kohya's latents
        ("a.pt", packed("archive/data.pkl"), "PyTorch", "out of the landing zone"),
        ("a.jar", packed("META-INF/MANIFEST.MF"), "a program", "out of the landing zone"),
    ],
)
def test_documents_are_named_and_to_be_saved_as_text(tmp_path, name, data, what, remedy, is_packed) -> None:
    rows = rows_of(land(tmp_path / "in", {"s.tar": tar({name: data})} if is_packed else {name: data}))
    (reason,) = [row["materialize_error"] for row in rows]
    assert rows[0]["error_code"] == 1012 and what in reason and remedy in reason and "unpack" not in reason


@pytest.mark.parametrize(
    ("first", "data", "what"),
    [
        ("mimetype", f"{OPEN}.spreadsheet", SHEET),
        ("mimetype", f"{OPEN}.presentation", SLIDES),
        ("mimetype", "application/epub+zip", BOOK),
        ("mimetype", "application/x-other", "document, spreadsheet or presentation"),
        ("[Content_Types].xml", "x", "document, spreadsheet or presentation"),
    ],
)
def test_documents_without_their_extension_are_named_by_their_first_member(tmp_path, first, data, what) -> None:
    rows = rows_of(land(tmp_path / "in", {"a": packed(first, data)}))
    assert [row["error_code"] for row in rows] == [1012] and what in rows[0]["materialize_error"]


def test_other_zips_inside_are_to_be_unpacked(tmp_path) -> None:
    rows = rows_of(land(tmp_path / "in", {"s.tar": tar({"a.zip": packed("a.txt")})}))
    assert [row["error_code"] for row in rows] == [1012] and "unpack it" in rows[0]["materialize_error"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([{"name": "zebra", "legs": 4}, {"name": "ant"}], "['legs', 'name']"),
        ([1, 2, 3], "3 values, of which num_objects=0"),
        ("words", "a JSON str"),
    ],
)
def test_json_without_a_text_says_what_was_expected(tmp_path, value, said) -> None:
    rows = rows_of(land(tmp_path / "in", {"a.json": json.dumps(value).encode()}))
    assert [row["error_code"] for row in rows] == [1003]
    assert said in rows[0]["materialize_error"] and "a list of records that have a text" in rows[0]["materialize_error"]


@pytest.mark.parametrize(
    ("name", "data", "what", "remedy"),
    [
        ("a.arc", b"filedesc://a.arc 0.0.0.0 20140216 text/plain 75\n1 0 Crawl\n", "an ARC file", "WARC"),
        ("a.orc", b"ORC\n\x05\x12\x03\x02" + bytes(40), "an ORC file", "Parquet"),
        ("part-0", b"Obj\1\4\x14avro.codec\x08null" + bytes(40), "an Avro file", "Parquet"),
        ("a.pdf", b"%PDF-1.5\n1 0 obj", "a PDF", "pictures"),
        ("a.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "a drawing in SVG", "PNG"),
        ("a.npy", b"\x93NUMPY\1\0" + bytes(40), "an array of NumPy", "out of the landing zone"),  # labelme's masks
    ],
)
def test_files_of_other_forms_are_named(tmp_path, name, data, what, remedy) -> None:
    (row,) = rows_of(land(tmp_path / "in", {name: data}))
    assert row["error_code"] == 1005
    assert row["materialize_error"].startswith(f"content is {what}") and row["materialize_error"].endswith(remedy)


def test_a_text_that_begins_like_one_of_them_is_a_text(tmp_path) -> None:
    (row,) = rows_of(land(tmp_path / "in", {"a.txt": b"ORCHARDS bloom in May."}))
    assert (row["status"], row["content_type"]) == ("ok", "text/plain")


def test_what_is_no_text_is_no_caption_of_the_picture_with_its_name(tmp_path) -> None:
    # as Matplotlib's directive writes each plot of a documentation
    files = {"plot.png": png(), "plot.pdf": b"%PDF-1.5\n1 0 obj", "b.txt": b"A text of its own."}
    rows = {(row["content_type"] or "").rpartition("/")[2]: row for row in rows_of(land(tmp_path / "in", files))}
    assert (rows["pdf"]["error_code"], rows["pdf"]["role"]) == (1005, "document")
    assert (rows["png"]["status"], rows["png"]["sample_text"]) == ("ok", None)
