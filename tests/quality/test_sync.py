"""The offset of sound against picture: planted ones are found, and nothing is made up where nothing is to be seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mmlake.bench.av.clock_films import JUMP, LIGHT, NOTHING, RATE_HZ, clicks, event_film, event_times
from mmlake.modalities import MODALITIES
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.video import video_track
from mmlake.quality import judge, measure
from mmlake.quality.sync import FRAME_COLUMNS
from mmlake.quality.sync_events import offset_between
from mmlake.store import BlobStore
from tests.quality.quality_media import table_of, track

DURATION_S = 16.0
SYNC = [row for row in MODALITIES["video"].measurements if row.name == "sync"]


def made(path: Path, *, kind: str, offset_s: float, fps: float = 25.0, seed: int = 5, even: bool = True) -> Path:
    rng = np.random.default_rng(seed)
    times_s = np.arange(int(DURATION_S * fps)) / fps
    if not even:
        times_s = np.sort(times_s + rng.uniform(-0.3, 0.3, len(times_s)) / fps)
        times_s -= times_s[0]
    events_s = event_times(DURATION_S, rng)
    sound = clicks(events_s + offset_s, DURATION_S, rng)
    return event_film(path, events_s, sound, kind=kind, times_s=times_s, rng=rng)


def row_of(store: BlobStore, film: Path, **columns: object) -> dict[str, object]:
    """The track that the film really gives, in the store."""
    found = video_track(film, settings=PreprocessSettings())
    assert found.flac is not None
    audio = store.put(found.flac, extension="flac")
    names = ("width_px", "height_px", "duration_s", "shots", "signals", *FRAME_COLUMNS)
    seen = {name: found.columns[name] for name in names}
    return track(store.put(film.read_bytes()), "video", **{"audio_digest": audio} | seen | columns)


def measured(store: BlobStore, row: dict[str, object]) -> dict[str, float | None]:
    table = measure(table_of([row]), SYNC, store=store)
    return dict(zip(table["measure"].to_pylist(), table["value"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    "kind, offset_s, fps, name, even",
    [
        (LIGHT, 0.03, 25.0, "a.mp4", True),
        (LIGHT, -0.5, 24.0, "b.mkv", False),
        (JUMP, 0.3, 29.97, "c.mkv", True),
        (JUMP, -0.1, 25.0, "d.mp4", False),
        (JUMP, 0.0, 50.0, "e.mkv", True),
    ],
)
def test_a_planted_offset_is_measured_to_ten_milliseconds(
    tmp_path, kind: str, offset_s: float, fps: float, name: str, even: bool
) -> None:
    store = BlobStore(tmp_path / "store")
    film = made(tmp_path / name, kind=kind, offset_s=offset_s, fps=fps, even=even)
    found = measured(store, row_of(store, film))
    assert found["av_offset_s"] == pytest.approx(offset_s, abs=0.010)
    assert found["av_offset_confidence"] > 0.999 and found["num_av_events"] >= 8


@pytest.mark.parametrize("kind", [NOTHING, JUMP])
def test_what_makes_no_sound_is_undecided_and_never_a_number(tmp_path, kind: str) -> None:
    """A picture without events, and one whose events are others than those of the sound."""
    store = BlobStore(tmp_path / "store")
    rng = np.random.default_rng(3)
    times_s = np.arange(int(DURATION_S * 25)) / 25
    sound = clicks(event_times(DURATION_S, np.random.default_rng(99)), DURATION_S, rng)
    film = event_film(tmp_path / "a.mp4", event_times(DURATION_S, rng), sound, kind=kind, times_s=times_s, rng=rng)
    found = measured(store, row_of(store, film))
    assert found["av_offset_s"] is None and found["num_av_events"] == 0
    assert found["av_offset_confidence"] < 0.999


def test_a_rhythm_fits_at_several_offsets_and_is_undecided() -> None:
    times_s, events_s = np.arange(600) / 25, np.arange(1.0, 23.0, 0.5)
    brighter = np.diff(100.0 * (np.searchsorted(events_s, times_s, side="right") % 2), prepend=0.0)
    sound = clicks(events_s + 0.1, 24.0, np.random.default_rng(0))
    assert offset_between(np.abs(brighter), brighter, times_s, sound, RATE_HZ).offset_s is None


def test_a_film_without_sound_has_no_measures_and_breaks_no_rule(tmp_path) -> None:
    store = BlobStore(tmp_path / "store")
    row = row_of(store, made(tmp_path / "a.mp4", kind=LIGHT, offset_s=0.3), audio_digest=None)
    found = measured(store, row)
    assert found["av_offset_s"] is found["av_offset_confidence"] is found["num_av_events"] is None


@pytest.mark.parametrize("offset_s, rules", [(0.03, []), (0.1, ["av_offset"]), (0.3, ["av_out_of_sync", "av_offset"])])
def test_an_offset_flags_and_a_large_one_isolates(tmp_path, offset_s: float, rules: list[str]) -> None:
    store = BlobStore(tmp_path / "store")
    tracks = table_of([row_of(store, made(tmp_path / "a.mp4", kind=LIGHT, offset_s=offset_s))])
    found = judge(tracks, measure(tracks, SYNC, store=store), MODALITIES["video"].rules).to_pylist()[0]
    assert [finding["rule"] for finding in found["findings"]] == rules
    assert found["status"] == {0: "ok", 1: "flagged", 2: "quarantined"}[len(rules)]


def test_a_clip_has_the_offset_of_its_own_stretch(tmp_path) -> None:
    """Of a film that is in time in its first half and 0.2 s late in its second, each half has its own."""
    from mmlake.quality.measurement import Subject
    from mmlake.spans import Sound

    rng = np.random.default_rng(8)
    events_s = event_times(48.0, rng)
    sound = clicks(events_s + np.where(events_s > 24, 0.2, 0.0), 48.0, rng)
    film = event_film(tmp_path / "a.mkv", events_s, sound, kind=JUMP, times_s=np.arange(48 * 25) / 25, rng=rng)
    found = video_track(film, settings=PreprocessSettings())
    times_s, *traces = (np.array(found.columns[name]) for name in FRAME_COLUMNS)
    offsets = []
    for start_s, end_s in ((0.0, 24.0), (24.0, 48.0)):
        inside = (times_s >= start_s) & (times_s < end_s)
        values = (times_s[inside] - start_s, *(trace[inside] for trace in traces))
        clip = dict(zip(FRAME_COLUMNS, (one.tolist() for one in values), strict=True))
        offsets.append(SYNC[0].take(Subject(clip, sound=Sound(found.flac, (start_s, end_s))))["av_offset_s"])
    assert offsets == [pytest.approx(0.0, abs=0.01), pytest.approx(0.2, abs=0.01)]
