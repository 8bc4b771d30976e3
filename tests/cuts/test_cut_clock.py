"""Cuts lie where they claim to; a reading offset that adds up from cut to cut is found, with its step and growth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from mmlake.bench.av.clock_films import clicks, gray_film
from mmlake.cuts import CutSettings, Span, clock, cut_film, cut_recording, cut_sound
from mmlake.cuts.clock import CLIP_SOUND, PICTURE, SEGMENT, SOUND, TRACK, CutPiece, described, lags_of
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.video import video_track

NUM_CUTS, LENGTH_S = 4, 3.0


def span(number: int, *, shift_s: float = 0.0) -> Span:
    start_s = number * LENGTH_S + shift_s
    return Span(
        digest=f"{number:064x}",
        parent_digest="ab" * 32,
        start_us=round(start_s * 1e6),
        end_us=round((start_s + LENGTH_S) * 1e6),
    )


@pytest.fixture(scope="module")
def film(tmp_path_factory) -> tuple[Path, Path]:
    """(a film of 12 s in which no stretch is like another, its track)."""
    folder, rng = tmp_path_factory.mktemp("film"), np.random.default_rng(2)
    times_s = np.arange(300) / 25
    ground = np.kron(rng.uniform(0, 255, (9, 16)), np.ones((8, 8)))
    pictures = [np.roll(ground, number * 3, axis=1).astype(np.uint8) for number in range(300)]
    sound = clicks(np.sort(rng.uniform(0, 12, 60)), 12.0, rng)
    path = gray_film(folder / "film.mp4", pictures, times_s, sound)
    flac = video_track(path, settings=PreprocessSettings()).flac
    (folder / "track.flac").write_bytes(flac)
    return path, folder / "track.flac"


def pieces(
    film: Path, track: Path, folder: Path, *, sound_s: float = 0.0, clip_s: float = 0.0, media: str = "encode"
) -> list[CutPiece]:
    """Clips as the cutter makes them, or a double of it that reads so much further with each cut."""
    made = []
    for number in range(NUM_CUTS):
        clip = cut_film(
            film, folder / "clip.mp4", span(number, shift_s=-clip_s * number), settings=CutSettings(media=media)
        )
        cut_sound(track, folder / "sound.flac", span(number, shift_s=-sound_s * number))
        made.append(
            CutPiece(
                key=f"clip-{number}",
                number=number,
                start_s=number * LENGTH_S,
                end_s=(number + 1) * LENGTH_S,
                media_start_s=clip.media_start_s,
                clip=(folder / "clip.mp4").read_bytes(),
                sound=(folder / "sound.flac").read_bytes(),
            )
        )
    return made


def test_what_the_cutter_makes_is_where_it_claims_to_be_to_the_millisecond(film, tmp_path) -> None:
    lags = lags_of(*film, pieces(*film, tmp_path))
    assert {lag.step for lag in lags} == {TRACK, SOUND, CLIP_SOUND, PICTURE}
    assert len(lags) == 4 * NUM_CUTS
    assert max(abs(lag.lag_s) for lag in lags) <= 0.001
    assert described(lags) == []


def test_a_reading_offset_of_30_ms_per_cut_is_found_with_its_step_and_growth(film, tmp_path) -> None:
    lags = lags_of(*film, pieces(*film, tmp_path, sound_s=0.03))
    late = {lag.number: lag.lag_s for lag in lags if lag.step == SOUND}
    assert late == {number: pytest.approx(0.03 * number, abs=0.001) for number in range(NUM_CUTS)}
    assert all(abs(lag.lag_s) <= 0.001 for lag in lags if lag.step != SOUND)
    (problem,) = described(lags)
    assert problem.startswith("sound: 3 of 4 cuts lag, first clip-1 (number 1) by +0.0300 s")
    assert "growing by +0.0300 s with each cut" in problem


def test_pictures_that_lag_are_found_too(film, tmp_path) -> None:
    problems = described(lags_of(*film, pieces(*film, tmp_path, clip_s=0.04)))
    assert [problem.partition(":")[0] for problem in problems] == [CLIP_SOUND, PICTURE]
    assert all("growing by +0.04" in problem for problem in problems)


def test_the_medium_of_copied_packets_begins_earlier_and_says_so(film, tmp_path) -> None:
    lags = [lag for lag in lags_of(*film, pieces(*film, tmp_path, media="copy")) if lag.step == PICTURE]
    assert len(lags) == NUM_CUTS and max(abs(lag.lag_s) for lag in lags) <= 0.001


def test_segments_of_a_recording_are_its_own_samples(tmp_path) -> None:
    sound = np.random.default_rng(1).normal(0, 0.1, round(12 * 44_100)).astype(np.float32)
    recording = tmp_path / "talk.flac"
    soundfile.write(recording, sound, 44_100)
    cut_recording(recording, [(span(number), tmp_path / f"{number}.flac") for number in range(NUM_CUTS)])
    made = [
        CutPiece(
            key=str(number),
            number=number,
            start_s=number * LENGTH_S,
            end_s=(number + 1) * LENGTH_S,
            segment=(tmp_path / f"{number}.flac").read_bytes(),
        )
        for number in range(NUM_CUTS)
    ]
    lags = lags_of(recording, None, made)
    assert [(lag.step, lag.lag_s) for lag in lags] == [(SEGMENT, 0.0)] * NUM_CUTS


def test_silence_says_nothing(tmp_path) -> None:
    soundfile.write(tmp_path / "quiet.flac", np.zeros(12 * 16_000, np.float32), 16_000)
    cut_sound(tmp_path / "quiet.flac", tmp_path / "sound.flac", span(1))
    piece = CutPiece(key="1", number=1, start_s=3.0, end_s=6.0, sound=(tmp_path / "sound.flac").read_bytes())
    assert lags_of(tmp_path / "quiet.flac", tmp_path / "quiet.flac", [piece]) == []


def test_pieces_in_order_take_one_decode_of_their_recording(tmp_path, monkeypatch) -> None:
    """Each decoded an MP3 from its start, up to where it lies."""
    sound = np.random.default_rng(2).normal(0, 0.1, round(40 * 44_100)).astype(np.float32)
    recording, starts = tmp_path / "talk.mp3", [3.0, 3.5, 11.0, 12.0, 30.0, 38.5]
    soundfile.write(recording, sound, 44_100, format="MP3")
    decoded, placed = [], clock.placed_sound
    monkeypatch.setattr(clock, "placed_sound", lambda path, **options: decoded.append(path) or placed(path, **options))
    made = [CutPiece(key=str(start), number=0, start_s=start, end_s=start + 1.5) for start in starts]
    own = clock.OwnSound(recording)
    found = [own.around(piece) for piece in made]
    assert len(decoded) == 1
    alone = [clock.OwnSound(recording).around(piece) for piece in made]
    back = [own.around(piece) for piece in made[::-1]][::-1]
    for one, other, third in zip(found, alone, back, strict=True):
        assert np.array_equal(one.samples, other.samples) and np.array_equal(one.samples, third.samples)
        assert one.before_s == other.before_s and np.abs(one.samples[44_100:]).max() > 0.1
