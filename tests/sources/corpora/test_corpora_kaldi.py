"""Kaldi's data directories: `wav.scp`, `text`, `utt2spk`, `segments`."""

from __future__ import annotations

import json

import pytest

from mmlake import sources
from mmlake.records import SourceRef
from tests.sources.source_builders import SETTINGS, land, rows_of, wav

FILES = {
    "d/wav.scp": b"s1-u1 wavs/u1.wav\ns1-u2 wavs/u2.wav\n",
    "d/text": b"s1-u1 GOOD MORNING\ns1-u2\tGOOD  NIGHT\n",
    "d/utt2spk": b"s1-u1 s1\ns1-u2 s1\n",
    "d/spk2utt": b"s1 s1-u1 s1-u2\n",
    "d/wavs/u1.wav": wav(8),
    "d/wavs/u2.wav": wav(9),
}


def found(tmp_path, files):
    return rows_of(land(tmp_path / "in", files))


def metadata(row):
    return json.loads(row["metadata_json"] or "{}")


def faults(rows):
    return [
        (SourceRef.from_json(row["source_ref"]).member.rstrip("#"), row["error_code"], row["materialize_error"])
        for row in rows
        if row["error_code"]
    ]


def test_a_recording_has_its_words_and_its_speaker(tmp_path):
    rows = found(tmp_path, FILES)
    assert [
        (row["sample_id"], row["modality"], row["role"], row["error_code"], row["text_content"] or row["sample_text"])
        for row in rows
    ] == [
        ("d/wavs/u1", "audio", "media", None, "GOOD MORNING"),
        ("d/wavs/u1", "text", "transcript", None, "GOOD MORNING"),
        ("d/wavs/u2", "audio", "media", None, "GOOD  NIGHT"),
        ("d/wavs/u2", "text", "transcript", None, "GOOD  NIGHT"),
    ]
    assert [metadata(row) for row in rows if row["modality"] == "audio"] == [
        {"utterance_id": f"s1-u{at}", "speaker_id": "s1"} for at in (1, 2)
    ]


def test_languages_and_genders_are_of_utterances_and_speakers(tmp_path):
    genders = {"d/spk2gender": b"s1 f\n", "d/utt2gender": b"s1-u2 m\n", "d/utt2lang": b"s1-u1 en\n"}
    rows = [row for row in found(tmp_path, FILES | genders) if row["modality"] == "audio"]
    assert [metadata(row) for row in rows] == [
        {"utterance_id": "s1-u1", "speaker_id": "s1", "language": "en", "gender": "f"},
        {"utterance_id": "s1-u2", "speaker_id": "s1", "gender": "m"},
    ]


@pytest.mark.parametrize("name", ["spk2utt", "utt2dur", "reco2dur", "utt2num_frames", "feats.scp", "cmvn.scp"])
def test_indexes_of_a_data_directory_are_no_documents(tmp_path, name):
    """Each was a document, of a line for each of a corpus' utterances."""
    index = {f"d/{name}": b"s1-u1 2.50\ns1-u2 3.25\n"}
    rows = found(tmp_path, FILES | index)
    assert {row["role"] for row in rows} == {"media", "transcript"} and len(rows) == 4
    alone = found(tmp_path / "alone", index)
    assert [(row["sample_id"], row["role"]) for row in alone] == [(f"d/{name.removesuffix('.scp')}", "document")]


def test_words_in_utf_16_are_read_as_other_lists_are(tmp_path):
    words = "s1-u1 GUTEN MORGEN\ns1-u2 GR\u00dcSS GOTT\n".encode("utf-16")
    rows = found(tmp_path, FILES | {"d/text": words})
    assert [row["text_content"] for row in rows if row["role"] == "transcript"] == ["GUTEN MORGEN", "GRÜSS GOTT"]


def test_segments_are_metadata_with_their_times(tmp_path):
    files = {
        "d/wav.scp": b"rec1 call.wav\n",
        "d/segments": b"a-1 rec1 0.00 1.50\na-2 rec1 1.5 -1\n",
        "d/text": b"a-1 hello\na-2 who is there\n",
        "d/utt2spk": b"a-1 a\na-2 a\n",
        "d/call.wav": wav(),
    }
    row, said = found(tmp_path, files)
    assert "00:00:00.000 --> 00:00:01.500\nhello" in said["text_content"] and row["sample_text"] == said["text_content"]
    assert said["text_content"].endswith("00:00:01.500 --> 999:59:59.999\nwho is there\n")  # to the recording's end
    assert metadata(row) == {
        "recording_id": "rec1",
        "segments": [
            {"utterance_id": "a-1", "start_s": 0.0, "end_s": 1.5, "text": "hello", "speaker_id": "a"},
            {"utterance_id": "a-2", "start_s": 1.5, "end_s": None, "text": "who is there", "speaker_id": "a"},
        ],
    }


def test_a_command_is_a_row_and_is_never_run(tmp_path):
    mark = tmp_path / "ran"
    scp = f"s1-u1 wavs/u1.wav\nu3 touch {mark} |\nu4 | touch {mark}\n".encode()
    rows = found(tmp_path, FILES | {"d/wav.scp": scp, "d/text": b"s1-u1 A\nu3 LOST\n", "d/utt2spk": b"u3 s3\n"})
    reason = "the recording is the output of a command, which is never run"
    assert (faults(rows), mark.exists()) == ([("line:2", 1007, reason), ("line:3", 1007, reason)], False)


def test_a_scp_of_commands_alone_is_read_as_one(tmp_path):
    rows = found(tmp_path, {"d/wav.scp": b"u1 sph2pipe -f wav /x/u1.sph |\n", "d/text": b"u1 A\n", "d/y.wav": wav()})
    assert [code for _, code, _ in faults(rows)] == [1007]


def test_what_no_recording_took_is_a_row(tmp_path):
    files = FILES | {
        "d/wav.scp": b"s1-u1 wavs/u1.wav\nu2 wavs/gone.wav\nu3 /data/u3.wav\nu4 ../../u4.wav\nu5\n\xff x.wav\nu6 "
        b"wavs/u1.ark:17\n",
        "d/text": b"s1-u1 A\ns1-u1 AGAIN\nu9 STRAY\n\xff B\n",
        "d/utt2spk": b"s1-u1\n",
    }
    assert faults(found(tmp_path, files)) == [
        ("text:line:4", 1004, "the line is not UTF-8 at byte 0"),
        ("utt2spk:line:1", 1003, "the line of utt2spk is not of the form <utterance> <speaker>"),
        ("line:2", 1011, "the file wavs/gone.wav is missing, or lies where no file is a medium by its name"),
        ("line:3", 1011, "the file /data/u3.wav is outside of the directory of the manifest"),
        ("line:4", 1011, "the file ../../u4.wav is outside of the directory of the manifest"),
        ("line:5", 1003, "the line is not of the form <recording> <file>"),
        ("line:6", 1004, "the line is not UTF-8 at byte 0"),
        ("line:7", 1011, "the file wavs/u1.ark:17 is missing, or lies where no file is a medium by its name"),
        ("text:line:2", 1011, "text names the utterance s1-u1, which no recording has, or repeats it"),
        ("text:line:3", 1011, "text names the utterance u9, which no recording has, or repeats it"),
    ]


@pytest.mark.parametrize(
    "line", [b"a-1 rec1 2 1", b"a-1 rec1 x 1", b"a-1 rec1 nan 1", b"a-1 rec1 0", b"a-1 rec1 -1 1", b"a-1"]
)
def test_a_segment_without_a_span_is_a_row(tmp_path, line):
    rows = found(tmp_path, {"d/wav.scp": b"rec1 call.wav\n", "d/segments": line + b"\n", "d/call.wav": wav()})
    assert [(member, code) for member, code, _ in faults(rows)] == [("segments:line:1", 1003)]


def test_segments_of_a_recording_that_is_not_there_are_rows(tmp_path):
    rows = found(
        tmp_path,
        {"d/wav.scp": b"rec1 call.wav\n", "d/segments": b"b-1 rec2 0 1\n", "d/text": b"b-1 hi\n", "d/call.wav": wav()},
    )
    assert [(member, code) for member, code, _ in faults(rows)] == [("text:line:1", 1011), ("segments:line:1", 1011)]


def test_a_recording_that_is_named_twice_is_said_once_and_a_speaker_of_none_is_a_row(tmp_path):
    rows = found(
        tmp_path,
        FILES
        | {
            "d/wav.scp": b"s1-u1 wavs/u1.wav\ns1-u1 wavs/u2.wav\n",
            "d/text": b"s1-u1 A\n",
            "d/utt2spk": b"s1-u1 s1\nu7 s7\n",
        },
    )
    assert [(member, code) for member, code, _ in faults(rows)] == [("line:2", 1003), ("utt2spk:line:2", 1011)]


def test_a_recording_whose_directory_holds_no_medium_by_name_is_a_row(tmp_path):
    rows = found(tmp_path, {"d/wav.scp": b"u1 raw/u1\n", "d/text": b"u1 A\n", "d/raw/u1": wav(), "d/y.wav": wav(9)})
    assert ("d/raw/u1", "audio", None) in [(row["sample_id"], row["modality"], row["sample_text"]) for row in rows]
    assert [row["text_content"] for row in rows if row["modality"] == "text"] == ["A"]


def test_files_of_these_names_elsewhere_are_documents(tmp_path):
    rows = found(
        tmp_path,
        {
            "d/text": b"s1-u1 GOOD MORNING, which is a whole sentence.\n",
            "d/wav.scp": b"\0\1\2\3",
            "d/wavs/u1.wav": wav(),
        },
    )
    assert ("d/text", "document", None) in [(row["sample_id"], row["role"], row["error_code"]) for row in rows]


def test_another_word_or_another_recording_is_another_revision(tmp_path):
    root = land(tmp_path / "in", FILES | {"e/a.wav": wav(3)})
    first = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    assert {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)} == first
    land(root, {"d/text": b"s1-u1 GOOD EVENING\n"})
    second = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=first)}
    assert {key for key in first if first[key].revision != second[key].revision} == {"d/text", "d/wav.scp", "d/wavs"}
    (root / "d" / "wav.scp").unlink()
    third = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=second)}
    assert {key: shard.format for key, shard in third.items()} == {"d": "folder", "d/wavs": "folder", "e": "folder"}
    land(root, {"d/wav.scp": FILES["d/wav.scp"]})
    fourth = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=third)}
    assert {key: shard.format for key, shard in fourth.items() if shard.format != "folder"} == {
        "d/spk2utt": "kaldi",
        "d/text": "kaldi",
        "d/utt2spk": "kaldi",
        "d/wav.scp": "manifest",
    }
