"""LibriSpeech: FLAC files, one table of transcripts per chapter, one table of speakers; as .tar.gz, .tar and
unpacked."""

from __future__ import annotations

import pytest

from mmlake import sources
from mmlake.records import SourceRef
from tests.sources.corpora.builders import SPEAKERS, flac, landed, librispeech, metadata, packed
from tests.sources.source_builders import SETTINGS, brief, mp4, rows_of, sha, wav

UTTERANCES = {
    "84-121123": ["GO DO YOU HEAR", "BUT IN LESS THAN FIVE MINUTES"],
    "174-50561": ["FORGOTTEN TOO"],
    "9-1": ["UNLISTED READER"],
}
COLUMNS = (
    "digest",
    "position",
    "modality",
    "role",
    "content_type",
    "text_content",
    "sample_text",
    "status",
    "error_code",
    "materialize_error",
    "size_bytes",
    "metadata_json",
)
TABLE = "LibriSpeech/dev-clean/84/121123/84-121123.trans.txt"


def speech(rows):
    return [row for row in rows if row["role"] in ("media", "transcript")]


@pytest.mark.parametrize("compress", [False, True])
def test_an_utterance_is_a_sample_of_sound_and_transcript(tmp_path, compress):
    name = "dev-clean.tar.gz" if compress else "dev-clean.tar"
    rows = speech(rows_of(landed(tmp_path / "in", {name: packed(librispeech(UTTERANCES), compress=compress)})))
    stem = "LibriSpeech/dev-clean/84/121123/84-121123-0000"
    assert brief(rows)[:2] == [
        (f"{stem}.flac", "audio", "media", None),
        (f"{TABLE}#line:1", "text", "transcript", None),
    ]
    assert rows[0]["sample_id"] == rows[1]["sample_id"] == f"{name}/{stem}"
    assert (rows[0]["sample_text"], rows[1]["text_content"]) == ("GO DO YOU HEAR", "GO DO YOU HEAR")
    assert len(rows) == 8 and all(row["status"] == "ok" for row in rows)


def test_metadata_name_reader_chapter_and_number_and_who_reads(tmp_path):
    rows = {
        row["sample_text"]: metadata(row)
        for row in rows_of(landed(tmp_path / "in", {"a.tar": packed(librispeech(UTTERANCES))}))
        if row["role"] == "media"
    }
    assert rows["BUT IN LESS THAN FIVE MINUTES"] == {
        "speaker_id": 84, "chapter_id": 121123, "utterance_index": 1,
        "speaker_sex": "F", "speaker_subset": "dev-clean", "speaker_minutes": 8.02, "speaker_name": "Christie Nowak",
    }  # fmt: skip
    assert rows["FORGOTTEN TOO"]["speaker_name"] == "Peter |Pipe| Eckley"
    assert rows["UNLISTED READER"] == {"speaker_id": 9, "chapter_id": 1, "utterance_index": 0}


def test_the_tree_the_tar_and_the_compressed_tar_give_equal_rows(tmp_path):
    files = librispeech(UTTERANCES)
    forms = {
        "tree": files,
        "tar": {"dev-clean.tar": packed(files)},
        "gz": {"dev-clean.tar.gz": packed(files, compress=True)},
    }
    found = {name: rows_of(landed(tmp_path / name / "in", form)) for name, form in forms.items()}
    rows = {name: sorted([row[column] or "" for column in COLUMNS] for row in found[name]) for name in found}
    assert rows["tree"] == rows["tar"] == rows["gz"]


def test_a_chapter_of_the_tree_is_a_shard_whose_revision_follows_the_table_of_speakers(tmp_path):
    root = landed(tmp_path / "in", librispeech(UTTERANCES))
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    assert "LibriSpeech/dev-clean/84/121123" in first and len(first) == 4
    landed(root, {"LibriSpeech/SPEAKERS.TXT": SPEAKERS + b"9    | M | dev-clean | 1.0 | New\n"})
    second = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)}
    assert all(first[key].revision != second[key].revision for key in first)


@pytest.mark.parametrize("name", ["dev-clean.tar", "tree"])
def test_a_line_is_read_again_by_its_range_without_reading_the_archive(tmp_path, name):
    files = librispeech(UTTERANCES)
    rows = rows_of(landed(tmp_path / "in", {name: packed(files)} if name != "tree" else files))
    for row in (row for row in rows if row["role"] == "transcript"):
        ref = SourceRef.from_json(row["source_ref"])
        assert ref.byte_size == row["size_bytes"] and sha(sources.fetch(ref, landing=tmp_path / "in")) == row["digest"]


def broken(tmp_path, table: bytes, *, packing: bool = True):
    files = librispeech({"84-121123": ["A", "B"]}) | {TABLE: table}
    return rows_of(landed(tmp_path / "in", {"a.tar": packed(files)} if packing else files))


@pytest.mark.parametrize("packing", [True, False])
def test_an_utterance_without_a_line_is_sound_alone(tmp_path, packing):
    rows = speech(broken(tmp_path, b"84-121123-0001 B\n", packing=packing))
    assert [(row["role"], row["sample_text"], row["status"]) for row in rows] == [
        ("media", None, "ok"),
        ("media", "B", "ok"),
        ("transcript", None, "ok"),
    ]


@pytest.mark.parametrize("packing", [True, False])
def test_a_line_without_an_utterance_is_a_row_that_keeps_its_words(tmp_path, packing):
    rows = speech(broken(tmp_path, b"84-121123-0000 A\n84-121123-0001 B\n84-121123-0007 LOST WORDS\n", packing=packing))
    assert [row["error_code"] for row in rows] == [None, None, None, None, 1011]
    assert "84-121123-0007" in rows[-1]["materialize_error"] and rows[-1]["digest"] == sha(b"LOST WORDS")


@pytest.mark.parametrize(
    "line, code, digest",
    [
        (b"84-121123-0001", 1003, sha(b"84-121123-0001")),
        (b"no name here", 1003, sha(b"no name here")),
        (b"84-121123-0001 caf\xe9", 1004, sha(b"84-121123-0001 caf\xe9")),
        (b"84-121123-0000 TWICE", 1003, sha(b"84-121123-0000 TWICE")),
    ],
)
def test_a_bad_line_is_one_row_and_the_others_stand(tmp_path, line, code, digest):
    rows = speech(broken(tmp_path, b"84-121123-0000 A\n\n" + line + b"\n"))
    assert [(row["role"], row["error_code"]) for row in rows] == [
        ("media", None),
        ("transcript", None),
        ("media", None),
        ("transcript", code),
    ]
    assert rows[-1]["digest"] == digest and "line 3" in rows[-1]["materialize_error"]


def test_marks_carriage_returns_tabs_and_spaces_are_no_part_of_the_words(tmp_path):
    rows = speech(broken(tmp_path, b"\xef\xbb\xbf84-121123-0000  A  b \r\n 84-121123-0001\tB\r\n"))
    assert [row["text_content"] for row in rows if row["role"] == "transcript"] == ["A  b", "B"]


def test_a_table_over_the_limit_is_one_row(tmp_path):
    settings = sources.SourceSettings(max_text_bytes=40)
    root = landed(
        tmp_path / "in",
        {"a.tar": packed({"84-121123-0000.flac": flac(), "84-121123.trans.txt": b"84-121123-0000 A" + b" B" * 40})},
    )
    assert [row["error_code"] for row in rows_of(root, settings=settings)] == [None, 1008]


@pytest.mark.parametrize("packing", ["tar", "tree"])
def test_an_empty_table_is_a_row_that_says_so(tmp_path, packing):
    files = {"LS/84-1.trans.txt": b"\n", "LS/84-1-0.flac": flac(1)}
    rows = rows_of(landed(tmp_path / "in", {"a.tar": packed(files)} if packing == "tar" else files))
    assert sorted((row["modality"], row["error_code"]) for row in rows) == [("audio", None), ("text", 1006)]


def test_a_table_alone_keeps_its_lines_as_rows(tmp_path):
    rows = rows_of(landed(tmp_path / "in", {"x/84-121123.trans.txt": b"84-121123-0000 A\n84-121123-0001 B\n"}))
    assert [row["error_code"] for row in rows] == [1011, 1011]


def test_the_transcript_of_one_file_is_no_table(tmp_path):
    rows = rows_of(landed(tmp_path / "in", {"talk.mp4": mp4(b"vide"), "talk.trans.txt": b"what is said"}))
    assert [(row["role"], row["text_content"], row["sample_text"]) for row in rows] == [
        ("media", None, "what is said"),
        ("transcript", "what is said", None),
    ]


@pytest.mark.parametrize("packing", [True, False])
def test_the_texts_of_libritts_join_their_sound(tmp_path, packing):
    stem = "LibriTTS/dev-clean/84/121123/84_121123_000007_000001"
    files = {
        f"{stem}.wav": wav(),
        f"{stem}.original.txt": b"Go! Do you hear?",
        f"{stem}.normalized.txt": b"Go! Do you hear?",
    }
    rows = rows_of(landed(tmp_path / "in", {"a.tar": packed(files)} if packing else files))
    assert {row["role"] for row in rows} == {"media", "transcript"} and len({row["sample_id"] for row in rows}) == 1


@pytest.mark.parametrize(
    "line",
    [b"1" * 5000 + b" | F | x | nan | y", b"84 | F | dev | inf | Name", b"|||||||", b"\xff | M | a | 1 | b", b"84 | F"],
)
def test_odd_lines_of_the_table_of_speakers_say_nothing_and_break_nothing(tmp_path, line):
    files = librispeech({"84-121123": ["A"]}) | {"LibriSpeech/SPEAKERS.TXT": line}
    assert [row["error_code"] for row in speech(rows_of(landed(tmp_path / "in", {"a.tar": packed(files)})))] == [
        None,
        None,
    ]
