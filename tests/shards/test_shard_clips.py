"""Shards of clips and segments: cut media, their sound, keyframes and words, all on the clip's own clock."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from mmlake.cuts import CutCache, CutSettings
from mmlake.errors import BlobMissing, ContractBroken
from mmlake.modalities import MODALITIES
from mmlake.shards import ShardIndex, UnitFacts, verify_shards, write_shards
from mmlake.store import BlobStore
from tests.cuts.counted_films import counted_film, numbers
from tests.made_clips import WORDS, MadeTracks, film_clips, noise, recording_segments
from tests.made_samples import part, sample, samples_table, shards_of, text


@pytest.fixture
def store(tmp_path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


@pytest.fixture
def tracks() -> MadeTracks:
    return MadeTracks()


def written(folder: Path, rows: list[dict], store: BlobStore, tracks: MadeTracks, **settings: object) -> ShardIndex:
    return shards_of(
        rows,
        store,
        folder / "shards",
        manifest_id="ab" * 32,
        texts=lambda digest: store.read(digest).decode(),
        tracks=tracks,
        cuts=CutCache(folder / "cuts", CutSettings(**settings)),
    )


def read(index: ShardIndex) -> dict[str, dict[str, bytes]]:
    """Sample -> ending -> bytes."""
    found: dict[str, dict[str, bytes]] = {}
    for shard in index.shards:
        with tarfile.open(index.directory / f"{shard.name}.tar") as tar:
            for member in tar:
                key, _, ending = member.name.partition(".")
                found.setdefault(key, {})[ending] = tar.extractfile(member).read()
    return found


def facts_of(members: dict[str, bytes]) -> dict[str, Any]:
    return json.loads(members["json"])


def test_a_clip_has_its_frames_sound_keyframes_and_words(tmp_path, store, tracks) -> None:
    rows = film_clips(store, tracks, tmp_path)
    index = written(tmp_path, rows, store, tracks)
    (shard,) = index.shards
    assert shard.endings == ["mp4", "sound.flac", "keyframes.mjpeg", "transcript.txt", "json"]
    found = read(index)
    for row, first, last in zip(rows, (0, 50), (50, 125), strict=True):
        members, facts = found[row["sample"]], facts_of(found[row["sample"]])
        (tmp_path / "clip.mp4").write_bytes(members["mp4"])
        clip = numbers(tmp_path / "clip.mp4")
        assert [number for number, _ in clip] == list(range(first, last))
        assert clip[0][1] == 0.0
        sound = soundfile.read(io.BytesIO(members["sound.flac"]), dtype="int16", always_2d=True)[0]
        np.testing.assert_array_equal(sound, noise(5 * 16_000)[first * 640 : last * 640])
        jpegs = [members["keyframes.mjpeg"][one["offset"] :][: one["size_bytes"]] for one in facts["keyframes"]]
        assert [one[:2] + one[-2:] for one in jpegs] == [b"\xff\xd8\xff\xd9"] * 2
        assert [one["time_s"] for one in facts["keyframes"]] == [0.0, 1.0]
        assert sum(one["size_bytes"] for one in facts["keyframes"]) == len(members["keyframes.mjpeg"])
        said = WORDS[:3] if first == 0 else WORDS[3:]
        assert [word["word"] for word in facts["words"]] == said
        assert members["transcript.txt"].decode() == facts["transcripts"][0] == " ".join(said)
        assert (facts["transcript_match"], facts["duration_s"]) == (0.875, (last - first) / 25)
        assert facts["span"] == {
            "parent": row["parts"][0]["parent_digest"],
            "start_s": first / 25,
            "end_s": last / 25,
            "num_frames": last - first,
            "is_exact": True,
            "media_start_s": 0.0,
        }
        lead = facts["parts"][0]
        assert (lead["size_bytes"], lead["content_type"]) == (len(members["mp4"]), "video/mp4")


def test_a_segment_has_the_recordings_own_samples_and_its_words(tmp_path, store, tracks) -> None:
    samples = noise(6 * 44_100, 2)
    rows = recording_segments(store, tracks, samples)
    index = written(tmp_path, rows, store, tracks)
    found = read(index)
    parts = [soundfile.read(io.BytesIO(found[row["sample"]]["flac"]), dtype="int16")[0] for row in rows]
    np.testing.assert_array_equal(np.concatenate(parts), samples)
    facts = facts_of(found[rows[1]["sample"]])
    assert [word["word"] for word in facts["words"]] == WORDS[3:]
    assert (facts["span"]["start_s"], facts["span"]["end_s"], facts["keyframes"]) == (2.5, 6.0, [])
    assert index.shards[0].endings == ["flac", "json"]


def test_the_sound_of_recordings_is_a_member_where_that_is_set(tmp_path, store, tracks) -> None:
    rows = recording_segments(store, tracks)
    index = written(tmp_path, rows, store, tracks, recordings_sound=True)
    assert index.shards[0].endings == ["flac", "sound.flac", "json"]
    sound, rate_hz = soundfile.read(io.BytesIO(read(index)[rows[0]["sample"]]["sound.flac"]), dtype="int16")
    assert rate_hz == 16_000
    np.testing.assert_array_equal(sound, noise(6 * 16_000)[:40_000, 0])


def test_a_whole_film_has_its_sound_and_keyframes_too(tmp_path, store, tracks) -> None:
    data = counted_film(tmp_path / "film.mkv", 30).read_bytes()
    row = sample([part(store, data, modality="video", content_type="video/x-matroska")])
    (clip, _) = film_clips(store, tracks, tmp_path)
    tracks[row["parts"][0]["digest"]] = tracks[clip["parts"][0]["digest"]]
    index = written(tmp_path, [row], store, tracks)
    members = read(index)[row["sample"]]
    assert list(members) == ["mkv", "sound.flac", "keyframes.mjpeg", "json"]
    assert (members["mkv"], facts_of(members)["span"]) == (data, None)
    assert members["sound.flac"] == store.read(tracks[row["parts"][0]["digest"]].audio_digest)


def test_films_without_sound_have_shards_of_their_own(tmp_path, store, tracks) -> None:
    (tmp_path / "silent").mkdir()
    rows = film_clips(store, tracks, tmp_path) + film_clips(store, tracks, tmp_path / "silent", with_sound=False)
    index = written(tmp_path, rows, store, tracks)
    assert {tuple(shard.endings): shard.num_samples for shard in index.shards} == {
        ("mp4", "sound.flac", "keyframes.mjpeg", "transcript.txt", "json"): 2,
        ("mp4", "keyframes.mjpeg", "transcript.txt", "json"): 2,
    }


def test_an_interleaved_sample_has_the_tracks_of_each_of_its_clips(tmp_path, store, tracks) -> None:
    first, second = (row["parts"][0] for row in film_clips(store, tracks, tmp_path))
    row = sample([text(store, "before"), first, text(store, "between"), second])
    (members,) = read(written(tmp_path, [row], store, tracks)).values()
    assert list(members) == [
        *("000.txt", "001.mp4", "001.sound.flac", "001.keyframes.mjpeg"),
        *("002.txt", "003.mp4", "003.sound.flac", "003.keyframes.mjpeg", "json"),
    ]
    facts = facts_of(members)
    assert [[word["word"] for word in facts["parts"][at]["tracks"]["words"]] for at in (1, 3)] == [WORDS[:3], WORDS[3:]]
    assert "words" not in facts


def test_shards_of_clips_verify_and_are_equal_each_time(tmp_path, store, tracks) -> None:
    rows = film_clips(store, tracks, tmp_path) + recording_segments(store, tracks)
    first = written(tmp_path, rows, store, tracks)
    assert verify_shards(first.directory) == []
    (tmp_path / "again").mkdir()
    second = written(tmp_path / "again", rows[::-1], store, tracks)
    assert [shard.sha256 for shard in first.shards] == [shard.sha256 for shard in second.shards]


def test_another_version_cuts_nothing_that_is_there(tmp_path, store, tracks, monkeypatch) -> None:
    rows = film_clips(store, tracks, tmp_path) + recording_segments(store, tracks)
    written(tmp_path, rows, store, tracks)
    monkeypatch.setattr("mmlake.cuts.cache.cut_film", None)
    monkeypatch.setattr("mmlake.cuts.cache.cut_recording", None)
    table = samples_table(rows[:1] + rows[2:])
    cuts = CutCache(tmp_path / "cuts", CutSettings())
    index = write_shards(
        table, store=store, out=tmp_path, manifest_id="cd" * 32, modalities=tuple(MODALITIES), tracks=tracks, cuts=cuts
    )
    assert index.num_samples == 3


def test_other_settings_of_cutting_write_the_shards_of_clips_again(tmp_path, store, tracks) -> None:
    rows = [*film_clips(store, tracks, tmp_path), sample([text(store, "words")])]
    before, after = (written(tmp_path, rows, store, tracks, crf=crf) for crf in (20, 40))
    for name in ("plan", "sha256"):
        found = [{shard.modality: getattr(shard, name) for shard in index.shards} for index in (before, after)]
        assert found[0]["text"] == found[1]["text"]
        assert found[0]["video"] != found[1]["video"]


def test_copied_clips_say_where_they_begin(tmp_path, store, tracks) -> None:
    rows = film_clips(store, tracks, tmp_path)
    members = read(written(tmp_path, rows, store, tracks, media="copy"))[rows[1]["sample"]]
    (tmp_path / "clip.mp4").write_bytes(members["mp4"])
    clip, span = numbers(tmp_path / "clip.mp4"), facts_of(members)["span"]
    at = next(time_s for number, time_s in clip if number == 50)
    assert at - clip[0][1] == pytest.approx(span["media_start_s"], abs=2e-3)
    assert (span["is_exact"], span["num_frames"]) == (False, len(clip))


def test_what_cannot_be_cut_is_remembered_and_named_when_all_else_is_cut(tmp_path, store, tracks) -> None:
    lead = part(store, b"junk", modality="video") | {"digest": "e" * 64, "start_us": 0, "end_us": 1_000_000}
    tracks["e" * 64] = UnitFacts(start_frame=0, end_frame=25)
    clips = film_clips(store, tracks, tmp_path)
    with pytest.raises(ContractBroken, match="1 unit cannot be cut, such as eeeeeeeeeeee of item .*3001"):
        written(tmp_path, [sample([lead]), *clips], store, tracks)
    cuts = CutCache(tmp_path / "cuts", CutSettings())
    known = cuts.uncut.now()
    assert [(one.digest, one.modality, one.error_code) for one in known.values()] == [("e" * 64, "video", 3001)]
    assert len(list((tmp_path / "cuts").glob("??/*.mp4"))) == len(clips)
    assert not (tmp_path / "shards" / ("ab" * 32) / "index.json").exists()
    assert written(tmp_path, clips, store, tracks).num_samples == len(clips)


def test_of_a_recording_the_segments_that_can_be_cut_are_cut(tmp_path, store, tracks) -> None:
    rows = recording_segments(store, tracks)
    lead = dict(rows[0]["parts"][0]) | {"digest": "e" * 64, "start_us": 9_000_000_000, "end_us": 9_001_000_000}
    tracks["e" * 64] = UnitFacts()
    with pytest.raises(ContractBroken, match="1 unit cannot be cut, such as eeeeeeeeeeee of item .*3303"):
        written(tmp_path, [*rows, sample([lead])], store, tracks)
    assert len(list((tmp_path / "cuts").glob("??/*.flac"))) >= len(rows)


def test_a_lost_film_is_a_fault_of_the_lake_and_not_one_of_its_units(tmp_path, store, tracks) -> None:
    lead = part(store, b"junk", modality="video") | {"digest": "e" * 64, "start_us": 0, "end_us": 1_000_000}
    tracks["e" * 64] = UnitFacts(start_frame=0, end_frame=25)
    lead["parent_digest"] = "d" * 64
    with pytest.raises(BlobMissing):
        written(tmp_path, [sample([lead])], store, tracks)
    assert CutCache(tmp_path / "cuts", CutSettings()).uncut.held() == {}


def test_an_empty_span_of_words_is_an_empty_transcript(tmp_path, store, tracks) -> None:
    rows = film_clips(store, tracks, tmp_path)
    tracks[rows[0]["parts"][0]["digest"]] = UnitFacts(start_frame=0, end_frame=50)
    members = read(written(tmp_path, rows, store, tracks))[rows[0]["sample"]]
    assert (members["transcript.txt"], facts_of(members)["words"]) == (b"", [])
