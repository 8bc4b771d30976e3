"""Multi-track lines: what is written is read back, words and times and all."""

from __future__ import annotations

import json
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmlake.cuts import CutCache, CutSettings
from mmlake.errors import ShardCorrupt
from mmlake.loader import ShardStream, read_tracks, write_tracks
from mmlake.loader.track_lines import anchored, parse_anchored
from mmlake.store import BlobStore
from tests.made_clips import MadeTracks, film_clips, recording_segments
from tests.made_samples import sample, shards_of, text

TIMES = st.floats(0, 1e6, allow_nan=False)


def test_anchors_are_spelled_with_two_decimals_or_as_many_as_the_time_has() -> None:
    words = [
        {"word": "Foxes", "start_s": 2.1, "end_s": 4.5},
        {"word": "are", "start_s": 4.5, "end_s": 4.8125},
        {"word": "<start:1s>", "start_s": 5, "end_s": 1e-7},
    ]
    text = anchored(words, "word")
    assert text == (
        "<start:2.10s><end:4.50s>Foxes <start:4.50s><end:4.8125s>are <start:5.00s><end:0.0000001s>\\<start:1s>"
    )
    assert parse_anchored(text, "word") == words


@given(
    st.lists(
        st.builds(
            lambda word, start_s, end_s: {"word": word, "start_s": start_s, "end_s": end_s},
            st.one_of(st.text(), st.sampled_from([" <start:1.00s><end:2.00s>x", "\\", " \\<start:", "<start:", " "])),
            TIMES,
            TIMES,
        )
    )
)
def test_any_words_and_times_are_read_back(words: list[dict]) -> None:
    assert parse_anchored(anchored(words, "word"), "word") == words


@pytest.fixture
def shards(tmp_path):
    store, tracks = BlobStore(tmp_path / "blobs"), MadeTracks()
    rows = [*film_clips(store, tracks, tmp_path), *recording_segments(store, tracks), sample([text(store, "words")])]
    return shards_of(
        rows, store, tmp_path, manifest_id="ab" * 32, tracks=tracks, cuts=CutCache(tmp_path / "cuts", CutSettings())
    ).directory


def test_lines_give_what_the_shards_say(tmp_path, shards) -> None:
    assert write_tracks(shards, tmp_path / "tracks.jsonl") == 4
    stream = ShardStream(shards, shuffle=False, decode="auto")
    samples = {sample["__key__"]: sample for sample in stream if sample["json"]["modality"] in ("video", "audio")}
    lines = list(read_tracks(tmp_path / "tracks.jsonl"))
    assert [line.sample for line in lines] == list(samples)
    for line in lines:
        facts = samples[line.sample]["json"]
        for name in ("words", "cues", "keyframes", "span", "duration_s", "modality"):
            assert getattr(line, name) == facts[name]
        assert line.turns == facts.get("turns", [])
    assert [len(line.turns) for line in lines] == [int(line.modality == "audio") for line in lines]
    assert {line.modality: (line.sound is None, line.keyframes_media is None) for line in lines} == {
        "video": (False, False),
        "audio": (True, True),
    }


def test_media_are_found_by_shard_and_member(tmp_path, shards) -> None:
    write_tracks(shards, tmp_path / "tracks.jsonl")
    for line in read_tracks(tmp_path / "tracks.jsonl"):
        for media in filter(None, (line.media, line.sound, line.keyframes_media)):
            with tarfile.open(shards / media["shard"]) as tar:
                assert tar.getmember(media["member"]).size > 0


@pytest.mark.parametrize("line", ["junk", "{}", '{"schema":"other/1"}', "[1]", "3"])
def test_a_line_of_something_else_is_named(tmp_path, shards, line: str) -> None:
    path = tmp_path / "tracks.jsonl"
    write_tracks(shards, path)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ShardCorrupt, match="line 5 "):
        list(read_tracks(path))


def test_a_text_without_anchors_is_refused(tmp_path, shards) -> None:
    path = tmp_path / "tracks.jsonl"
    write_tracks(shards, path)
    first = json.loads(path.read_text().splitlines()[0])
    path.write_text(json.dumps(first | {"text": "words without times"}) + "\n")
    with pytest.raises(ShardCorrupt, match="line 1 "):
        list(read_tracks(path))
