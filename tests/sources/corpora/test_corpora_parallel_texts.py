"""Texts that lie in a directory of their own, a file for each medium, as in VCTK, CUB and CogVideoX."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmlake import sources
from mmlake.records import SourceRef
from tests.sources.corpora.test_corpora_packed import PACKED
from tests.sources.source_builders import SETTINGS, land, png, rows_of, wav

WORDS = b"Please call Stella."


def media_of(rows: list[dict]) -> list[tuple[str | None, str | None]]:
    return [(row["sample_text"], row["sample_text_role"]) for row in rows if row["modality"] in ("image", "audio")]


def texts_of(rows: list[dict]) -> list[str]:
    return [row["role"] for row in rows if row["modality"] == "text"]


@pytest.mark.parametrize(
    ("medium", "text", "role"),
    [
        ("wav48/p225/p225_001.wav", "txt/p225/p225_001.txt", "transcript"),  # VCTK 0.80
        ("d/wav48_silence_trimmed/p225/p225_001_mic1.wav", "d/txt/p225/p225_001.txt", "transcript"),  # VCTK 0.92
        ("wavs/a.wav", "transcripts/a.txt", "transcript"),
        ("audio/a.b.wav", "text/a.b.txt", "transcript"),
        ("videos/a.wav", "captions/a.txt", "caption"),
        ("videos/1.wav", "labels/1.txt", "caption"),  # CogVideoX
        ("images/001.Tern/a.png", "text/001.Tern/a.txt", "caption"),  # CUB
        ("train/images/a.png", "train/captions/a.txt", "caption"),
        ("\u00fcben/images/a b#1.png", "\u00fcben/captions/a b#1.txt", "caption"),
    ],
)
def test_a_medium_gets_the_text_of_its_name(tmp_path: Path, medium: str, text: str, role: str) -> None:
    """The text was a document, and the medium had no words."""
    rows = rows_of(land(tmp_path / "in", {medium: png() if medium.endswith("png") else wav(), text: WORDS}))
    assert media_of(rows) == [(WORDS.decode(), role)]
    assert texts_of(rows) == [role]
    assert len({row["sample_id"] for row in rows}) == 1


def test_both_recordings_of_a_sentence_get_it(tmp_path: Path) -> None:
    files = {f"wav48_silence_trimmed/p1/p1_1_mic{at}.wav": wav(7 + at) for at in (1, 2)}
    rows = rows_of(land(tmp_path / "in", {**files, "txt/p1/p1_1.txt": WORDS}))
    assert media_of(rows) == [(WORDS.decode(), "transcript")] * 2


@pytest.mark.parametrize(
    ("medium", "text"),
    [
        ("images/a.png", "text/b.txt"),
        ("images/x/a.png", "text/a.txt"),
        ("images/a.png", "notes/a.txt"),
        ("images/a.png", "text/a.md"),
        ("photos/a.png", "text/a.txt"),
        ("images/a.png", "images/text/a.txt"),
    ],
)
def test_other_texts_stay_documents(tmp_path: Path, medium: str, text: str) -> None:
    rows = rows_of(land(tmp_path / "in", {medium: png(), text: WORDS}))
    assert (media_of(rows), texts_of(rows)) == ([(None, None)], ["document"])


def test_a_text_next_to_a_medium_and_one_elsewhere_are_both_captions(tmp_path: Path) -> None:
    files = {"images/a.png": png(), "images/a.txt": b"a fish", "captions/a.txt": b"A red fish."}
    assert media_of(rows_of(land(tmp_path / "in", files))) == [("a fish\nA red fish.", "caption")]


def test_whichever_comes_later_is_noticed(tmp_path: Path) -> None:
    root = land(tmp_path / "in", {"images/a.png": png(), "captions/b.txt": WORDS})
    before = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS)}
    land(root, {"captions/a.txt": b"A fish."})
    after = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=before)}
    assert after["images"].revision != before["images"].revision
    assert after["images"].modalities == ("text", "image")
    land(root, {"images/b.png": png(1)})
    last = {shard.key: shard for shard in sources.scan(root, settings=SETTINGS, known=after)}
    assert last["captions"].revision != after["captions"].revision
    rows = rows_of(root)
    assert media_of(rows) == [("A fish.", "caption"), (WORDS.decode(), "caption")]
    assert texts_of(rows) == ["caption"] * 2


def test_parts_of_a_directory_of_many_files_find_their_texts(tmp_path: Path) -> None:
    files = {f"images/{at}.png": png(at) for at in range(20)} | {f"captions/{at}.txt": b"A fish." for at in range(20)}
    few = sources.SourceSettings(max_loose_files=8)
    rows = rows_of(land(tmp_path / "in", files), settings=few)
    assert media_of(rows) == [("A fish.", "caption")] * 20
    assert texts_of(rows) == ["caption"] * 20


def test_what_is_no_text_is_a_row_that_says_so(tmp_path: Path) -> None:
    rows = rows_of(land(tmp_path / "in", {"images/a.png": png(), "captions/a.txt": bytes(range(256)) * 2}))
    assert media_of(rows) == [(None, None)]
    assert [row["error_code"] for row in rows if row["modality"] == "text"] == [1004]


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize(
    "media",
    [
        {f"V/wav48/p225/p225_00{at}.wav": wav(at) for at in range(3)},
        {
            f"V/wav48_silence_trimmed/p225/p225_00{at}_mic{mic}.wav": wav(9 * mic + at)
            for at in (0, 1)
            for mic in (1, 2)
        },
    ],
)
def test_in_an_archive_media_have_the_texts_of_the_unpacked_corpus(tmp_path: Path, media: dict, name: str) -> None:
    texts = {f"V/txt/p225/p225_00{at}.txt": b"%d: please call" % at for at in range(4)}
    loose = rows_of(land(tmp_path / "loose", media | texts))
    root = land(tmp_path / "in", {name: PACKED[name](texts | media)})
    packed = rows_of(root)
    assert sorted(media_of(packed)) == sorted(media_of(loose)) and len(set(media_of(packed))) > 1
    assert sorted(texts_of(packed)) == sorted(texts_of(loose))
    assert not [row for row in packed if row["error_code"]]
    for row in packed:
        if row["modality"] == "text":
            found = sources.fetch(SourceRef.from_json(row["source_ref"]), landing=root)
            assert found.decode() == row["text_content"], "a locator leads to the words"


def test_a_text_in_an_archive_whose_medium_is_none_is_not_lost(tmp_path: Path) -> None:
    files = {"images/a.png": b"no picture at all", "text/a.txt": WORDS, "images/b.png": png(), "text/b.txt": b"A fish."}
    rows = rows_of(land(tmp_path / "in", {"x.tar": PACKED["x.tar"](files)}))
    assert sorted(row["text_content"] for row in rows if row["modality"] == "text" and row["text_content"]) == [
        "A fish.",
        WORDS.decode(),
    ]
