"""Samples of random members, odd ones among them: their rows do not depend on what they are packed in."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmlake import rows, sources
from mmlake.records import SourceRef
from mmlake.store import BlobStore

_JPEG, _PNG, _TIFF, _WAV = (
    b"\xff\xd8\xff\xe0" + bytes(30),
    b"\x89PNG\r\n\x1a\n" + bytes(30),
    b"II*\0" + bytes(30),
    b"RIFF\x24\0\0\0WAVEfmt " + bytes(30),
)
_TEXTS = st.sampled_from(
    [
        "a river",
        "",
        "<html><body>x</body></html>",
        "WEBVTT\n\n",
        "1\n00:00:01,000 --> 00:00:02,000\nx",
        "\ufeffmarked",
        "Zoë",
        "\0zero",
        "\x1b$B!!",
        "\ud800",
    ]
)
_VALUES = st.one_of(
    st.none(), _TEXTS, st.integers(-(1 << 70), 1 << 70), st.booleans(), st.lists(st.integers(0, 9), max_size=2)
)
_FILES = {
    "0.jpg": _JPEG, "1.jpg": _JPEG + b"1", "png": _PNG, "tif": _TIFF, "wav": _WAV, "empty.jpg": b"",
    "bin": b"\1\2\3\4" * 20, "txt": b"a caption", "latin.txt": "Café Zürich".encode("latin-1") * 4,
    "srt": b"1\n00:00:01,000 --> 00:00:02,000\nx\n", "cls": b"7", "jpg.gz": b"\x1f\x8b\x08broken",
    "other.json": b'{"more": 1}',
}  # fmt: skip


@st.composite
def _records(draw: st.DrawFn, stem: str) -> dict[str, Any]:
    tokens = st.one_of(
        st.none(),
        st.sampled_from([f"{stem}.{ending}" for ending in ("0.jpg", "tif", "png", "txt")]),
        st.sampled_from(["0.jpg", "elsewhere.jpg", f"{stem}.0.missing"]),
        st.just({"member": f"{stem}.0.jpg"}),
    )
    record: dict[str, Any] = {}
    if draw(st.booleans()):
        record["texts"] = draw(
            st.one_of(
                st.lists(st.one_of(st.none(), _TEXTS), max_size=4), st.lists(_VALUES, max_size=3), st.just("no list")
            )
        )
    if draw(st.booleans()):
        record["images"] = draw(st.lists(tokens, max_size=4))
    for name in draw(
        st.lists(
            st.sampled_from(
                [
                    "caption",
                    "captions",
                    "transcript",
                    "text",
                    "license",
                    "audios",
                    "url",
                    "sample_id",
                    "licence",
                    "Ünit",
                ]
            ),
            max_size=3,
            unique=True,
        )
    ):
        record[name] = draw(st.one_of(_VALUES, st.lists(_TEXTS, max_size=2), st.just("CC-BY-4.0")))
    return record


@st.composite
def _members(draw: st.DrawFn) -> list[tuple[str, bytes]]:
    members = []
    for stem in draw(st.lists(st.sampled_from(["a", "d/a", "é", "w#x"]), min_size=1, max_size=2, unique=True)):
        # not unique: an archive may hold a name twice
        for ending in draw(
            st.lists(st.one_of(st.sampled_from(["0.jpg", "tif"]), st.sampled_from(sorted(_FILES))), max_size=4)
        ):
            members.append((f"{stem}.{ending}", _FILES[ending]))
        if draw(st.integers(0, 3)):
            data = json.dumps(draw(_records(stem)), ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
            members.insert(
                draw(st.integers(0, len(members))),
                (f"{stem}.json", draw(st.sampled_from([data, data, data, data[:-1]]))),
            )
    return members


def _tar(path: Path, members: list[tuple[str, bytes]], form: int) -> None:
    with tarfile.open(path, "w", format=form) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1.5 if form == tarfile.PAX_FORMAT else 1  # type: ignore[assignment]
            archive.addfile(info, io.BytesIO(data))


def _zip(path: Path, members: list[tuple[str, bytes]]) -> None:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore")  # a name may stand twice
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data)


def _rows(path: Path, given: sources.SourceSettings) -> list[list[dict[str, Any]]]:
    """Everything that both readers make of the shard, without the name of its file and the ranges in it."""
    found = []
    for shard in sources.scan(path.parent, settings=given):
        for materialize in ("never", "read"):
            options: dict[str, Any] = {"settings": given, "materialize": materialize, "not_a_list": "report"}
            batches = list(rows.read_rows(shard, landing=path.parent, **options))
            found.append([row for batch in batches for row in batch.table.to_pylist()])
        for modality in shard.modalities:
            store = BlobStore(path.parent.parent / "blobs")
            table = sources.ingest(shard, modality, landing=path.parent, store=store, settings=given)
            found.append(table.to_pylist())
    for row in (row for table in found for row in table):
        for name in ("item_id", "sample_id", "source_file"):
            row[name] = row[name].replace(path.name, "s") if row.get(name) else None
        if row.get("source_ref"):
            row["source_ref"] = SourceRef.from_json(row["source_ref"])._replace(
                path="s", byte_offset=None, byte_size=None
            )
    return found


@settings(max_examples=100)
@given(
    members=_members(),
    form=st.sampled_from([tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]),
    named=st.booleans(),
    texts_field=st.sampled_from(["texts", "captions"]),
)
def test_a_tar_a_compressed_tar_and_a_zip_give_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory,
    members: list[tuple[str, bytes]],
    form: int,
    named: bool,
    texts_field: str,
) -> None:
    given = sources.SourceSettings(sample_id_field="sample_id" if named else "", texts_field=texts_field)
    root = tmp_path_factory.mktemp("samples")
    paths = [root / kind / f"s.{kind}" for kind in ("tar", "tgz", "zip")]
    for path in paths:
        path.parent.mkdir()
    _tar(paths[0], members, form)
    paths[1].write_bytes(gzip.compress(paths[0].read_bytes()))
    _zip(paths[2], members)
    first, *others = (_rows(path, given) for path in paths)
    assert [first] * 2 == others


def _in_tar(tmp_path: Path, members: list[tuple[str, bytes]], **given: Any) -> list[dict[str, Any]]:
    """The rows of all items of a tar with these members."""
    (tmp_path / "zone").mkdir()
    _tar(tmp_path / "zone" / "s.tar", members, tarfile.USTAR_FORMAT)
    return _rows(tmp_path / "zone" / "s.tar", sources.SourceSettings(**given))[0]


@pytest.mark.parametrize(
    ("members", "num_rows"),
    [
        ([("a.json", b'{"texts": ["x", null], "images": [null, "a.0.jpg"], "url": "u"}'), ("a.0.jpg", _JPEG)], 3),
        ([("a.jpg", _JPEG), ("a.txt", b"a caption"), ("a.json", b'{"url": "u", "license": "CC0-1.0"}')], 3),
        ([("a.jpg", _JPEG), ("a.json", b'{"caption": "a river"}')], 2),
        ([("a.wav", _WAV), ("a.txt", b"spoken words")], 2),
        ([("a.txt", b"a document")], 1),
    ],
)
def test_a_common_sample_has_a_row_per_item_and_one_of_its_fields(
    tmp_path: Path, members: list[tuple[str, bytes]], num_rows: int
) -> None:
    assert len(_in_tar(tmp_path, members)) == num_rows


@pytest.mark.parametrize(
    "members",
    [
        [("a.tif", _TIFF), ("a.json", b'{"images": ["a.tif", "a.tif"]}')],  # its pages are counted
        [("a.0.jpg", _JPEG), ("a.json", b'{"images": [{"member": "a.0.jpg", "frame_index": 0}]}')],
        [("a.0.jpg", _JPEG), ("a.0.jpg", _JPEG), ("a.json", b'{"images": ["a.0.jpg"]}')],
        [("a.0.jpg", _JPEG), ("a.json", b'{"texts": [3]}')],
        [("a.wav", _WAV), ("a.json", b'{"audios": ["a.0.wav"]}')],
        [("a.jpg", b""), ("a.json", b'{"url": "u"}')],
        [("a.jpg", _JPEG), ("a.cls", b"7")],
        [("a.jpg", _JPEG), ("a.json", b'{"url": ')],
    ],
)
def test_an_odd_sample_in_a_zip_has_the_rows_of_a_tar(tmp_path: Path, members: list[tuple[str, bytes]]) -> None:
    (tmp_path / "zips").mkdir()
    _zip(tmp_path / "zips" / "s.zip", members)
    in_zip = _rows(tmp_path / "zips" / "s.zip", sources.SourceSettings())
    assert _in_tar(tmp_path, members) == in_zip[0] != []


def test_texts_with_positions_are_no_texts_of_their_own_again(tmp_path: Path) -> None:
    members = [("a.jpg", _JPEG), ("a.json", b'{"captions": ["one", "two"], "transcript": "three"}')]
    found = _in_tar(tmp_path, members, texts_field="captions")
    assert [row["text_content"] for row in found if row["text_content"] is not None] == ["one", "two", "three"]


def test_a_picture_gets_all_captions_and_a_recording_its_first_transcript(tmp_path: Path) -> None:
    (tmp_path / "zone").mkdir()
    members = [
        ("a.jpg", _JPEG),
        ("a.json", b'{"captions": ["one", "two"]}'),
        ("b.txt", b"words"),
        ("b.srt", _FILES["srt"]),
        ("b.wav", _WAV),
    ]
    _tar(tmp_path / "zone" / "s.tar", members, tarfile.USTAR_FORMAT)
    (shard,) = sources.scan(tmp_path / "zone", settings=sources.SourceSettings())
    store = BlobStore(tmp_path / "blobs")
    found = {
        m: sources.ingest(shard, m, landing=tmp_path / "zone", store=store, settings=sources.SourceSettings())
        .column("sample_text")
        .to_pylist()
        for m in ("image", "audio")
    }
    assert found == {"image": ["one\ntwo"], "audio": [_FILES["srt"].decode()]}
