"""Corpora whose tables lie in one archive with their files, as they are published: the rows are those of the unpacked
directory."""

from __future__ import annotations

import gzip
import io
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from mmlake import sources
from mmlake.sources.shard import limited
from tests.sources.source_builders import SETTINGS, jsonl, land, png, rows_of, tar, wav


def zipped(files: dict[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return sink.getvalue()


PACKED: dict[str, Callable[[dict[str, bytes]], bytes]] = {
    "x.tar": tar,
    "x.tar.gz": lambda files: gzip.compress(tar(files), mtime=0),
    "x.zip": zipped,
}
VOICES = b"client_id\tpath\tsentence\n"
CORPORA: dict[str, dict[str, bytes]] = {
    "LJSpeech, some of it missing": {
        "lj/metadata.csv": b"L-1|one|two\nL-2|three|four\nL-3\n../L-4|five|six\n",
        "lj/wavs/L-1.wav": wav(1),
        "lj/wavs/L-5.wav": wav(5),
    },
    "Common Voice": {
        "cv/clips/a.wav": wav(1),
        "cv/clips/b.wav": wav(2),
        "cv/train.tsv": VOICES + b"c\ta.wav\tHello there\n",
        "cv/test.tsv": VOICES + b"d\tb.wav\tGoodbye\n",
        "cv/validated.tsv": VOICES + b"c\ta.wav\tHello there\nd\tb.wav\tGoodbye\n",
    },
    "Flickr": {
        "Images/1.jpg": png(1),
        "Images/2.jpg": png(2),
        "captions.txt": b'image,caption\n1.jpg,A dog\n1.jpg,"A dog, running"\n2.jpg,A cat\n',
    },
    "imagefolder": {
        "metadata.csv": b"file_name,text,page\na.png,A dog,7\nin/b.png,A cat,8\nin/c.png,of another,9\nd.png,gone,1\n",
        "a.png": png(1),
        "in/b.png": png(2),
        "in/c.png": png(3),
        "in/further/metadata.csv": b"file_name,text\ne.png,Nearer\n",
        "in/further/e.png": png(4),
        "plain.csv": b"name,text\na,A table of texts on its own\nb,A second line of it here\n",
    },
    "a farther table names what a nearer one describes": {
        "metadata.jsonl": jsonl({"file_name": "in/b.png", "text": "far"}, {"file_name": "a.png", "text": "ours"}),
        "a.png": png(1),
        "in/b.png": png(2),
        "in/metadata.jsonl": jsonl({"file_name": "b.png", "text": "near"}),
    },
    "audiofolder, names composed otherwise": {
        "metadata.csv": "file_name,transcription\ncafe\u0301.wav,coffee\n".encode(),
        "caf\u00e9.wav": wav(3),
    },
}


def said(rows: list[dict], home: str) -> list[tuple]:
    """What rows say, but for the shard that they lie in."""
    return sorted(
        (
            row["sample_id"].removeprefix(home), row["modality"], row["role"], row["digest"] or "",
            row["text_content"] or row["sample_text"] or "", row["metadata_json"] or "", row["error_code"] or 0,
            row["materialize_error"] or "",
        )
        for row in rows
    )  # fmt: skip


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("corpus", CORPORA)
def test_a_packed_corpus_has_the_rows_of_the_unpacked_one(tmp_path: Path, corpus: str, name: str) -> None:
    files = CORPORA[corpus]
    there = {f"of/{path}": data for path, data in files.items() if path != "plain.csv"}
    loose = said(rows_of(land(tmp_path / "loose" / "in", there)), "")
    packed = rows_of(land(tmp_path / "packed" / "in", {name: PACKED[name](there)}))
    assert said(packed, f"{name}/") == loose
    assert any(row["role"] in ("caption", "transcript") for row in packed)


@pytest.mark.parametrize("name", PACKED)
def test_other_tables_stay_texts_and_what_lies_deeper_counts_first(tmp_path: Path, name: str) -> None:
    rows = rows_of(land(tmp_path / "in", {name: PACKED[name](CORPORA["imagefolder"])}))
    texts = [row["text_content"] for row in rows if row["modality"] == "text" and row["error_code"] is None]
    assert sorted(filter(None, texts)) == [
        "A cat", "A dog", "A second line of it here", "A table of texts on its own", "Nearer", "of another"
    ]  # fmt: skip


@examples(max_examples=25, deadline=None)
@given(st.permutations(list(CORPORA["imagefolder"])), st.sampled_from(["x.tar", "x.zip"]), st.booleans())
def test_members_may_lie_in_any_order_and_below_a_dot(
    tmp_path_factory: pytest.TempPathFactory, order: list[str], name: str, is_dotted: bool
) -> None:
    files = CORPORA["imagefolder"]
    base, start = tmp_path_factory.mktemp("any"), "./" if is_dotted else ""
    given_files = {f"{start}{path}": files[path] for path in order}
    rows = said(rows_of(land(base / "in", {name: PACKED[name](given_files)})), f"{name}/")
    whole = said(rows_of(land(base / "as-listed" / "in", {name: PACKED[name](files)})), f"{name}/")
    assert {row[3:7] for row in rows} == {row[3:7] for row in whole}


def test_under_a_limit_a_table_says_nothing_of_files_that_were_not_listed(tmp_path: Path) -> None:
    files = {"metadata.csv": b"file_name,text\n" + b"".join(b"%05d.png,Number %d\n" % (at, at) for at in range(2_000))}
    files |= {f"{at:05}.png": png(at % 200) for at in range(2_000)}
    root = land(tmp_path / "in", {"x.tar": tar(files)})
    (shard,) = sources.scan(root, settings=SETTINGS)
    rows = list(sources.read(limited(shard, 3), landing=root, settings=SETTINGS))
    assert not [row for row in rows if row.fault]
    assert {row.sample_id for row in rows} == {f"x.tar/{at:05}" for at in range(3)}


def test_a_table_that_breaks_is_rows_and_no_sample_is_lost(tmp_path: Path) -> None:
    files = {"metadata.csv": b"file_name,text\na.png,fine\nb.png,\xff\xfe\n\n", "a.png": png(1), "b.png": png(2)}
    rows = rows_of(land(tmp_path / "in", {"x.zip": zipped(files)}))
    assert [row["error_code"] for row in rows if row["error_code"]] == [1004]
    assert sorted((row["sample_text"] or "") for row in rows if row["modality"] == "image") == ["", "fine"]


def test_a_table_whose_bytes_are_damaged_keeps_what_was_read_and_every_picture(tmp_path: Path) -> None:
    chance = random.Random(1)
    captions = ["".join(chance.choices("abcdefghij klmnop", k=60)) for _ in range(3_000)]
    table = "file_name,text\n" + "".join(f"{at % 60:02}.png,{said}\n" for at, said in enumerate(captions))
    archive = bytearray(zipped({"metadata.csv": table.encode(), **{f"{at:02}.png": png(at) for at in range(60)}}))
    entry = zipfile.ZipFile(io.BytesIO(archive)).getinfo("metadata.csv")
    middle = entry.header_offset + 42 + entry.compress_size // 2
    archive[middle : middle + 30] = b"\xff" * 30
    rows = rows_of(land(tmp_path / "in", {"x.zip": bytes(archive)}))
    assert sum(row["error_code"] in (1001, 1010) for row in rows) == 1, "where the table breaks"
    assert sum(row["modality"] == "image" for row in rows) == 60
    assert set(captions[:1_000]) <= {row["text_content"] for row in rows if row["role"] == "caption"}
