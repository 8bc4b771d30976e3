"""From a landing zone with a film and a recording that are cut, to the batch of a training loop."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile
from torch.utils.data import DataLoader

from mmlake import pipeline
from mmlake.lake import Lake
from mmlake.loader import ShardDataset, read_tracks, track_samples, write_tracks
from mmlake.publish import VERSION_STEPS, run_version_step, update_catalog, update_samples
from mmlake.settings import Settings
from mmlake.shards import verify_shards
from mmlake.track_drawing import drawn_tracks
from mmlake.upkeep import collect
from mmlake.version_report import write_version_report
from tests.browsers import headless
from tests.cuts.counted_films import counted_film, number_of

NUM_FRAMES, RATE_HZ = 500, 44_100
CUT_SOON = {"units": {"whole_up_to_s": 6.0, "min_span_s": 2.0, "target_span_s": 4.0, "max_span_s": 8.0}}
LINES = ["The fox sits in the snow.", "It waits for a mouse.", "Then it jumps high.", "The mouse has gone home."]


def srt() -> str:
    """A line each five seconds."""
    blocks = [
        f"{number + 1}\n00:00:{5 * number + 1:02d},000 --> 00:00:{5 * number + 4:02d},000\n{line}\n"
        for number, line in enumerate(LINES)
    ]
    return "\n".join(blocks)


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> Iterator[Lake]:
    base = tmp_path_factory.mktemp("clips")
    for name in ("films", "talks"):
        (base / "in" / name).mkdir(parents=True)
    counted_film(base / "in" / "films" / "fox.mp4", NUM_FRAMES)
    (base / "in" / "films" / "fox.srt").write_text(srt())
    soundfile.write(base / "in" / "talks" / "talk.flac", recording(), RATE_HZ, subtype="PCM_16")
    with Lake(base / "lake", landing=base / "in", settings=Settings.of(CUT_SOON)) as lake:
        pipeline.refresh(lake)
        pipeline.run_tables(lake)
        update_samples(lake)
        update_catalog(lake)
        for step in ("manifest", "training_shards"):
            run_version_step(VERSION_STEPS[step], lake, "everything-v001")
        lake.remember_landing()
        yield lake


def recording() -> np.ndarray:
    """Sixteen seconds of two channels: a tone that swells and fades twice a second."""
    times_s = np.arange(16 * RATE_HZ) / RATE_HZ
    tone = np.sin(2 * np.pi * 330 * times_s) * (0.5 + 0.45 * np.sin(2 * np.pi * 2 * times_s))
    noise = np.random.default_rng(7).normal(0, 0.01, (len(times_s), 2))
    return (np.clip(tone[:, None] * 0.5 + noise, -1, 1) * 32767).astype(np.int16)


@pytest.fixture(scope="module")
def samples(lake) -> list[dict[str, Any]]:
    dataset = ShardDataset(shards_of(lake), shuffle=False, decode="auto", batch_size=4)
    batches = list(DataLoader(dataset, batch_size=4, num_workers=2, collate_fn=list))
    return [sample for batch in batches for sample in batch]


def shards_of(lake: Lake) -> Path:
    return lake.shards_dir / lake.versions.resolve("everything-v001")


def of(samples: list[dict[str, Any]], modality: str) -> list[dict[str, Any]]:
    """The samples in order of their spans."""
    found = [sample for sample in samples if sample["json"]["modality"] == modality]
    return sorted(found, key=lambda sample: sample["json"]["span"]["start_s"])


def test_the_clips_hold_every_frame_of_the_film_once(samples) -> None:
    clips = of(samples, "video")
    assert len(clips) > 2
    held: list[int] = []
    for clip in clips:
        with av.open(io.BytesIO(clip["mp4"])) as film:
            numbers = [number_of(frame.to_ndarray(format="gray")) for frame in film.decode(video=0)]
        span = clip["json"]["span"]
        assert (len(numbers), span["is_exact"]) == (span["num_frames"], True)
        assert numbers[0] == round(span["start_s"] * 25)
        held += numbers
    assert held == list(range(NUM_FRAMES))


def test_sounds_keyframes_and_words_are_those_of_each_clip(samples) -> None:
    clips = of(samples, "video")
    for clip in clips:
        facts = clip["json"]
        length_s = facts["span"]["end_s"] - facts["span"]["start_s"]
        assert len(clip["sound.flac"]) == pytest.approx(length_s * 16_000, abs=1)
        assert len(clip["keyframes.mjpeg"]) == len(facts["keyframes"]) > 0
        times_s = [one["time_s"] for one in facts["keyframes"]]
        times_s += [word[name] for word in [*facts["words"], *facts["cues"]] for name in ("start_s", "end_s")]
        assert all(0 <= time_s <= length_s + 1e-6 for time_s in times_s)
    said = [cue["text"] for clip in clips for cue in clip["json"]["cues"]]
    assert said == LINES
    assert " ".join(clip["transcript.txt"] for clip in clips if clip["transcript.txt"]) == " ".join(LINES)


def test_the_segments_are_the_recordings_own_samples(lake, samples) -> None:
    raw = ShardDataset(shards_of(lake), shuffle=False, modality="audio")
    files = {sample["__key__"]: sample["flac"] for sample in raw}
    segments = of(samples, "audio")
    assert len(segments) > 1
    parts = [soundfile.read(io.BytesIO(files[one["__key__"]]), dtype="int16")[0] for one in segments]
    np.testing.assert_array_equal(np.concatenate(parts), recording())
    assert all(one["flac"].dtype == np.float32 and one["flac"].ndim == 1 for one in segments)


def test_the_shards_verify_and_another_run_cuts_nothing(lake) -> None:
    assert verify_shards(shards_of(lake)) == []
    before = {path: path.stat().st_mtime_ns for path in lake.cuts.directory.rglob("*.mp4")}
    run_version_step(VERSION_STEPS["training_shards"], lake, "everything-v001")
    assert {path: path.stat().st_mtime_ns for path in lake.cuts.directory.rglob("*.mp4")} == before


def test_the_clips_are_lines_that_the_loader_reads(lake, samples, tmp_path) -> None:
    write_tracks(shards_of(lake), tmp_path / "x.jsonl")
    lines = {line.sample: line for line in read_tracks(tmp_path / "x.jsonl")}
    assert lines.keys() == {sample["__key__"] for sample in samples}
    for sample in samples:
        line = lines[sample["__key__"]]
        assert (line.words, line.cues) == (sample["json"]["words"], sample["json"]["cues"])


def test_clips_say_the_shots_of_their_film_on_their_own_clock(lake, samples) -> None:
    film = lake.tables.concat("tracks", "video").to_pylist()[0]
    for clip in of(samples, "video"):
        span, shots = clip["json"]["span"], clip["json"]["shots"]
        assert (shots[0]["start_s"], shots[-1]["end_s"]) == (0.0, pytest.approx(span["end_s"] - span["start_s"]))
        inner = [shot["start_s"] + span["start_s"] for shot in shots[1:]]
        assert inner == pytest.approx(
            [s["start_s"] for s in film["shots"] if span["start_s"] < s["start_s"] < span["end_s"]]
        )


def test_the_loader_gives_the_tracks_of_a_clip_and_they_are_drawn(lake, samples) -> None:
    clips = {sample["__key__"]: sample for sample in of(samples, "video")}
    found = track_samples(shards_of(lake), 2)
    assert len(found) == 2 and all(one.facts == clips[one.key]["json"] for one in found)
    for one in found:
        assert len(one.keyframes) == len(one.facts["keyframes"])
        assert all(data.startswith(b"\xff\xd8") and data.endswith(b"\xff\xd9") for _, data in one.keyframes)
        lines = drawn_tracks(one, width=90).plain.splitlines()
        assert [line.split()[0] for line in lines] == ["sample", "time", "keyframes", "shots", "sound", "words"]
        assert all(len(line) <= 90 for line in lines[1:])
        assert one.facts["cues"][0]["text"] in lines[-1]


def test_cuts_stay_while_something_names_their_unit(lake) -> None:
    before = lake.cuts.size_bytes()
    stray = lake.cuts.directory / "ab" / f"{'ab' * 32}-0123456789abcdef.mp4"
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"a clip of a film that is gone")
    assert collect(lake, now_s=0.0, dry_run=True).cuts_bytes == 0
    assert collect(lake, now_s=0.0).cuts_bytes == 29
    assert (stray.exists(), lake.cuts.size_bytes()) == (False, before)


@pytest.mark.browser
def test_the_report_plays_every_clip_and_stretch_as_long_as_it_is(lake) -> None:
    written = write_version_report(lake, "everything-v001")
    rows = lake.catalog.read(["modality", "kind", "duration_s"]).to_pylist()
    cut = {kind: sorted(row["duration_s"] for row in rows if row["kind"] == kind) for kind in ("clip", "segment")}
    assert all(len(lengths) > 1 for lengths in cut.values())
    with headless("--autoplay-policy=no-user-gesture-required") as browser:
        browser.get(f"file://{written}")
        browser.set_script_timeout(60)
        played = {tag: browser.execute_async_script(_PLAY, tag) for tag in ("video", "audio")}
        chosen = browser.execute_async_script(_CHOOSE)
    assert chosen and all(abs(one["at"] / one["end"] - 0.5) < 0.05 for one in chosen)
    assert all(abs(float(one["head"].rstrip("%")) - 50) < 5 for one in chosen)
    assert not [one["error"] for some in played.values() for one in some if one["error"]]
    for tag, kind in (("video", "clip"), ("audio", "segment")):  # a unit may be an example of several kinds
        ends = np.array([one["end"] for one in played[tag]])
        apart = np.abs(ends[:, None] - np.array(cut[kind]))
        assert apart.min(axis=1).max() < 0.1  # no player plays more than a unit
        assert apart.min(axis=0).max() < 0.1  # every unit has one
    assert all(0.0 < one["at"] <= one["end"] for some in played.values() for one in some)


# Chooses the middle of each axis of tracks; gives where its film and the head on the axis are then.
_CHOOSE = """
const done = arguments[arguments.length - 1], all = [];
(async () => {
  for (const axis of document.querySelectorAll("svg.tracks")) {
    const film = axis.closest("figure").querySelector("video"), box = axis.getBoundingClientRect();
    const sought = new Promise((go) => film.addEventListener("seeked", () => setTimeout(go, 50), {once: true}));
    axis.dispatchEvent(new MouseEvent("click", {clientX: box.left + box.width / 2, bubbles: true}));
    await sought;
    all.push({at: film.currentTime, end: film.duration, head: axis.querySelector(".head").getAttribute("x1")});
  }
})().catch((error) => all.push({at: 0, end: 1, head: String(error)})).then(() => done(all));
"""
# Plays one player after the other until its clock has moved; gives where it was and where it ends.
_PLAY = """
const done = arguments[arguments.length - 1], all = [];
(async () => {
  for (const player of document.querySelectorAll(arguments[0])) {
    player.muted = true;
    await player.play();
    for (let wait = 0; wait < 100 && player.currentTime < 0.05; wait++) await new Promise((go) => setTimeout(go, 50));
    player.pause();
    all.push({at: player.currentTime, end: player.duration, error: player.error && player.error.message});
  }
})().catch((error) => all.push({at: 0, end: 0, error: String(error)})).then(() => done(all));
"""
