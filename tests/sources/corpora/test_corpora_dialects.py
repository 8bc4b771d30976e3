"""Tables next to media as LJSpeech, Common Voice and Flickr have them."""

from __future__ import annotations

import json

import pytest

from mmlake import sources
from mmlake.records import SourceRef
from tests.sources.source_builders import SETTINGS, land, png, rows_of, wav

VOICES = b"client_id\tpath\tsentence\tage\n"
CLIPS = {"cv/clips/a.wav": wav(1), "cv/clips/b.wav": wav(2)}


def found(tmp_path, files):
    return rows_of(land(tmp_path / "in", files))


def described(rows):
    return [
        (row["sample_id"], row["role"], row["error_code"], row["text_content"] or row["sample_text"]) for row in rows
    ]


def metadata(row):
    return json.loads(row["metadata_json"] or "{}")


@pytest.mark.parametrize("directory", ["wavs/", ""])
def test_a_recording_of_ljspeech_has_its_line(tmp_path, directory):
    table = b'L-1|Printing, in "the 1st|Printing, in the first\nL-2|plain\n'
    rows = found(
        tmp_path, {"lj/metadata.csv": table, f"lj/{directory}L-1.wav": wav(1), f"lj/{directory}L-2.wav": wav(2)}
    )
    assert described(rows) == [
        (f"lj/{directory}L-1", "media", None, 'Printing, in "the 1st'),
        (f"lj/{directory}L-1", "transcript", None, 'Printing, in "the 1st'),
        (f"lj/{directory}L-2", "media", None, "plain"),
        (f"lj/{directory}L-2", "transcript", None, "plain"),
    ]
    assert metadata(rows[0]) == {"id": "L-1", "normalized_text": "Printing, in the first"}


def test_lines_of_ljspeech_that_no_recording_takes_are_rows(tmp_path):
    rows = found(
        tmp_path,
        {
            "lj/metadata.csv": b"L-1|one|one\nL-2|two|two\n../L-3|three|three\nL-4\nL-5|a|b|c\n|x|y\n|\n\xff|x|y\n",
            "lj/wavs/L-1.wav": wav(1),
        },
    )
    assert [(row["sample_id"], row["error_code"]) for row in rows if row["error_code"]] == [
        ("lj/metadata.csv/row:2", 1011),
        ("lj/metadata.csv/row:3", 1011),
        ("lj/metadata.csv/row:4", 1003),
        ("lj/metadata.csv/row:5", 1003),
        ("lj/metadata.csv/row:6", 1003),
        ("lj/metadata.csv/row:7", 1003),
        ("lj/metadata.csv/row:8", 1004),
    ]


def test_a_clip_of_common_voice_has_its_sentence_once_however_many_tables_repeat_it(tmp_path):
    one, two = b'c\ta.wav\tHe said "hi.\tteens\n', b"d\tb.wav\tbye\t\n"
    rows = found(
        tmp_path,
        CLIPS
        | {
            "cv/train.tsv": VOICES + one,
            "cv/test.tsv": VOICES + two,
            "cv/validated.tsv": VOICES + one + two,
            "cv/other.tsv": VOICES,
        },
    )
    assert described(rows) == [
        ("cv/clips/a", "media", None, 'He said "hi.'),
        ("cv/clips/a", "transcript", None, 'He said "hi.'),
        ("cv/clips/b", "media", None, "bye"),
        ("cv/clips/b", "transcript", None, "bye"),
    ]
    assert metadata(rows[0]) == {"client_id": "c", "path": "a.wav", "age": "teens"}
    assert [SourceRef.from_json(row["source_ref"]).path for row in rows if row["modality"] == "text"] == [
        "cv/train.tsv",
        "cv/test.tsv",
    ]


def test_a_sentence_whose_clip_is_missing_is_a_row_of_each_table(tmp_path):
    line = b"c\tgone.mp3\tlost\t\n"
    rows = found(tmp_path, CLIPS | {"cv/train.tsv": VOICES + line, "cv/validated.tsv": VOICES + line})
    assert [(row["sample_id"], row["error_code"]) for row in rows if row["modality"] == "text"] == [
        ("cv/train.tsv/row:1", 1011),
        ("cv/validated.tsv/row:1", 1011),
    ]


def test_clips_lie_in_their_directory_and_next_to_the_table_at_once(tmp_path):
    lines = b"c\ta.wav\tmorning\t\nc\tb.wav\tevening\t\n"
    rows = found(tmp_path, {"cv/b.wav": wav(1), "cv/clips/a.wav": wav(2), "cv/train.tsv": VOICES + lines})
    assert sorted(described(rows)) == [
        ("cv/b", "media", None, "evening"),
        ("cv/b", "transcript", None, "evening"),
        ("cv/clips/a", "media", None, "morning"),
        ("cv/clips/a", "transcript", None, "morning"),
    ]


def test_an_old_table_of_common_voice_names_clips_without_their_extension(tmp_path):
    rows = found(tmp_path, {"cv/clips/a.mp3": b"ID3" + bytes(30), "cv/train.tsv": VOICES + b"c\ta\thi\t\n"})
    assert described(rows)[1] == ("cv/clips/a", "transcript", None, "hi")


@pytest.mark.parametrize("directory", ["Images/", "images/", ""])
def test_an_image_of_flickr_has_all_its_captions(tmp_path, directory):
    rows = found(
        tmp_path,
        {
            "f/captions.txt": b'image,caption\nx.png,"A child, pink"\nx.png,A girl\nx.png,A girl\n',
            f"f/{directory}x.png": png(1),
        },
    )
    assert described(rows) == [
        (f"f/{directory}x", "media", None, "A child, pink\nA girl"),
        *((f"f/{directory}x", "caption", None, text) for text in ("A child, pink", "A girl", "A girl")),
    ]


@pytest.mark.parametrize(
    "name, data, kind",
    [
        ("captions.txt", b"just words\nof a document\n", "folder"),
        ("captions.txt", b"image;caption\nx;y\n", "folder"),
        ("train.tsv", b"text\tlabel\nhello\t1\n", "separated"),
        ("metadata.csv", b"a b|c|d\n", "folder"),
        ("metadata.csv", b"", "folder"),
        ("captions.txt", b"\xff\xfei\0m\0", "folder"),
        ("train.tsv", b"path\n", "folder"),
        ("train.tsv", b"client\x0bid\tpath\tsentence\n", "descriptions"),
    ],
)
def test_a_file_that_is_only_called_so_is_what_it_was(tmp_path, name, data, kind):
    rows = found(tmp_path, {"f/x.png": png(1), f"f/{name}": data})
    assert [row["sample_text"] for row in rows if row["modality"] == "image"] == [None]
    assert {shard.key: shard.format for shard in sources.scan(tmp_path / "in", settings=SETTINGS)}[
        f"f/{name}" if kind != "folder" else "f"
    ] == kind


def test_a_name_of_any_bytes_is_no_way_out(tmp_path):
    names = (b"../../up.wav", b"/etc/passwd", b"a\0b", b"x" * 5000, b"..", b".", b"clips/../../a.wav")
    rows = found(tmp_path, CLIPS | {"cv/train.tsv": VOICES + b"".join(b"c\t" + name + b"\tx\t\n" for name in names)})
    assert [row["error_code"] for row in rows if row["modality"] == "text"] == [1011] * len(names)
