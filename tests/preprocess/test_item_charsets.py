"""A text is decoded in the encoding that its source noted, which its bytes do not repeat."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from preprocess_media import items

from mmlake.engine.hashing import RowHashes
from mmlake.modalities import MODALITIES
from mmlake.preprocess import tracks
from mmlake.steps.row_versions import RowVersions
from mmlake.store import BlobStore

SHORT = {
    "cp1251": "Цена: 20 рублей",
    "cp1252": "m²",
    "gb18030": "中文内容",
    "cp932": "日本語の文章",
    "cp1256": "العربية",
    "iso8859-15": "20 €",
}


def landed(tmp_path: Path, data: bytes, metadata: dict[str, object], modality: str = "text") -> pa.Table:
    said = json.dumps(metadata, separators=(",", ":"), ensure_ascii=False)
    store = BlobStore(tmp_path / "blobs")
    return items(store, [data], modality, role="document", content_type="text/html", metadata_json=said)


def row_of(tmp_path: Path, given: pa.Table) -> dict[str, object]:
    decoder = MODALITIES["text"].decoder
    return tracks(given, "text", decoder=decoder, store=BlobStore(tmp_path / "blobs")).to_pylist()[0]


@pytest.mark.parametrize("charset", SHORT)
def test_a_page_is_read_in_the_charset_of_its_header(charset: str, tmp_path: Path) -> None:
    """Its item had the text, its track was unreadable (1004), or a guess at another encoding."""
    page = f"<p>{SHORT[charset]}</p>".encode(charset)
    row = row_of(tmp_path, landed(tmp_path, page, {"charset": charset, "url": "http://example.org/"}))
    assert (row["status"], row["text"]) == ("ok", SHORT[charset])


@pytest.mark.parametrize("charset", ["rot13", "unicode_escape", "utf-7", "undefined", "a\0b", 7, None])
def test_a_charset_that_no_page_has_changes_nothing(charset: object, tmp_path: Path) -> None:
    """Records have fields of this name, of which nobody knows what they hold."""
    row = row_of(tmp_path, landed(tmp_path, "<p>Gavan +AGE- \\u0061 é</p>".encode(), {"charset": charset}))
    assert row["text"] == "Gavan +AGE- \\u0061 é"


def test_only_a_charset_of_the_row_itself_counts(tmp_path: Path) -> None:
    page = "<p>Ночь, улица, фонарь, аптека, бессмысленный и тусклый свет</p>".encode("koi8-r")
    row = row_of(tmp_path, landed(tmp_path, page, {"form": {"charset": "cp1251"}}))
    assert row["text"] == "Ночь, улица, фонарь, аптека, бессмысленный и тусклый свет"


def test_a_row_is_made_again_where_its_charset_alone_changed(tmp_path: Path) -> None:
    """What else is said of it, and of media, makes nothing again."""

    def version(modality: str, metadata: dict[str, object]) -> int:
        given = landed(tmp_path, b"<p>\xd6\xe5\xed\xe0</p>", metadata, modality)
        found = RowVersions.of(["items"], lambda _, columns: [given.select(columns)], RowHashes())
        return found.versions.to_pylist()[0]

    assert version("text", {"charset": "cp1251"}) != version("text", {"charset": "cp1252"})
    assert version("text", {"charset": "cp1251"}) == version("text", {"charset": "cp1251", "seen": 2})
    assert version("audio", {"charset": "cp1251"}) == version("audio", {"charset": "cp1252"})
