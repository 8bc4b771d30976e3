"""Tracks of spans: every column on the span's own clock, nothing of its neighbours, nothing of the item lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pytest
from preprocess_media import items, photo

from mmlake import preprocess, schemas
from mmlake.preprocess import FILM_SPLITTER, UNIT_TRACKS, unit_tracks
from mmlake.store import BlobStore

FILM, TALK = "a" * 64, "b" * 64


def frame(time_s: float, shot: int) -> dict[str, Any]:
    return {"time_s": time_s, "digest": f"{round(time_s * 1000):064d}", "shot": shot}


def cue(text: str, start_s: float, end_s: float, score: float | None = None) -> dict[str, Any]:
    return {"text": text, "start_s": start_s, "end_s": end_s, "score": score}


def shot(start_s: float, end_s: float, transition: str = "cut") -> dict[str, Any]:
    return {"start_s": start_s, "end_s": end_s, "transition": transition}


def tracks(**columns: Any) -> pa.Table:
    """The track of a film of 60 s in three shots, at 10 frames and 4 analysed frames per second."""
    row = {
        "digest": FILM,
        "modality": "video",
        "role": "media",
        "status": "ok",
        "size_bytes": 6000,
        "duration_s": 60.0,
        "num_frames": 600,
        "frame_rate": 10.0,
        "audio_digest": "c" * 64,
        "shots": [shot(0, 15, "start"), shot(15, 35), shot(35, 60, "dissolve")],
        "keyframes": [frame(1, 0), frame(15, 1), frame(20, 1), frame(30, 1), frame(35, 2), frame(50, 2)],
        "signals": [
            {"time_s": at / 4, "luma": at, "luma_std": 1.0, "sharpness": 1.0, "change": 1 + at % 7} for at in range(240)
        ],
        "cues": [cue("Foxes", 1, 3, 0.5), cue("eat", 18, 21), cue("mice.", 21, 23), cue("Not always.", 50, 52)],
        "transcript": "Foxes eat mice. Not always.",
        "transcript_source": "source",
    }
    return schemas.from_rows(schemas.TRACKS, [row | columns])


def units(*borders_s: float, gaps: tuple[int, ...] = (), parent: str = FILM, has_frames: bool = True) -> pa.Table:
    """Spans between these borders, at 10 frames per second; those of these positions are gaps."""
    base = {"parent_digest": parent, "axis": "us", "producer": "test@1", "role": "media", "status": "ok"}
    rows = []
    for at, (start_s, end_s) in enumerate(zip(borders_s, borders_s[1:], strict=False)):
        row = base | {"digest": f"{parent[0]}/{at}", "position": at, "kind": "gap" if at in gaps else "clip"}
        row |= {"gap": "static" if at in gaps else None, "start": round(start_s * 1e6), "end": round(end_s * 1e6)}
        if has_frames:
            row |= {"start_frame": round(start_s * 10), "end_frame": round(end_s * 10)}
        rows.append(row)
    return schemas.from_rows(schemas.UNITS, rows)


def whole(digest: str, **columns: Any) -> pa.Table:
    row = {"digest": digest, "parent_digest": digest, "position": 0, "kind": "whole", "producer": "whole"}
    return schemas.from_rows(schemas.UNITS, [row | {"role": "media", "status": "ok"} | columns])


def rows_of(*borders_s: float, gaps: tuple[int, ...] = (), **columns: Any) -> list[dict[str, Any]]:
    """The tracks of the film's spans."""
    return unit_tracks(tracks(**columns), units(*borders_s, gaps=gaps)).to_pylist()


def test_a_span_has_the_place_length_and_frames_of_its_unit():
    first, second = rows_of(0, 20, 60)
    assert [first[name] for name in ("span_start_s", "span_end_s", "duration_s")] == [0, 20, 20]
    assert [second[name] for name in ("span_start_s", "span_end_s", "duration_s")] == [20, 60, 40]
    assert [(row["start_frame"], row["end_frame"], row["num_frames"]) for row in (first, second)] == [
        (0, 200, 200),
        (200, 600, 400),
    ]


def test_a_span_is_named_by_its_unit_and_knows_whose_bytes_it_has():
    for row in rows_of(0, 20, 60):
        assert (row["parent_digest"], row["kind"], row["audio_digest"]) == (FILM, "clip", "c" * 64)
        assert row["digest"] != FILM
        assert [row[name] for name in ("modality", "frame_rate", "transcript_source")] == ["video", 10.0, "source"]


@pytest.mark.parametrize(("borders_s", "gaps", "sizes"), [
    ((0, 20, 60), (), [2000, 4000]),
    ((0, 20, 30, 60), (1,), [2000, 3000]),
    ((0, 1 / 3, 60), (), [33, 5967]),
])  # fmt: skip
def test_a_span_has_its_share_of_the_items_bytes(borders_s, gaps, sizes):
    assert [row["size_bytes"] for row in rows_of(*borders_s, gaps=gaps)] == sizes


def test_a_gap_has_no_row():
    rows = rows_of(0, 10, 40, 60, gaps=(0, 1))
    assert [(row["digest"], row["span_start_s"]) for row in rows] == [("a/2", 40)]


def test_shots_are_cut_at_the_borders_and_begin_anew():
    first, second = rows_of(0, 20, 60)
    assert first["shots"] == [shot(0, 15, "start"), shot(15, 20)]
    assert second["shots"] == [shot(0, 15, "start"), shot(15, 40, "dissolve")]


def test_a_border_at_a_shot_boundary_leaves_each_side_its_own_shots():
    first, second, third = rows_of(0, 15, 35, 60)
    assert [row["shots"] for row in (first, second, third)] == [
        [shot(0, 15, "start")],
        [shot(0, 20, "start")],
        [shot(0, 25, "start")],
    ]


def test_keyframes_count_from_the_span_and_name_its_own_shots():
    first, second = rows_of(0, 20, 60)
    assert [(one["time_s"], one["shot"]) for one in first["keyframes"]] == [(1, 0), (15, 1)]
    assert [(one["time_s"], one["shot"]) for one in second["keyframes"]] == [(0, 0), (10, 0), (15, 1), (30, 1)]
    assert second["keyframes"][0]["digest"] == frame(20, 1)["digest"]


def test_every_keyframe_is_in_one_span_wherever_the_borders_are():
    rng = np.random.default_rng(3)
    for _ in range(20):
        rows = rows_of(0, *sorted(rng.uniform(1, 59, 4).round(1)), 60)
        found = [one["digest"] for row in rows for one in row["keyframes"]]
        assert found == [frame(at, 0)["digest"] for at in (1, 15, 20, 30, 35, 50)]
        for row in rows:
            assert all(one["shot"] < len(row["shots"]) for one in row["keyframes"])
            assert all(
                row["shots"][one["shot"]]["start_s"] <= one["time_s"] < row["shots"][one["shot"]]["end_s"]
                for one in row["keyframes"]
            )


@pytest.mark.parametrize("third", [19, 20, 21])
def test_the_frame_at_a_border_is_the_spans_at_24_frames_per_second(third):
    """16 of 24 frames are shown between two whole microseconds: the first keyframe of a shot was in the span before it,
    which had a shot of a fraction of a microsecond."""
    border_s = 20 + third / 24
    made = {"shots": [shot(0, border_s, "start"), shot(border_s, 60)], "keyframes": [frame(0, 0), frame(border_s, 1)]}
    for row in rows_of(0, border_s, 60, **made):
        assert [(one["time_s"], one["shot"]) for one in row["keyframes"]] == [(pytest.approx(0, abs=1e-6), 0)]
        assert len(row["shots"]) == 1
        assert row["keyframes"][0]["time_s"] >= 0


def film_24(path: Path, *counts: int) -> bytes:
    """A film of shots of so many frames, 24 of them a second."""
    with av.open(str(path), "w") as sink:
        stream = sink.add_stream("libx264", rate=24)
        stream.width, stream.height, stream.pix_fmt = 96, 72, "yuv420p"
        for number, at in ((number, at) for number, count in enumerate(counts) for at in range(count)):
            pan = photo(number, size=(640, 72))[:, at : at + 96]
            sink.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(pan), format="rgb24")))
        sink.mux(stream.encode())
    return path.read_bytes()


def test_every_clip_of_a_film_of_24_frames_begins_with_its_own_shot(tmp_path):
    store = BlobStore(tmp_path / "blobs")
    found = items(store, [film_24(tmp_path / "a.mp4", 314, 290, 212)], "video")
    decoded = preprocess.tracks(found, "video", decoder=preprocess.VIDEO_DECODER, store=store)
    cut = preprocess.units(decoded, splitter=FILM_SPLITTER, store=store)
    clips = unit_tracks(decoded, cut).to_pylist()
    assert len(clips) > 1
    for clip in clips:
        assert clip["keyframes"][0]["time_s"] < 0.1
        assert all(one["end_s"] - one["start_s"] > 0.01 for one in clip["shots"])
    assert sum(len(clip["keyframes"]) for clip in clips) == len(decoded["keyframes"][0].as_py())


def test_signals_are_those_of_the_span_and_the_first_has_no_frame_before():
    first, second = rows_of(0, 20, 60)
    assert [len(row["signals"]) for row in (first, second)] == [80, 160]
    assert [one["time_s"] for one in second["signals"][:3]] == [0, 0.25, 0.5]
    assert [one["luma"] for one in second["signals"][:3]] == [80, 81, 82]
    assert [one["change"] for one in second["signals"][:3]] == [0, 1 + 81 % 7, 1 + 82 % 7]


def test_a_cue_is_in_the_span_that_holds_its_middle_and_ends_with_it():
    first, second = rows_of(0, 20, 60)
    assert [one["text"] for one in first["cues"]] == ["Foxes", "eat"]
    assert [(one["start_s"], one["end_s"], one["score"]) for one in first["cues"]] == [(1, 3, 0.5), (18, 20, None)]
    assert [(one["start_s"], one["end_s"]) for one in second["cues"]] == [(1, 3), (30, 32)]


def test_the_transcript_of_a_span_is_what_its_cues_say():
    assert [row["transcript"] for row in rows_of(0, 20, 40, 60)] == ["Foxes eat", "mice.", "Not always."]
    assert [row["transcript"] for row in rows_of(0, 30, 45, 60)][1] is None


def test_words_without_times_are_of_no_span():
    assert {row["transcript"] for row in rows_of(0, 20, 60, cues=[])} == {None}


def test_what_is_cut_from_a_gap_is_said_nowhere():
    assert [row["transcript"] for row in rows_of(0, 10, 30, 60, gaps=(1,))] == ["Foxes", "Not always."]


def test_whole_units_have_the_rows_of_their_tracks():
    given = pa.concat_tables([tracks(), tracks(digest=TALK, modality="audio", duration_s=None, num_frames=None)])
    found = unit_tracks(given, pa.concat_tables([whole(FILM, axis="us", start=0, end=60_000_000), whole(TALK)]))
    assert found.select(schemas.TRACKS.arrow.names).to_pylist() == given.to_pylist()
    for row in found.to_pylist():
        assert (row["parent_digest"], row["kind"]) == (row["digest"], "whole")
        assert {row[name] for name in ("span_start_s", "span_end_s", "start_frame", "end_frame")} == {None}


def test_a_whole_unit_that_could_not_be_cut_says_why():
    failed = whole(FILM, status="unreadable", error_code=3302, error="num_frames=7, expected 600")
    (row,) = unit_tracks(tracks(), failed).to_pylist()
    assert [row[name] for name in ("digest", "status", "error_code")] == [FILM, "unreadable", 3302]
    assert (row["duration_s"], row["span_start_s"]) == (60, None)


def test_rows_come_in_the_order_of_the_units_whatever_the_order_of_the_tracks():
    talk = tracks(digest=TALK, modality="audio", num_frames=None, shots=[], keyframes=[], signals=[])
    spans = pa.concat_tables([units(0, 20, 60, parent=TALK, has_frames=False), whole("d" * 64), units(0, 15, 60)])
    for order in ([0, 1, 2], [2, 1, 0]):
        given = pa.concat_tables([tracks(), talk, tracks(digest="d" * 64, size_bytes=1)]).take(order)
        rows = unit_tracks(given, spans).to_pylist()
        assert [row["digest"] for row in rows] == ["b/0", "b/1", "d" * 64, "a/0", "a/1"]
        assert [row["duration_s"] for row in rows] == [20, 40, 60, 15, 45]
        assert [row["num_frames"] for row in rows] == [None, None, 600, 150, 450]
        assert [len(row["keyframes"]) for row in rows] == [0, 0, 6, 1, 5]


def test_the_schema_is_the_same_with_and_without_spans():
    for cut in (units(0, 20, 60), whole(FILM), units(0, 60, gaps=(0,))):
        assert unit_tracks(tracks(), cut).schema.equals(UNIT_TRACKS)
    assert unit_tracks(schemas.empty(schemas.TRACKS), schemas.empty(schemas.UNITS)).schema.equals(UNIT_TRACKS)


def test_many_spans_do_not_copy_their_item() -> None:
    """Memory follows the length of a film, not its length times its clips."""
    # in a process of its own: the peak of Arrow's memory is that of all that a process has done
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([sys.executable, "-c", _MANY_SPANS], env=env, stdout=subprocess.PIPE, text=True, check=True)
    rows, film_bytes, peak_bytes = map(int, said.stdout.split())
    assert rows == 200
    assert peak_bytes < 20 * film_bytes


_MANY_SPANS = """
import pyarrow as pa
from mmlake.preprocess.tiling.unit_tracks import unit_tracks
from tests.preprocess.test_unit_tracks import tracks, units
signal = {"luma": 1.0, "luma_std": 1.0, "sharpness": 1.0, "change": 1.0}
film = tracks(duration_s=2000.0, signals=[signal | {"time_s": at / 8} for at in range(16_000)])
rows = unit_tracks(film, units(*map(float, range(0, 2001, 10))))
print(rows.num_rows, film.nbytes, pa.default_memory_pool().max_memory())
"""


def test_speech_is_cut_at_the_borders_and_counts_from_the_span():
    speech = [{"start_s": start, "end_s": end} for start, end in ((1, 4), (18, 23), (50, 59))]
    first, second, third = rows_of(0, 20, 30, 60, speech=speech)
    assert [[(one["start_s"], one["end_s"]) for one in row["speech"]] for row in (first, second, third)] == [
        [(1, 4), (18, 20)],
        [(0, 3)],
        [(20, 29)],
    ]


def test_where_no_voice_detector_ran_spans_do_not_say_that_nobody_speaks():
    assert [row["speech"] for row in rows_of(0, 20, 60)] == [None, None]
    assert [row["speech"] for row in rows_of(0, 20, 60, speech=[])] == [[], []]
