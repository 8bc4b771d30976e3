"""Tars as programs really write them: with times in PAX records, hard links, files of other systems, many small
members."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import webdataset
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mmlake import rows, sources
from mmlake.formats.tar import BLOCK, Run, walk
from mmlake.media.pictures import picture_formats
from mmlake.records import SourceRef, digest_of
from mmlake.streams import Window

_JPEG = b"\xff\xd8\xff\xe0" + bytes(range(200))
_SETTINGS = sources.SourceSettings()


def _add(archive: tarfile.TarFile, name: str, data: bytes = b"", **fields: Any) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    archive.addfile(info, io.BytesIO(data))


def _items(landing: Path) -> list[sources.RawItem]:
    (shard,) = sources.scan(landing, settings=_SETTINGS)
    return list(sources.read(shard, landing=landing, settings=_SETTINGS))


def _bytes(landing: Path, item: sources.RawItem) -> bytes:
    return sources.fetch(SourceRef.from_json(item.ref.to_json()), landing=landing)


def test_a_hard_link_has_the_bytes_of_the_member_that_it_names(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "s.tar", "w") as archive:
        _add(archive, "a.jpg", _JPEG)
        _add(archive, "b.jpg", type=tarfile.LNKTYPE, linkname="a.jpg")
        _add(archive, "c.jpg", type=tarfile.LNKTYPE, linkname="b.jpg")
        _add(archive, "d.jpg", type=tarfile.LNKTYPE, linkname="e.jpg")
        _add(archive, "e.jpg", _JPEG + b"e")
        _add(archive, "../f.jpg", type=tarfile.LNKTYPE, linkname="a.jpg")
    found = {item.ref.member: item for item in _items(tmp_path)}
    assert {name: item.fault and item.fault.code for name, item in found.items()} == {
        "a.jpg": None,
        "b.jpg": None,
        "c.jpg": None,
        "d.jpg": 1007,
        "e.jpg": None,
        "../f.jpg": 1007,
    }
    assert [_bytes(tmp_path, found[name]) for name in ("a.jpg", "b.jpg", "c.jpg")] == [_JPEG] * 3
    # no header of `b.jpg` stands before those bytes
    assert found["a.jpg"].ref.byte_offset == 512 and found["b.jpg"].ref.byte_offset is None


def test_a_hard_link_to_a_long_name_is_followed(tmp_path: Path) -> None:
    name = "d/" * 60 + "a.txt"
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(tmp_path / "s.tar", "w", format=form) as archive:
            _add(archive, name, b"words")
            _add(archive, "b.txt", type=tarfile.LNKTYPE, linkname=name)
        assert [item.fault for item in _items(tmp_path)] == [None, None]


def test_files_of_a_mac_do_not_make_one_sample_of_a_folder(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "s.tar", "w") as archive:
        for name in ("000", "001"):
            _add(archive, f"x/._{name}.jpg", b"\0\5\x16\7\0\2\0\0Mac OS X" + bytes(40))
            _add(archive, f"x/{name}.jpg", _JPEG)
    found = _items(tmp_path)
    assert [(item.sample_id.rpartition("/")[2], item.fault and item.fault.code) for item in found] == [
        ("._000", 1005),
        ("000", None),
        ("._001", 1005),
        ("001", None),
    ]


def test_solaris_records_are_obeyed(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "s.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, "ö" * 80 + ".txt", b"words")
    data = bytearray((tmp_path / "s.tar").read_bytes())
    assert data[156:157] == b"x"
    data[156] = ord("X")
    data[148:156] = b"%06o\0 " % (sum(data[:148]) + sum(data[156:512]) + 8 * 32)
    (tmp_path / "s.tar").write_bytes(data)
    assert [(item.ref.member, item.fault) for item in _items(tmp_path)] == [("ö" * 80 + ".txt", None)]


def test_a_shard_of_the_webdataset_library_is_read_in_runs_although_each_member_has_a_record(tmp_path: Path) -> None:
    with webdataset.TarWriter(str(tmp_path / "s.tar")) as writer:
        for number in range(5):
            writer.write({"__key__": f"{number:03d}", "jpg": _JPEG, "json": {"n": number}})
    assert (tmp_path / "s.tar").read_bytes()[156:157] == b"x"
    with (tmp_path / "s.tar").open("rb") as file:
        (run,) = walk(Window(file), head_bytes=16)
    assert isinstance(run, Run)
    assert run.names.split("\0") == [f"{number:03d}.{ending}" for number in range(5) for ending in ("jpg", "json")]
    (shard,) = sources.scan(tmp_path, settings=_SETTINGS)
    (batch,) = rows.read_rows(shard, landing=tmp_path)
    assert batch.table.column("n").to_pylist()[::2] == list(range(5))


@st.composite
def _archives(draw: st.DrawFn) -> bytes:
    sink = io.BytesIO()
    form = draw(st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
    with tarfile.open(fileobj=sink, mode="w", format=form) as archive:
        for number in range(draw(st.integers(0, 12))):
            kind = draw(
                st.sampled_from(
                    [
                        tarfile.REGTYPE,
                        tarfile.REGTYPE,
                        tarfile.REGTYPE,
                        tarfile.AREGTYPE,
                        tarfile.DIRTYPE,
                        tarfile.SYMTYPE,
                    ]
                )
            )
            name = (
                draw(
                    st.sampled_from(
                        [
                            "a",
                            "é",
                            "d/b",
                            "x" * (99 if form != tarfile.USTAR_FORMAT else 90),
                            "y" * 60 + "/" + "z" * 60,
                            "../up",
                            ".hidden",
                            "with\nline",
                        ]
                    )
                )
                + f"{number}.txt"
            )
            size = draw(st.sampled_from([0, 1, 511, 512, 513, 9000, 40_000])) if kind in tarfile.REGULAR_TYPES else 0
            _add(
                archive,
                name,
                bytes([number]) * size,
                type=kind,
                mtime=draw(st.sampled_from([1, 1.5])) if form == tarfile.PAX_FORMAT else 1,
                linkname="a" if kind == tarfile.SYMTYPE else "",
            )
    return sink.getvalue()


@settings(max_examples=150)
@given(data=_archives(), head_bytes=st.sampled_from([0, 64]), stream=st.booleans())
def test_the_walk_gives_what_the_standard_library_gives(
    tmp_path: Path, data: bytes, head_bytes: int, stream: bool
) -> None:
    (tmp_path / "a.tar").write_bytes(data)
    with (tmp_path / "a.tar").open("rb") if not stream else io.BytesIO(data) as file:
        found: list[tuple[str, int, int]] = []
        for one in walk(Window(file), head_bytes=head_bytes):  # type: ignore[arg-type]
            if isinstance(one, Run):
                found += zip(one.names.split("\0"), one.offsets, one.sizes, strict=True)
                assert one.heads == [
                    data[offset : offset + min(size, head_bytes)]
                    for offset, size in zip(one.offsets, one.sizes, strict=True)
                ]
            else:
                found.append((one.name, one.offset, one.size_bytes))
    with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape") as archive:
        expected = [
            (info.name, info.offset_data if info.isreg() else None, info.size) for info in archive if not info.isdir()
        ]
    assert [(name, size) for name, _, size in found] == [(name, size) for name, _, size in expected]
    assert all(
        offset == other for (_, offset, _), (_, other, _) in zip(found, expected, strict=True) if other is not None
    )


@pytest.mark.parametrize("at", [0, 100, 124, 135, 148, 154, 156, 345])
def test_a_header_that_is_not_of_the_plainest_form_is_read_by_itself(tmp_path: Path, at: int) -> None:
    """A flipped byte in the third of five headers: two members, and an error that names its place."""
    with tarfile.open(tmp_path / "s.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        for number in range(5):
            _add(archive, f"{number}.txt", b"words")
    data = bytearray((tmp_path / "s.tar").read_bytes())
    data[4 * BLOCK + at] ^= 0x41
    (tmp_path / "s.tar").write_bytes(data)
    found = _items(tmp_path)
    assert [item.fault and item.fault.code for item in found] == [None, None, 1001]
    assert f"byte {4 * BLOCK}" in (found[2].fault or sources.rows.Fault(0, "")).reason


def test_equal_captions_of_two_places_are_said_once(tmp_path: Path) -> None:
    class _Nowhere:
        def put(self, data: bytes, *, extension: str = "bin") -> str:
            return digest_of(data)

    with tarfile.open(tmp_path / "s.tar", "w") as archive:
        _add(archive, "a.jpg", _JPEG)
        _add(archive, "a.txt", b"a river")
        _add(archive, "a.json", json.dumps({"caption": "a river", "key": "a"}).encode())
    (shard,) = sources.scan(tmp_path, settings=_SETTINGS)
    table = sources.ingest(shard, "image", landing=tmp_path, store=_Nowhere(), settings=_SETTINGS)  # type: ignore[arg-type]
    assert table.column("sample_text").to_pylist() == ["a river"]


@pytest.mark.parametrize(
    ("extension", "form"),
    [
        ("tga", "TGA"),
        ("ico", "ICO"),
        ("dds", "DDS"),
        ("sgi", "SGI"),
        ("pcx", "PCX"),
        ("pbm", "PPM"),
        ("qoi", "QOI"),
        ("icns", "ICNS"),
        ("xbm", "XBM"),
    ],
)
def test_pictures_of_rarer_formats_are_images_that_open(tmp_path: Path, extension: str, form: str) -> None:
    sink = io.BytesIO()
    Image.new("1" if extension in ("pbm", "xbm") else "RGB", (128, 128)).save(sink, form)
    with tarfile.open(tmp_path / "s.tar", "w") as archive:
        _add(archive, f"a.{extension}", sink.getvalue())
    (item,) = _items(tmp_path)
    assert (item.modality, item.fault, item.extension) == ("image", None, extension)
    assert Image.open(io.BytesIO(_bytes(tmp_path, item)), formats=picture_formats()).format == form


def test_a_picture_that_is_written_as_a_program_is_no_caption(tmp_path: Path) -> None:
    drawn = b'/* XPM */\nstatic char *a[] = {\n"2 2 2 1",\n". c #FF0000",\n"X c #0000FF",\n".X",\n"X."\n};\n'
    with tarfile.open(tmp_path / "s.tar", "w") as archive:
        _add(archive, "a.jpg", _JPEG)
        _add(archive, "a.xpm", drawn)
    assert [(item.modality, item.role, item.extension) for item in _items(tmp_path)] == [
        ("image", "media", "jpg"),
        ("image", "media", "xpm"),
    ]
    assert Image.open(io.BytesIO(drawn), formats=picture_formats()).convert("RGB").getpixel((1, 0)) == (0, 0, 255)


@pytest.mark.parametrize(
    ("digits", "code"), [("0" * 21 + "7", None), ("0" * 24, None), ("1" + "0" * 19, 1001), ("", 1001)]
)
def test_a_size_in_a_pax_record_may_begin_with_zeros(tmp_path: Path, digits: str, code: int | None) -> None:
    with tarfile.open(tmp_path / "s.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("a.txt")
        info.size = int(digits or "0") % 8
        info.pax_headers = {"size": digits}
        archive.addfile(info, io.BytesIO(b"a river"))
    (item,) = _items(tmp_path)
    assert (item.fault and item.fault.code, item.size_bytes) == (code, 0 if code else int(digits))
