"""The landing zone: what is a shard, loose files, sidecars, defaults, links, and that an unchanged zone is not
opened."""

from __future__ import annotations

import io
import os
import zipfile
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_builders import SETTINGS, brief, gz, jsonl, land, mp4, parquet, png, rows_of, tar, wav, zst

from mmlake import sources
from mmlake.errors import ContractBroken, SettingsError, UnreadableItem
from mmlake.landing import LocalLanding as Landing
from mmlake.records import SourceRef
from mmlake.store import BlobStore
from tests import make


def test_loose_files_of_a_directory_are_one_shard_and_containers_their_own(tmp_path):
    files = {
        "a.png": png(),
        "sub/b.png": png(1),
        "sub/c.wav": wav(),
        "sub/d.tar": tar({"0.png": png()}),
        "sub/deep/e.jsonl": jsonl({"text": "x"}),
        "p.parquet": parquet({"text": ["x"]}),
    }
    found = {
        shard.key: (shard.format, shard.modalities)
        for shard in sources.scan(land(tmp_path / "in", files), settings=SETTINGS)
    }
    assert found == {
        "p.parquet": ("parquet", ("text",)),
        "root": ("folder", ("image",)),
        "sub": ("folder", ("image", "audio")),
        "sub/d.tar": ("webdataset", ("image",)),
        "sub/deep/e.jsonl": ("jsonl", ("text",)),
    }
    assert list(found) == sorted(found)


def test_hidden_unfinished_and_marker_files_are_ignored(tmp_path):
    names = [".hidden", ".dir/x.png", "a.png.part", "b.tmp", "c.crdownload", "d.filepart", "_SUCCESS", "x/_source.json"]
    root = land(tmp_path / "in", dict.fromkeys(names, b"{}"))
    (root / "empty").mkdir()
    assert sources.scan(root, settings=SETTINGS) == []


def test_media_whose_names_begin_with_a_dot_are_rows_loose_or_as_members(tmp_path):
    """And what systems and copying programs leave is not, but in a tar or zip, where somebody packed it."""
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr(".z.png", png(3))
        archive.writestr("in/.y.txt", b"words that are packed")
    litter = ("._a.png", ".a.png.a8XqZ1", ".a.png.swp", ".~lock.a.txt#", ".tmp.png", ".pending-1-a.png", ".DS_Store")
    files = {".a.png": png(), ".a.txt": b"its caption", "sub/.b.WAV": wav(), ".dir/c.png": png(4)}
    files |= {"t.tar": tar({".m.png": png(1), "in/.n.png": png(2)}), "z.zip": zipped.getvalue()}
    found = rows_of(land(tmp_path / "in", files | dict.fromkeys(litter, b"litter")))
    assert {row["status"] for row in found} == {"ok"}
    refs = [SourceRef.parse(row["source_ref"]) for row in found]
    assert sorted((ref.path, ref.member) for ref in refs) == [
        (".a.png", None),
        (".a.txt", None),
        ("sub/.b.WAV", None),
        ("t.tar", ".m.png"),
        ("t.tar", "in/.n.png"),
        ("z.zip", ".z.png"),
        ("z.zip", "in/.y.txt"),
    ]
    own = {row["sample_id"] for row, ref in zip(found, refs, strict=True) if ref.path.startswith(".a.")}
    assert len(own) == 1  # picture and caption are one sample


def test_a_directory_that_may_not_be_listed_is_a_row_and_the_rest_is_read(tmp_path, monkeypatch):
    root = land(tmp_path / "in", {"a.txt": b"a text", "kept/b.txt": b"another", "shut/c.txt": b"a third"})
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("/shut") and may(path, mode))
    rows = [(row["status"], row["error_code"], SourceRef.parse(row["source_ref"]).path) for row in rows_of(root)]
    assert sorted(rows, key=lambda row: row[2]) == [
        ("ok", None, "a.txt"),
        ("ok", None, "kept/b.txt"),
        ("unreadable", 1007, "shut"),
    ]


def test_a_landing_zone_that_may_not_be_listed_is_named(tmp_path, monkeypatch):
    def refusing(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(SettingsError, match=f"landing zone {tmp_path} may not be listed"):
        sources.scan(tmp_path, settings=SETTINGS)


def test_sidecars_join_the_sample_of_their_medium(tmp_path):
    files = {
        "a/talk.mp4": mp4(b"vide", b"soun"),
        "a/talk.en.vtt": b"WEBVTT\n\n00:01.000 --> 00:02.000\nhi",
        "a/talk.txt": b"hi",
        "a/talk.json": b'{"license":"CC0"}',
        "a/other.txt": b"alone",
    }
    rows = rows_of(land(tmp_path / "in", files))
    assert brief(rows) == [
        ("a/other.txt", "text", "document", None),
        ("a/talk.en.vtt", "text", "transcript", None),
        ("a/talk.mp4", "video", "media", None),
        ("a/talk.txt", "text", "transcript", None),
    ]
    assert (
        rows[2]["sample_text"].startswith("WEBVTT")
        and rows[2]["licence"] == "CC0-1.0"
        and rows[0]["sample_id"] == "a/other"
    )


def test_a_tar_of_a_directory_gives_its_rows(tmp_path):
    files = {
        "0.png": png(),
        "0.txt": b"cat",
        "1.wav": wav(),
        "2.json": b'{"text":"body"}',
        "3.html": b"<!doctype html><p>x",
    }
    loose, packed = rows_of(land(tmp_path / "a", files)), rows_of(land(tmp_path / "b", {"s.tar": tar(files)}))
    columns = (
        "digest",
        "position",
        "modality",
        "role",
        "content_type",
        "text_content",
        "sample_text",
        "status",
        "size_bytes",
    )
    assert [[row[name] for name in columns] for row in loose] == [[row[name] for name in columns] for row in packed]


def test_links_inside_are_files_and_links_outside_are_refused_rows(tmp_path):
    root = land(tmp_path / "in", {"a/real.png": png()})
    (tmp_path / "secret.png").write_bytes(png(9))
    os.symlink("real.png", root / "a/inside.png")
    os.symlink(tmp_path / "secret.png", root / "a/outside.png")
    os.symlink(tmp_path, root / "a/folder")
    os.symlink("nowhere", root / "a/broken.png")
    os.mkfifo(root / "a/pipe.wav")
    rows = rows_of(root)
    assert {SourceRef.from_json(row["source_ref"]).path: row["error_code"] for row in rows} == {
        "a/broken.png": 1007, "a/folder": 1007, "a/inside.png": None, "a/outside.png": 1007, "a/pipe.wav": 1007,
        "a/real.png": None,
    }  # fmt: skip
    assert all(row["digest"] is None for row in rows if row["error_code"])


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "link/x"])
def test_a_locator_never_leads_out_of_the_landing_zone(tmp_path, path):
    root = land(tmp_path / "in", {"a.txt": b"x"})
    (tmp_path / "secret").write_bytes(b"s")
    os.symlink(tmp_path, root / "link")
    with pytest.raises(UnreadableItem):
        sources.fetch(SourceRef(path=path), landing=root)


def test_the_nearest_source_file_wins_field_by_field(tmp_path):
    files = {
        "a/_source.json": b'{"source":"coco","licence":"CC BY 4.0","priority":5}',
        "a/b/_source.json": b'{"licence":"mit"}',
        "a/b/x.txt": b"x",
        "c/d/y.txt": b"y",
        "z.txt": b"z",
    }
    root = land(tmp_path / "in", files)
    assert [(row["source"], row["licence"]) for row in rows_of(root)] == [
        ("coco", "MIT"),
        ("c", "NOASSERTION"),
        ("root", "NOASSERTION"),
    ]
    assert sources.priorities(root) == {"c": 100, "coco": 5, "root": 100}


@pytest.mark.parametrize("text", [b"[]", b"{", b'{"priority":"high"}', b'{"sauce":"x"}', b'{"source":""}'])
def test_a_source_file_that_says_nothing_usable_raises(tmp_path, text):
    with pytest.raises(SettingsError, match="_source.json"):
        sources.scan(land(tmp_path / "in", {"a/_source.json": text, "a/x.txt": b"x"}), settings=SETTINGS)


def test_an_unchanged_zone_is_not_opened(tmp_path, monkeypatch):
    root = land(
        tmp_path / "in",
        {"a.png": png(), "s/b.tar": tar({"0.png": png()}), "s/c.jsonl": jsonl({"text": "x"}), "s/d.txt": b"d"},
    )
    counts = []
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, advance=counts.append)}
    assert sum(counts) == 4
    opened = []
    monkeypatch.setattr(Landing, "open", lambda self, path: opened.append(path))
    again = sources.scan(root, settings=SETTINGS, known=first, advance=opened.append)
    assert again == list(first.values()) and opened == []


@pytest.mark.parametrize(("record", "num_passes"), [(None, 2), (b'{"label": 3}', 3), (b'{"text": "words"}', 3)])
def test_a_directory_is_read_again_for_its_texts_where_it_has_records_alone(tmp_path, monkeypatch, record, num_passes):
    """Once to find out which are containers, once for what the others are."""
    files = {f"{at}.png": png(at) for at in range(5)} | {f"{at}.json": record for at in range(5) if record}
    root, head, heads = land(tmp_path / "in", files), Landing.head, Counter()
    monkeypatch.setattr(Landing, "head", lambda self, path, size: heads.update([path]) or head(self, path, size))
    (shard,) = sources.scan(root, settings=SETTINGS)
    assert shard.modalities == (("text", "image") if record and b"words" in record else ("image",))
    assert heads["0.png"] == num_passes


def test_only_what_changed_gets_a_new_revision(tmp_path):
    root = land(tmp_path / "in", {"a/x.txt": b"x", "a/y.txt": b"y", "b/z.txt": b"z", "c.jsonl": jsonl({"text": "x"})})
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    land(root, {"a/y.txt": b"longer", "_source.json": b'{"source":"s"}'})
    (root / "_source.json").unlink()
    second = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)}
    assert [key for key in first if first[key].revision != second[key].revision] == ["a"]


def test_a_file_that_turns_into_a_container_leaves_its_directory_s_shard(tmp_path):
    root = land(tmp_path / "in", {"a/x": b"some text", "a/y.txt": b"y"})
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    land(root, {"a/x": tar({"0.png": png()})})
    assert [(shard.key, shard.format) for shard in sources.scan(root, settings=SETTINGS, known=first)] == [
        ("a", "folder"),
        ("a/x", "webdataset"),
    ]


def test_a_shard_that_changed_since_the_scan_is_refused(tmp_path):
    root = land(tmp_path / "in", {"a.txt": b"x"})
    shard = sources.scan(root, settings=SETTINGS)[0]
    land(root, {"b.png": png()})
    with pytest.raises(ContractBroken, match="scan"):
        sources.ingest(shard, "text", landing=root, store=BlobStore(tmp_path / "store"), settings=SETTINGS)


def test_a_file_that_vanished_since_the_scan_is_a_row_that_says_so(tmp_path):
    root = land(tmp_path / "in", {"image/s.tar": tar({"0.png": png()})})
    shard = sources.scan(root, settings=SETTINGS)[0]
    (root / "image/s.tar").unlink()
    table = sources.ingest(shard, "image", landing=root, store=BlobStore(tmp_path / "store"), settings=SETTINGS)
    assert table["error_code"].to_pylist() == [1001]


def test_the_same_zone_gives_the_same_bytes_of_table_twice(tmp_path):
    root = land(
        tmp_path / "in",
        {"s.tar": tar({"0.png": png(), "0.json": b'{"b":1,"a":2,"caption":"c"}', "0.cls": b"1"}), "x.txt": b"x"},
    )
    for shard in sources.scan(root, settings=SETTINGS):
        made = [
            sources.ingest(shard, modality, landing=root, store=BlobStore(tmp_path / f"store{at}"), settings=SETTINGS)
            for modality in shard.modalities
            for at in (0, 1)
        ]
        assert all(left.equals(right) for left, right in zip(made[::2], made[1::2], strict=True))


_BODIES = st.one_of(
    st.sampled_from(
        [
            png(),
            wav(),
            mp4(b"soun"),
            b"",
            b"plain text",
            b'{"text":"t"}',
            b'{"caption":"c","license":"mit"}',
            b"{",
            b"%PDF-",
            b'{"texts":["a",null],"images":[null,"x"]}',
        ]
    ),
    st.binary(max_size=40),
)


_FILES = st.lists(
    st.tuples(
        st.sampled_from(["0", "1", "d/0"]),
        st.sampled_from(["png", "txt", "json", "wav", "cls", "bin", "txt.gz", "srt", ""]),
        _BODIES,
    ),
    max_size=6,
)


@settings(max_examples=60)
@given(
    members=_FILES,
    loose=_FILES,
    cut=st.integers(0, 12_000),
    flip=st.integers(0, 12_000),
    pack=st.sampled_from([bytes, gz, zst]),
    lines=st.lists(_BODIES, max_size=4),
)
def test_whatever_lands_every_item_is_a_row_of_exactly_one_modality(
    tmp_path_factory, members, loose, cut, flip, pack, lines
):
    """rows_of asserts it: the rows over a shard's modalities are its items, each once, and every digest can be
    fetched again."""
    archive = bytearray(
        tar([(f"{stem}.{extension}" if extension else stem, data) for stem, extension, data in members])
    )
    if flip < len(archive):
        archive[flip] ^= 1
    files = {
        f"loose/{stem.replace('/', '-')}.{extension}x"[: -1 if extension else -2]: data
        for stem, extension, data in loose
    }
    files |= {"s.tar": pack(bytes(archive[:cut])), "l.jsonl": pack(b"\n".join(lines))}
    rows_of(land(tmp_path_factory.mktemp("zone") / "in", files))


def test_a_scan_that_may_open_two_shards_leaves_the_others_for_the_next(tmp_path, monkeypatch):
    root = make.land(
        tmp_path,
        {f"text/{number}.jsonl": make.jsonl([make.prose(number)]) for number in range(5)}
        | {"text/loose.txt": b"A loose file beside them."},
    )
    known: dict[str, sources.Shard] = {}
    sizes = []
    for _ in range(4):
        opened = []
        original = Landing.open
        monkeypatch.setattr(
            Landing,
            "open",
            lambda self, path, original=original, opened=opened: opened.append(path) or original(self, path),
        )
        known = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=known, at_most=2)}
        monkeypatch.undo()
        assert len(set(opened)) <= 2
        sizes.append(len(known))
    assert sizes == [2, 4, 6, 6]
    assert sorted(known.values(), key=lambda shard: shard.key) == sources.scan(root, settings=SETTINGS)


def test_a_changed_shard_beyond_the_allowance_stays_as_it_was_and_is_not_gone(tmp_path):
    root = make.land(tmp_path, {f"text/{number}.jsonl": make.jsonl([make.prose(number)]) for number in range(3)})
    before = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    for number in range(3):
        make.land(root, {f"text/{number}.jsonl": make.jsonl([make.prose(number), make.prose(9)])})
    after = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=before, at_most=1)}
    assert [key for key in before if after[key] != before[key]] == ["text/0.jsonl"]


def test_a_source_file_that_is_a_link_to_elsewhere_is_named_with_its_remedy(tmp_path):
    """It may say another licence, so that its directory is not read without it."""
    root = make.land(tmp_path / "in", {"a/x.txt": b"words"})
    (root / "a" / "_source.json").symlink_to("/etc/hostname")
    with pytest.raises(SettingsError, match="a/_source.json cannot be read"):
        sources.scan(root, settings=SETTINGS)


def test_a_landing_zone_has_a_directory_whose_files_lie_deeper(tmp_path):
    zone = Landing(land(tmp_path / "in", {"pets.lance/data/0.bin": b"x", "a.txt": b"y", "hidden/.b": b"z"}))
    assert [zone.has(path) for path in (".", "pets.lance", "pets.lance/data", "pets.lance/data/0.bin", "a.txt")] == [
        True
    ] * 5
    assert [zone.has(path) for path in ("hidden", "pets", "a.txt/b", "gone")] == [False] * 4


def test_whether_a_directory_holds_anything_is_known_at_its_first_file(tmp_path, monkeypatch):
    """Each part of a directory of very many files asks, and listing it takes as long as it is large."""
    zone = Landing(land(tmp_path / "in", {"many/.hidden/x": b"", "many/below/a.txt": b"x", "many/b.txt": b"y"}))
    monkeypatch.setattr(Landing, "_list", lambda *_: pytest.fail("the directory was listed"))
    assert zone.has("many") and zone.has("many/below") and not zone.has("many/.hidden/y")
