"""Films and recordings of minutes: the truth about them agrees with what their files decode to."""

from __future__ import annotations

import io
from collections import deque
from pathlib import Path

import numpy as np
import pytest

from mmlake import sample
from mmlake.preprocess.transcripts.subtitles import parse_cues
from mmlake.sample import clips, voices
from mmlake.sample.scripts import MIN_PAUSE_S, Script

RATE_HZ = voices.RATE_HZ
QUIET = 0.003  # five times the studio's noise


def media(small, digest: str) -> tuple[Path, sample.TruthItem]:
    out, truth = small
    item = next(item for item in truth.items if item.digest == digest)
    return out / "landing" / item.shard / item.member, item


def long_ones(small, modality: str) -> list[str]:
    return [digest for digest, one in small[1].long_items.items() if one.modality == modality]


def luma(path: Path) -> np.ndarray:
    """Frames as small grey pictures, shape (T, 18, 32), float32."""
    import av

    with av.open(str(path)) as container:
        return np.stack(
            [
                frame.reformat(32, 18, "gray", interpolation="AREA").to_ndarray().astype(np.float32)
                for frame in container.decode(video=0)
            ]
        )


def sound(path: Path) -> np.ndarray:
    """Mono samples at RATE_HZ, as the clock of a film has them."""
    import av
    import soundfile

    if path.suffix == ".flac":
        return soundfile.read(str(path), dtype="float32")[0]
    with av.open(str(path)) as container:
        parts = [(frame.time, frame.to_ndarray().mean(axis=0)) for frame in container.decode(audio=0)]
    end_s = max(time_s + len(part) / RATE_HZ for time_s, part in parts)
    samples = np.zeros(round(end_s * RATE_HZ) + 1, np.float32)
    for time_s, part in parts:
        at = round(time_s * RATE_HZ)
        samples[max(0, at) : at + len(part)] = part[max(0, -at) :]
    return samples


def level(samples: np.ndarray, start_s: float, end_s: float) -> float:
    part = samples[round(start_s * RATE_HZ) : round(end_s * RATE_HZ)].astype(np.float64)
    return float(np.sqrt((part**2).mean()))


@pytest.fixture(scope="module")
def films(small) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Digest of each long film -> its frames and its sound."""
    paths = {digest: media(small, digest)[0] for digest in long_ones(small, "video")}
    return {digest: (luma(path), sound(path)) for digest, path in paths.items()}


def test_there_are_two_films_and_a_recording_longer_than_any_unit(small):
    _, truth = small
    assert sorted(one.modality for one in truth.long_items.values()) == ["audio", "video", "video"]
    assert min(one.duration_s for one in truth.long_items.values()) > 60


def test_a_long_film_has_the_frames_and_the_sound_that_the_truth_says(small, films):
    for digest, (frames, samples) in films.items():
        duration_s = small[1].long_items[digest].duration_s
        assert len(frames) == round(duration_s * clips.FRAME_RATE)
        assert len(samples) / RATE_HZ == pytest.approx(duration_s, abs=0.1)


def test_the_largest_changes_of_a_long_film_are_its_planted_cuts(small, films):
    for digest, (frames, _) in films.items():
        cuts = small[1].shots[digest]
        change = np.abs(np.diff(frames, axis=0)).mean(axis=(1, 2))
        # black before the picture stands still counts as part of the shot that fades
        largest = sorted((np.argsort(change)[-len(cuts) :] + 1) / clips.FRAME_RATE)
        assert largest == pytest.approx(list(cuts), abs=0.001)


def test_nothing_moves_and_nobody_speaks_in_the_rests_of_a_film(small, films):
    rests = [(digest, span) for digest in films for span in small[1].long_items[digest].rests_s]
    assert len(rests) == 2
    for digest, (start_s, end_s) in rests:
        frames, samples = films[digest]
        inside = frames[round(start_s * clips.FRAME_RATE) + 2 : round(end_s * clips.FRAME_RATE)]
        assert np.abs(np.diff(inside, axis=0)).mean(axis=(1, 2)).max() < 0.2
        assert level(samples, start_s, end_s) < QUIET
    blackest = min(films[digest][0][round(span[0] * clips.FRAME_RATE) + 2].mean() for digest, span in rests)
    assert blackest < 20


def test_a_film_has_a_shot_that_must_be_cut_within(small):
    _, truth = small
    borders = [
        np.array([0.0, *truth.shots[digest], truth.long_items[digest].duration_s])
        for digest in long_ones(small, "video")
    ]
    assert max(float(np.diff(one).max()) for one in borders) > 30


def test_a_sentence_of_the_film_runs_over_a_cut(small):
    _, truth = small
    assert any(
        one.start_s + 1 < cut < one.end_s - 0.3
        for digest in long_ones(small, "video")
        for one in truth.sentences[digest]
        for cut in truth.shots[digest]
    )


@pytest.mark.parametrize("modality", ["audio", "video"])
def test_speech_is_loud_and_pauses_are_quiet(small, films, modality):
    _, truth = small
    for digest in long_ones(small, modality):
        samples = films[digest][1] if modality == "video" else sound(media(small, digest)[0])
        for one in truth.sentences[digest]:
            assert level(samples, one.start_s, one.end_s) > 5 * QUIET
        for start_s, end_s in truth.long_items[digest].pauses_s:
            # a lossy codec smears over the edges
            assert level(samples, start_s + 0.06, end_s - 0.06) < QUIET


def test_the_rests_of_the_recording_are_its_long_pauses(small):
    _, truth = small
    (digest,) = long_ones(small, "audio")
    one = truth.long_items[digest]
    assert [pause for pause in one.pauses_s if pause[1] - pause[0] > 2] == list(one.rests_s)
    assert {4.0, 8.0} <= {round(end - start, 3) for start, end in one.rests_s}


def test_the_recording_has_a_stretch_without_pauses_that_is_longer_than_a_unit(small):
    _, truth = small
    (digest,) = long_ones(small, "audio")
    pauses = truth.long_items[digest].pauses_s
    assert max(after[0] - before[1] for before, after in zip(pauses, pauses[1:], strict=False)) > 30


def test_subtitles_next_to_long_items_are_their_sentences(small):
    _, truth = small
    for digest in truth.long_items:
        path, item = media(small, digest)
        (subtitles,) = [
            path.with_name(other.member)
            for other in truth.items
            if other.shard == item.shard and other.modality == "text" and Path(other.member).stem == path.stem
        ]
        cues = [(cue.text, round(cue.start_s, 3), round(cue.end_s, 3)) for cue in parse_cues(subtitles.read_text())]
        assert cues == [(one.text, one.start_s, one.end_s) for one in truth.sentences[digest]]


def test_an_excerpt_of_a_film_shows_what_its_stretch_shows(small, films):
    excerpts = [one for one in small[1].excerpts if one.modality == "video"]
    assert len(excerpts) >= 2
    for one in excerpts:
        shown = luma(media(small, one.digest)[0])
        stretch = films[one.parent][0][round(one.start_s * clips.FRAME_RATE) :][: len(shown)]
        assert len(shown) == round((one.end_s - one.start_s) * clips.FRAME_RATE)
        assert np.abs(shown - stretch).mean() < 3
        assert 10 <= one.end_s - one.start_s <= 25


def test_the_decoy_of_an_excerpt_shows_something_else(small, films):
    _, truth = small
    copied = {one.digest: one for one in truth.excerpts}
    (decoy,) = [row.digests for row in truth.lookalikes if row.digests[0] in copied]
    one = copied[decoy[0]]
    shown = luma(media(small, decoy[1])[0])
    stretch = films[one.parent][0][round(one.start_s * clips.FRAME_RATE) :][: len(shown)]
    assert len(shown) == len(stretch)
    assert np.abs(shown - stretch).mean() > 20


def test_the_excerpt_of_the_recording_sounds_like_its_stretch(small):
    import soundfile

    (one,) = [one for one in small[1].excerpts if one.modality == "audio"]
    path, item = media(small, one.digest)
    copy, _ = soundfile.read(io.BytesIO(path.read_bytes()), dtype="float32")
    whole, _ = soundfile.read(str(media(small, one.parent)[0]), dtype="float32")
    stretch = whole[round(one.start_s * RATE_HZ) : round(one.end_s * RATE_HZ)]
    assert item.member.endswith(".mp3")
    assert abs(len(copy) - len(stretch)) < RATE_HZ // 10
    window = RATE_HZ // 10
    count = min(len(copy), len(stretch)) // window
    levels = [
        np.sqrt((samples[: count * window].reshape(count, window) ** 2).mean(axis=1)) for samples in (copy, stretch)
    ]
    assert np.corrcoef(levels)[0, 1] > 0.9


def test_pauses_are_what_a_script_leaves_between_its_sentences():
    tone = np.full(RATE_HZ, 0.5, np.float32)  # a second
    script = Script(lines=deque([("One.", tone), ("Two.", tone), ("Three.", tone)]))
    assert script.fill(0.5, 3.0, pauses_s=(0.1, 9.0)) == pytest.approx(2.6)
    assert [(one.text, one.start_s, one.end_s) for one in script.sentences] == [("One.", 0.5, 1.5), ("Two.", 1.6, 2.6)]
    assert MIN_PAUSE_S > 0.1
    assert script.pauses_s(4.0) == ((0.0, 0.5), (2.6, 4.0))
    assert np.flatnonzero(script.sound(4.0))[[0, -1]].tolist() == [8000, 41599]
