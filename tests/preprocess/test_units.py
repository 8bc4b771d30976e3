"""The UNITS table of recordings and films: borders in pauses, between words, at shots; gaps; rows of what cannot be
cut."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import soundfile
from films import film, flashes
from preprocess_media import items, photo
from test_silences import bursts

from mmlake import preprocess, schemas
from mmlake.border import IN_PROCESS
from mmlake.errors import ContractBroken
from mmlake.preprocess import FILM_SPLITTER, RECORDING_SPLITTER, UnitSettings, check_tiling
from mmlake.store import BlobStore
from mmlake.workers import WorkerPool

DIGEST = "a" * 64


@pytest.fixture
def store(tmp_path):
    return BlobStore(tmp_path / "blobs")


def flac(samples: np.ndarray) -> bytes:
    """The samples as the tracks step keeps them."""
    sink = io.BytesIO()
    soundfile.write(sink, np.clip(samples, -1, 1), 16_000, format="FLAC", subtype="PCM_16")
    return sink.getvalue()


def track(store: BlobStore, samples: np.ndarray | None = None, **columns: object) -> pa.Table:
    """The track of one recording."""
    row = {
        "digest": DIGEST,
        "modality": "audio",
        "role": "media",
        "status": "ok",
        "size_bytes": 1,
        "transcript_source": "none",
        "shots": [],
        "keyframes": [],
        "signals": [],
        "cues": [],
    }
    if samples is not None:
        row |= {"audio_digest": store.put(flac(samples)), "duration_s": len(samples) / 16_000}
    return schemas.from_rows(schemas.TRACKS, [row | columns])


def units(tracks: pa.Table, store: BlobStore, *, splitter=RECORDING_SPLITTER, **options: object) -> list[dict]:
    """The rows, which tile their items."""
    found = preprocess.units(tracks, splitter=splitter, store=store, **options)
    check_tiling("test", tracks, found)
    return found.to_pylist()


def words(*spoken: tuple[str, float, float], status: str = "ok", code: int | None = None) -> pa.Table:
    """An alignment of the recording."""
    row = {
        "digest": DIGEST,
        "transcript_digest": "b" * 64,
        "method": "phone-agreement",
        "revision": "1",
        "status": status,
        "error_code": code,
        "error": None if code is None else "reason",
        "words": [{"word": word, "start_s": start, "end_s": end, "score": 0.9} for word, start, end in spoken],
    }
    return schemas.from_rows(schemas.ALIGNMENTS, [row])


def sentences(num_words: int, *, word_s: float = 0.4, space_s: float = 0.0) -> list[tuple[str, float, float]]:
    """Words one after the other."""
    return [(f"w{at}", at * (word_s + space_s), at * (word_s + space_s) + word_s) for at in range(num_words)]


def cue(text: str, start_s: float, end_s: float) -> dict[str, object]:
    return {"text": text, "start_s": start_s, "end_s": end_s, "score": None}


def borders_s(rows: list[dict]) -> list[float]:
    return [row["end"] / 1e6 for row in rows[:-1]]


def test_a_recording_is_cut_in_its_pauses(store):
    spans = [(0, 8), (8.5, 19), (19.5, 27), (27.6, 41), (41.5, 50)]
    rows = units(track(store, bursts(*spans, until_s=50)), store)
    assert [row["kind"] for row in rows] == ["segment"] * len(rows)
    pauses = [(left[1] + right[0]) / 2 for left, right in zip(spans, spans[1:], strict=False)]
    for border in borders_s(rows):
        assert min(abs(border - pause) for pause in pauses) < 0.05


@pytest.mark.parametrize(("length_s", "kinds"), [(30.0, ["whole"]), (30.1, ["whole"]), (30.2, ["segment", "segment"])])
def test_items_of_30_s_are_whole_with_the_padding_of_an_encoder(store, length_s, kinds):
    assert [row["kind"] for row in units(track(store, bursts((0, 30), until_s=length_s)), store)] == kinds


@pytest.mark.parametrize(("pause_s", "kinds"), [(2.9, ["segment"] * 2), (3.2, ["segment", "gap", "segment"])])
def test_a_silence_of_more_than_3_s_is_a_gap_and_keeps_a_margin_at_both_sides(store, pause_s, kinds):
    end_s = 20 + pause_s + 20
    rows = units(track(store, bursts((0, 20), (20 + pause_s, end_s), until_s=end_s)), store)
    assert [row["kind"] for row in rows] == kinds
    if "gap" in kinds:
        assert rows[1]["gap"] == "silence"
        np.testing.assert_allclose(borders_s(rows), [20.2, 20 + pause_s - 0.2], atol=0.03)


@pytest.mark.parametrize(("contrast_db", "gaps"), [(16, []), (40, ["silence"])])
def test_noise_that_sinks_a_little_is_no_gap(store, contrast_db, gaps):
    sound = bursts((0, 20), (30, 50), until_s=50, level_db=-15, noise_db=-15 - contrast_db)
    assert [row["gap"] for row in units(track(store, sound), store) if row["gap"]] == gaps


def test_silence_at_the_ends_is_a_gap_up_to_the_ends(store):
    rows = units(track(store, bursts((10, 30), until_s=45)), store)
    assert [row["gap"] for row in rows] == ["silence", None, "silence"]
    assert (rows[0]["start"], rows[-1]["end"]) == (0, 45_000_000)


def test_a_cough_in_a_long_silence_is_too_short(store):
    rows = units(track(store, bursts((0, 20), (40, 40.1), (60, 80), until_s=80)), store)
    assert [row["gap"] for row in rows] == [None, "silence", "too_short", "silence", None]


def test_a_silent_recording_is_one_whole_unit(store):
    (row,) = units(track(store, np.zeros(60 * 16_000)), store)
    assert (row["kind"], row["digest"], row["start"], row["end"]) == ("whole", DIGEST, 0, 60_000_000)


def test_no_border_falls_into_a_word_though_the_pauses_lie_there(store):
    sound = bursts((0, 14.9), (15.3, 24.9), (25.3, 45), until_s=45)
    spoken = sentences(110)
    assert all(14.9 < border < 25.3 for border in borders_s(units(track(store, sound), store)))
    rows = units(track(store, sound, transcript="x"), store, alignments=words(*spoken))
    for border in borders_s(rows):
        assert not any(start < border < end for _, start, end in spoken)


def test_words_of_a_doubted_alignment_are_not_used(store):
    sound = bursts((0, 19.8), (20.2, 40), until_s=40)
    across = words(("never", 19, 21), status="flagged", code=3201)
    assert borders_s(units(track(store, sound, transcript="x"), store, alignments=across)) == [
        pytest.approx(20, abs=0.02)
    ]
    known = words(("never", 19, 21))
    assert borders_s(units(track(store, sound, transcript="x"), store, alignments=known)) != [
        pytest.approx(20, abs=0.02)
    ]


def test_of_two_pauses_the_end_of_the_sentence_is_taken(store):
    sound = bursts((0, 16), (16.3, 24), (24.3, 40), until_s=40)
    spoken = words(("one", 15.5, 16), ("two", 16.3, 17), ("three", 23.5, 24), ("four", 24.3, 25))
    for transcript, border in (("one. two three four", 16.15), ("one two three. four", 24.15)):
        rows = units(track(store, sound, transcript=transcript), store, alignments=spoken)
        assert borders_s(rows) == [pytest.approx(border, abs=0.1)]


def test_of_two_pauses_the_end_of_a_line_that_ends_a_sentence_is_taken(store):
    sound = bursts((0, 16), (16.3, 24), (24.3, 40), until_s=40)
    for first, second, border in (("One.", "And two", 16.15), ("One", "and two.", 24.15)):
        lines = [cue(first, 0, 16), cue(second, 16.3, 24), cue("Three", 24.3, 40)]
        rows = units(track(store, sound, cues=lines), store)
        assert borders_s(rows) == [pytest.approx(border, abs=0.1)]


def test_speech_without_pauses_is_cut_where_it_is_quietest(store):
    sound = bursts((0, 40), until_s=40, noise_db=-20)
    sound[round(13.9 * 16_000) : round(14.1 * 16_000)] *= 0.5
    assert borders_s(units(track(store, sound), store)) == [pytest.approx(14, abs=0.1)]


def speech(*spans_s: tuple[float, float]) -> list[dict[str, float]]:
    return [{"start_s": start_s, "end_s": end_s} for start_s, end_s in spans_s]


def test_of_two_pauses_the_one_in_which_nobody_speaks_is_taken(store):
    """A stop of the voice within a word is as silent as a pause."""
    sound = bursts((0, 15), (15.3, 24), (24.3, 40), until_s=40)
    for found, border in ((speech((0, 15), (15.3, 40)), 15.15), (speech((0, 24), (24.3, 40)), 24.15)):
        assert borders_s(units(track(store, sound, speech=found), store)) == [pytest.approx(border, abs=0.06)]


def test_a_pause_that_noise_covers_is_cut_where_the_voice_detector_has_it(store):
    sound = bursts((0, 40), until_s=40)
    found = speech((0, 13.2), (13.6, 40))
    assert borders_s(units(track(store, sound, speech=found), store)) == [pytest.approx(13.4, abs=0.1)]


def test_no_border_falls_into_speech_though_the_length_would_be_better(store):
    sound = bursts((0, 60), until_s=60, noise_db=-20)
    found = speech((0, 10.4), (10.8, 31), (31.4, 48.9), (49.3, 60))
    for border in borders_s(units(track(store, sound, speech=found), store)):
        assert not any(one["start_s"] < border < one["end_s"] for one in found)


def test_a_soft_voice_in_a_long_silence_is_no_gap(store):
    sound = bursts((0, 20), (30, 50), until_s=50)
    rows = units(track(store, sound, speech=speech((0, 20), (24, 26), (30, 50))), store)
    assert not any(row["gap"] and row["start"] < 26e6 and row["end"] > 24e6 for row in rows)
    assert [row["gap"] for row in units(track(store, sound), store)] == [None, "silence", None]


def test_a_sentence_that_fits_is_kept_whole_though_a_longer_pause_lies_within(store):
    sound = bursts((0, 11.9), (12.1, 19.8), (20.2, 40), until_s=40)
    spoken = words(("one", 11, 11.9), ("two", 12.1, 13), ("three", 19, 19.8), ("four", 20.2, 21), ("five", 39, 40))
    rows = units(track(store, sound, transcript="one. two three four five."), store, alignments=spoken)
    assert borders_s(rows) == [pytest.approx(12.0, abs=0.1)]


@pytest.mark.parametrize("mark", ["", ",", ";", " –", "、", ', "so":'])
def test_a_sentence_longer_than_a_span_is_cut_at_the_end_of_a_clause(store, mark):
    """Of pauses that are alike the one behind a comma, though the others lie nearer to the wanted length."""
    starts = [round(at * 2.0, 1) for at in range(20)]
    sound = bursts(*((start, start + 1.6) for start in starts), until_s=40)
    names = [f"w{at}" for at in range(20)]
    spoken = words(*((name, start, start + 1.6) for name, start in zip(names, starts, strict=True)))
    rows = units(
        track(store, sound, transcript=" ".join(names[:8]) + mark + " " + " ".join(names[8:]) + "."),
        store,
        alignments=spoken,
    )
    assert borders_s(rows) == [pytest.approx(15.8 if mark else 19.8, abs=0.15)]


def test_the_end_of_a_sentence_goes_before_that_of_a_clause(store):
    starts = [round(at * 2.0, 1) for at in range(20)]
    sound = bursts(*((start, start + 1.6) for start in starts), until_s=40)
    names = [f"w{at}" for at in range(20)]
    spoken = words(*((name, start, start + 1.6) for name, start in zip(names, starts, strict=True)))
    text = " ".join(names[:7]) + ". " + " ".join(names[7:10]) + ", " + " ".join(names[10:]) + "."
    rows = units(track(store, sound, transcript=text), store, alignments=spoken)
    assert borders_s(rows) == [pytest.approx(13.8, abs=0.15)]


def test_a_film_is_not_cut_at_a_shot_within_speech_where_a_pause_is_near(tmp_path, store):
    times, pictures = takes(20, 16)
    tracks = film_tracks(
        store, film(tmp_path / "a.mp4", times, pictures, sound=bursts((0, 17), (17.6, 36), until_s=36))
    )
    at = tracks.column_names.index("speech")
    kind = schemas.TRACKS.arrow.field("speech").type
    silent = tracks.set_column(at, "speech", pa.array([None], kind))
    assert borders_s(units(silent, store, splitter=FILM_SPLITTER)) == [20]
    spoken = tracks.set_column(at, "speech", pa.array([speech((0, 17), (17.6, 36))], kind))
    (border,) = borders_s(units(spoken, store, splitter=FILM_SPLITTER))
    assert 17 < border < 17.6


@pytest.mark.parametrize("found", [
    speech((5, float("nan")), (-3, -1), (9, 2), (1e9, 2e9)),
    speech((0, 40)),
    speech((0, 30), (5, 25), (20, 40)),
    [],
])  # fmt: skip
def test_a_voice_detector_may_say_anything(store, found):
    rows = units(track(store, bursts((0, 19.8), (20.2, 40), until_s=40), speech=found), store)
    assert borders_s(rows) == [pytest.approx(20, abs=0.05)]


@pytest.mark.parametrize("lines", [
    [cue("before", -5, -1), cue("behind", 1e9, 2e9)],
    [cue("nan", float("nan"), 5), cue("endless", 1, float("inf")), cue("backwards", 9, 3)],
    [cue("over", 0, 45), cue("lapping.", 1, 39), cue("lines", 20, 21)],
    [cue("", 0, 1)] * 5000,
])  # fmt: skip
def test_cues_may_say_anything(store, lines):
    sound = bursts((0, 19.8), (20.2, 40), until_s=40)
    assert borders_s(units(track(store, sound, cues=lines), store)) == [pytest.approx(20, abs=0.05)]


def test_words_that_last_for_minutes_are_none(store):
    sound = bursts((0, 19.8), (20.2, 40), until_s=40)
    rows = units(track(store, sound, transcript="x"), store, alignments=words(("x", 0, 40)))
    assert borders_s(rows) == [pytest.approx(20, abs=0.05)]


@pytest.mark.parametrize("duration_s", [None, 0.0, float("nan"), float("inf"), -1.0])
def test_lengths_that_are_none_make_whole_units(store, duration_s):
    (row,) = units(track(store, duration_s=duration_s), store)
    assert (row["kind"], row["digest"], row["status"]) == ("whole", DIGEST, "ok")


def test_an_item_that_did_not_decode_is_one_whole_unit_with_its_code(store):
    (row,) = units(track(store, status="unreadable", error_code=3001, error="why"), store)
    assert [row[name] for name in ("kind", "status", "error_code", "error")] == ["whole", "unreadable", 3001, "why"]


def test_sound_that_does_not_decode_leaves_a_whole_unit_with_a_code(store):
    bad = store.put(b"fLaC" + bytes(3000))
    (row,) = units(track(store, audio_digest=bad, duration_s=60.0), store)
    assert (row["kind"], row["digest"], row["status"], row["error_code"]) == ("whole", DIGEST, "unreadable", 3301)
    assert "cannot be cut" in row["error"]


def test_a_lost_sound_is_a_row_and_the_others_are_cut(store):
    good = track(store, bursts((0, 20), until_s=40))
    lost = track(store, audio_digest="c" * 64, duration_s=60.0, digest="d" * 64)
    rows = units(pa.concat_tables([good, lost]), store)
    assert {row["parent_digest"]: row["error_code"] for row in rows} == {DIGEST: None, "d" * 64: 2001}


def test_a_span_is_named_by_what_it_is(store):
    from hashlib import sha256

    row = units(track(store, bursts((0, 40), until_s=40)), store)[0]
    text = f'{{"axis":"us","end":{row["end"]},"kind":"segment","parent":"{DIGEST}","producer":"borders@4","start":0}}'
    assert row["digest"] == sha256(text.encode()).hexdigest()


def test_texts_are_whole_and_have_no_axis(store):
    (row,) = units(track(store, modality="text"), store, splitter=None)
    assert (row["kind"], row["axis"], row["start"], row["end"]) == ("whole", None, None, None)


def film_tracks(store: BlobStore, path: Path) -> pa.Table:
    found = items(store, [path.read_bytes()], "video")
    return preprocess.tracks(found, "video", decoder=preprocess.VIDEO_DECODER, store=store)


def takes(*lengths_s: float, rate: int = 10) -> tuple[list[int], list[np.ndarray]]:
    """(times in ms, pictures) of shots of these lengths: a camera pans over a new picture in each."""
    pictures = []
    for number, length_s in enumerate(lengths_s):
        ground = photo(number, size=(640, 240))
        pictures += [ground[:, at % 300 : at % 300 + 160] for at in range(0, round(length_s * rate) * 3, 3)]
    return [1000 * at // rate for at in range(len(pictures))], pictures


def test_a_film_is_cut_at_its_shots_to_the_frame(tmp_path, store):
    times, pictures = takes(13, 6, 15, 4, 14)
    path = film(tmp_path / "a.mp4", times, pictures, options={"bf": "2"})
    rows = units(film_tracks(store, path), store, splitter=FILM_SPLITTER)
    assert {row["kind"] for row in rows} == {"clip"}
    assert set(borders_s(rows)) <= {13, 19, 34, 38}
    assert [(row["start_frame"], row["end_frame"]) for row in rows] == [
        (row["start"] / 1e5, row["end"] / 1e5) for row in rows
    ]


def test_one_long_shot_is_cut_at_frames(tmp_path, store):
    times, pictures = takes(45)
    rows = units(film_tracks(store, film(tmp_path / "a.mkv", times, pictures)), store, splitter=FILM_SPLITTER)
    assert [10 <= (row["end"] - row["start"]) / 1e6 <= 30 for row in rows] == [True] * len(rows)
    assert [row["start"] % 100_000 for row in rows] == [0] * len(rows)
    assert rows[-1]["end_frame"] == 450


def frozen(start_s: float, end_s: float, until_s: float) -> tuple[list[int], list[np.ndarray]]:
    """A pan that stands still for a while."""
    times, pictures = takes(until_s)
    for at in range(round(start_s * 10), round(end_s * 10)):
        pictures[at] = pictures[round(start_s * 10)]
    return times, pictures


@pytest.mark.parametrize(("still_s", "gaps"), [(4.8, []), (6.0, ["static"])])
def test_a_film_that_stands_still_and_silent_for_more_than_5_s_has_a_gap(tmp_path, store, still_s, gaps):
    times, pictures = frozen(15, 15 + still_s, 36)
    rows = units(film_tracks(store, film(tmp_path / "a.mp4", times, pictures)), store, splitter=FILM_SPLITTER)
    assert [row["gap"] for row in rows if row["gap"]] == gaps
    for row in rows:
        if row["gap"]:
            assert 15 <= row["start"] / 1e6 <= 15.5 and 20.5 <= row["end"] / 1e6 <= 21
            assert (row["start_frame"], row["end_frame"]) == (row["start"] / 1e5, row["end"] / 1e5)


@pytest.mark.parametrize(
    ("start_s", "still_s", "until_s", "kinds"),
    [
        (6, 4.8, 18, ["whole"]),
        (6, 6, 18, ["clip", "gap", "clip"]),
        (0, 7, 18, ["gap", "clip"]),
        (9, 6, 15, ["clip", "gap"]),
        (0.5, 9.5, 10, ["whole"]),  # what is left is too short to be kept
    ],
)
def test_a_short_film_is_cut_where_it_stands_still_and_nowhere_else(tmp_path, store, start_s, still_s, until_s, kinds):
    times, pictures = frozen(start_s, start_s + still_s, until_s)
    rows = units(film_tracks(store, film(tmp_path / "a.mp4", times, pictures)), store, splitter=FILM_SPLITTER)
    assert [row["kind"] for row in rows] == kinds
    assert rows[-1]["end"] - rows[0]["start"] == until_s * 1e6


def test_a_short_film_with_a_still_part_that_cannot_be_cut_is_whole(tmp_path, store):
    tracks = film_tracks(store, film(tmp_path / "a.mp4", *frozen(6, 12, 18)))
    at = tracks.column_names.index("num_frames")
    tracks = tracks.set_column(at, "num_frames", pa.array([7], pa.int32()))
    (row,) = units(tracks, store, splitter=FILM_SPLITTER)
    assert (row["kind"], row["status"]) == ("whole", "ok")


def test_a_still_picture_with_speech_is_no_gap(tmp_path, store):
    times, pictures = frozen(12, 24, 36)
    for spoken, gaps in (([(0, 36)], []), ([(0, 12), (24, 36)], ["static"])):
        sound = bursts(*spoken, until_s=36)
        path = film(tmp_path / "a.mp4", times, pictures, sound=sound)
        rows = units(film_tracks(store, path), store, splitter=FILM_SPLITTER)
        assert [row["gap"] for row in rows if row["gap"]] == gaps


def test_black_is_a_gap_and_moving_pictures_without_sound_are_none(tmp_path, store):
    times, pictures = takes(36)
    for at in range(150, 230):
        pictures[at] = np.zeros_like(pictures[at])
    path = film(tmp_path / "a.mp4", times, pictures, sound=np.zeros(36 * 16_000))
    rows = units(film_tracks(store, path), store, splitter=FILM_SPLITTER)
    assert [row["gap"] for row in rows] == [None, "static", None]


def test_a_film_of_one_still_picture_is_one_whole_unit(tmp_path, store):
    path = film(tmp_path / "a.mp4", [100 * at for at in range(400)], flashes(1) * 400)
    (row,) = units(film_tracks(store, path), store, splitter=FILM_SPLITTER)
    assert (row["kind"], row["start_frame"]) == ("whole", None)


def test_a_film_with_other_frames_than_its_track_is_a_row_with_a_code(tmp_path, store):
    tracks = film_tracks(store, film(tmp_path / "a.mp4", *takes(36)))
    at = tracks.column_names.index("num_frames")
    tracks = tracks.set_column(at, "num_frames", pa.array([7], pa.int32()))
    (row,) = units(tracks, store, splitter=FILM_SPLITTER)
    assert (row["kind"], row["status"], row["error_code"]) == ("whole", "unreadable", 3302)


def test_a_picture_that_begins_after_its_sound_is_tiled_with_all_of_its_frames(tmp_path, store):
    times, pictures = takes(20, 16)
    path = film(tmp_path / "a.mp4", [700 + time for time in times], pictures, sound=np.zeros(37 * 16_000))
    tracks = film_tracks(store, path)
    rows = units(tracks, store, splitter=FILM_SPLITTER)
    assert rows[0]["start_frame"] == 0 and rows[-1]["end_frame"] == 360
    starts_s = [shot["start_s"] for shot in tracks["shots"][0].as_py()]
    assert rows[0]["end_frame"] == 200 and rows[0]["end"] / 1e6 in starts_s


def test_worker_processes_cut_alike(tmp_path, store):
    tracks = film_tracks(store, film(tmp_path / "a.mp4", *takes(13, 6, 15)))
    with WorkerPool(workers=1, item_timeout_s=60.0, item_memory_bytes=2 << 30) as pool:
        assert units(tracks, store, splitter=FILM_SPLITTER, runner=pool) == units(tracks, store, splitter=FILM_SPLITTER)


def test_every_clip_has_a_keyframe(tmp_path, store):
    tracks = film_tracks(store, film(tmp_path / "a.mp4", *takes(47, 3, 3, 30)))
    found = preprocess.units(tracks, splitter=FILM_SPLITTER, store=store)
    for clip in preprocess.unit_tracks(tracks, found).to_pylist():
        assert clip["keyframes"]


def test_any_shots_and_signals_give_a_tiling(tmp_path, store):
    tracks = film_tracks(store, film(tmp_path / "a.mp4", *takes(36)))
    nan = float("nan")
    for name, values in (
        ("shots", [{"start_s": start, "end_s": 0.0, "transition": "cut"} for start in (nan, -1.0, 1e9, 5.0, 5.0, 3.0)]),
        ("signals", [{"time_s": 1.0, "luma": nan, "luma_std": nan, "sharpness": nan, "change": nan}] * 50),
        ("signals", []),
        ("shots", []),
    ):
        at = tracks.column_names.index(name)
        changed = tracks.set_column(at, name, pa.array([values], schemas.TRACKS.arrow.field(name).type))
        assert {row["kind"] for row in units(changed, store, splitter=FILM_SPLITTER)} == {"clip"}


@pytest.mark.parametrize(
    ("column", "value"),
    [("start", 5), ("end", 5), ("digest", "e" * 64), ("position", 7), ("gap", "boring"), ("axis", "char")],
)  # fmt: skip
def test_a_row_that_does_not_tile_is_refused(store, column, value):
    tracks = track(store, bursts((0, 40), until_s=70))
    found = preprocess.units(tracks, splitter=RECORDING_SPLITTER, store=store).to_pylist()
    found[1][column] = value
    with pytest.raises(ContractBroken):
        check_tiling("test", tracks, pa.Table.from_pylist(found, schemas.UNITS.arrow))


def test_a_lost_span_is_refused(store):
    tracks = track(store, bursts((0, 40), until_s=70))
    found = preprocess.units(tracks, splitter=RECORDING_SPLITTER, store=store)
    for lost in range(found.num_rows):
        rest = [row for at, row in enumerate(found.to_pylist()) if at != lost]
        with pytest.raises(ContractBroken):
            check_tiling("test", tracks, pa.Table.from_pylist(rest, schemas.UNITS.arrow))


def test_progress_counts_every_item(store):
    counted = []
    tracks = pa.concat_tables([track(store, bursts((0, 40), until_s=40)), track(store, digest="d" * 64)])
    preprocess.units(
        tracks,
        splitter=RECORDING_SPLITTER,
        store=store,
        runner=IN_PROCESS,
        advance=counted.append,
        settings=UnitSettings(),
    )
    assert sum(counted) == 2
