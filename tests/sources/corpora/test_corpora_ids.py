"""Lists whose lines begin with the id of a medium, which lies anywhere below, and lists in directories of lists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mmlake import sources
from tests.sources.source_builders import SETTINGS, gz, land, png, rows_of, wav

SAID = ["Good morning.", "Good night, all."]


def words_of(rows: list[dict]) -> dict[str, str | None]:
    """Words by the name of the medium."""
    return {
        json.loads(row["source_ref"])["path"].rpartition("/")[2]: row["sample_text"]
        for row in rows
        if row["modality"] in ("image", "audio")
    }


def documents(rows: list[dict]) -> list[tuple[str, int | None]]:
    return [(row["role"], row["error_code"]) for row in rows if row["modality"] == "text"]


@pytest.mark.parametrize(
    ("path", "line", "media"),
    [
        ("corpus/transcript/corpus_v0.8.txt", "{} {}", ("wav/train/S02/BAC009S02W01", "wav/dev/S03/BAC009S03W02")),
        ("corpus/content.txt", "{}.wav\t{}", ("wav/SSB0005/SSB00050001", "wav/SSB0006/SSB00060002")),
        ("corpus/transcripts.txt", "{}\t{}", ("audio/4/1/4_1_000000", "audio/4/1/4_1_000001")),  # MLS
        ("corpus/transcript_utf8.txt", "{}:{}", ("wav/BASIC5000_0001", "wav/LOANWORD128_002")),  # JSUT, JVS
        ("corpus/prompts.txt", "{} {}", ("waves/SPK01/SPK01_R001", "waves/SPK02/SPK02_R002")),  # VIVOS
        ("corpus/etc/txt.done.data", '( {} "{}" )', ("wav/arctic_a0001", "wav/arctic_b0002")),
        ("corpus/metadata.txt", "{}|{}|good thing", ("wavs/LJ001-0001", "wavs/LJ001-0002")),
        ("corpus/line_index.tsv", "{}\t{}", ("suf_02484_00529427643", "sum_02485_00618951713")),  # OpenSLR
        ("corpus/0001.txt", "{}\t{}\tNeutral", ("Neutral/0001_000001", "Angry/0001_000002")),  # ESD
        ("corpus/lists/\u00fcbung.txt", "{} {}\r", ("\u00fcbung/\u00fcbn1", "\u00fcbung/\u00fcbn2")),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_recordings_get_the_words_behind_their_ids(
    tmp_path: Path, path: str, line: str, media: tuple[str, str], mark: str
) -> None:
    """Such a list was a document, and the recordings had no words."""
    ids = [one.rpartition("/")[2] for one in media]
    lines = mark + "".join(line.format(*both) + "\n" for both in zip(ids, SAID, strict=True))
    files = {f"corpus/{one}.wav": wav(8 + at) for at, one in enumerate(media)}
    rows = rows_of(land(tmp_path / "in", {path: lines.encode(), **files}))
    assert words_of(rows) == {f"{one}.wav": words for one, words in zip(ids, SAID, strict=True)}
    assert documents(rows) == [("transcript", None)] * 2


def test_pictures_get_captions_by_their_ids(tmp_path: Path) -> None:
    lines = b"000000391895\tA man on a bicycle.\n000000391895\tTwo dogs.\n000000522418\tA cat .\n"
    files = {"captions.tsv": lines, "val/000000391895.png": png(1), "val/000000522418.png": png(2)}
    rows = rows_of(land(tmp_path / "in", files))
    assert [*words_of(rows).values()] == ["A man on a bicycle.\nTwo dogs.", "A cat ."]


@pytest.mark.parametrize("path", ["filelists/train.txt", "lists/train.list", "etc/train.csv.txt"])
def test_a_list_in_a_directory_of_lists_names_files_from_above(tmp_path: Path, path: str) -> None:
    rows = rows_of(land(tmp_path / "in", {path: b"wavs/a.wav|Good morning.\n", "wavs/a.wav": wav()}))
    assert [*words_of(rows).values()] == ["Good morning."]


def test_quotes_in_a_list_of_festival_are_quotes(tmp_path: Path) -> None:
    lines = rb'( a0001 "\"Yes,\" he said." )'
    rows = rows_of(land(tmp_path / "in", {"etc/txt.done.data": lines, "wav/a0001.wav": wav()}))
    assert [*words_of(rows).values()] == ['"Yes," he said.']


@pytest.mark.parametrize(
    "lines",
    [
        "spk01_1 Good morning.\nspk01_2 Good night, all.\n",  # ids of no medium there
        "1 Good morning.\n2 Good night, all.\n",  # numbered lines
        "1998 was warm.\n1999 was cold.\n",
        "utt1 Good morning.\nThen he went home.\n",
        "utt1 Good morning.\nutt-x.2 Good night, all.\n",  # made otherwise
        "utt1 3\nutt2 7\n",  # labels
        "utt1 dog\nutt2 cat\n",
        "utt1\nutt2\n",
    ],
)
def test_what_is_no_list_of_ids_is_a_document(tmp_path: Path, lines: str) -> None:
    files = {f"{name}.wav": wav(8 + at) for at, name in enumerate(("1", "2", "1998", "1999", "utt1", "utt2"))}
    rows = rows_of(land(tmp_path / "in", {"train.txt": lines.encode(), **files}))
    assert set(words_of(rows).values()) == {None}
    assert documents(rows) == [("document", None)]


def test_lines_whose_medium_is_missing_or_that_are_broken_are_rows(tmp_path: Path) -> None:
    lines = b"utt1 Good morning.\nutt2 Good night.\n" + b"utt1 Good morning.\n" * 15 + b"utt3\nutt1 caf\xe9\n"
    rows = rows_of(land(tmp_path / "in", {"train.txt": lines, "wav/x/utt1.wav": wav(), "zz/y.txt": b"utt2"}))
    assert [code for _, code in documents(rows) if code is not None] == [1011, 1003, 1004]


def test_media_above_a_list_are_none_of_its_ids(tmp_path: Path) -> None:
    rows = rows_of(land(tmp_path / "in", {"a/train.txt": b"utt1 Good morning.\n", "b/utt1.wav": wav()}))
    assert (words_of(rows), documents(rows)) == ({"utt1.wav": None}, [("document", None)])


def test_a_list_of_ids_in_gzip_is_a_list(tmp_path: Path) -> None:
    rows = rows_of(land(tmp_path / "in", {"train.txt.gz": gz(b"utt1 Good morning.\n"), "a/utt1.wav": wav()}))
    assert [*words_of(rows).values()] == ["Good morning."]


@pytest.mark.parametrize("path", ["train.txt", "transcript/train.txt"])
def test_a_list_of_ids_that_lands_before_its_media_describes_them(tmp_path: Path, path: str) -> None:
    root = land(tmp_path / "in", {path: b"utt1 Good morning.\n"})
    before = sources.scan(root, settings=SETTINGS)
    assert documents(rows_of(root)) == [("document", None)]
    land(root, {"wav/utt1.wav": wav()})
    after = sources.scan(root, settings=SETTINGS, known={shard.key: shard for shard in before})
    assert {shard.key: shard.modalities for shard in after} == {path: ("text",), "wav": ("text", "audio")}
    assert {shard.key: shard for shard in after}[path].revision != before[0].revision
    assert [*words_of(rows_of(root)).values()] == ["Good morning."]
