"""Pictures and sound that begin or end at other times: all of a film is in a clip or in a named gap."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import pytest
from preprocess_media import items

from mmlake.cuts.settings import CutSettings
from mmlake.cuts.video import Span, cut_film
from mmlake.media.decoders import open_media
from mmlake.modalities import MODALITIES
from mmlake.preprocess import tracks
from mmlake.preprocess.tiling.check import check_tiling
from mmlake.preprocess.tiling.unit_tracks import unit_tracks
from mmlake.preprocess.tiling.units import FILM_SPLITTER, units
from mmlake.store import BlobStore

FORMATS = (".mp4", ".mkv", ".ts")
TS_LEAD_S = 0.05  # of MPEG-TS: the padding of its sound comes before its picture


def film(
    folder: Path, *, pictures: tuple[float, float], sound: tuple[float, float], suffix: str, words: Any = ()
) -> bytes:
    """A film whose tracks begin and end at those seconds, of 10 frames a second."""
    out = folder / f"film{suffix}"
    graphs = [
        (pictures, "testsrc2=size=96x64:rate=10:duration={}"),
        (sound, "sine=frequency=440:sample_rate=48000:duration={}"),
    ]
    command: list[Any] = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", "-nostdin"]
    for (start_s, end_s), graph in graphs:
        command += ["-itsoffset", start_s, "-f", "lavfi", "-i", graph.format(end_s - start_s)]
    command += ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-bf", 0, "-c:a", "aac", *words, out]
    subprocess.run([str(word) for word in command], check=True, stdin=subprocess.DEVNULL)
    return out.read_bytes()


def cut(tmp_path: Path, data: bytes) -> tuple[dict[str, Any], list[tuple[str, float, float, Any]], Any]:
    """(track, (kind or gap, start, end, frames) of its units and gaps, tracks of its units)."""
    store = BlobStore(tmp_path / "blobs")
    found = tracks(items(store, [data], "video"), "video", decoder=MODALITIES["video"].decoder, store=store)
    made = units(found, splitter=FILM_SPLITTER, store=store)
    check_tiling("units", found, made)
    rows = [
        (row["gap"] or row["kind"], row["start"] / 1e6, row["end"] / 1e6, (row["start_frame"], row["end_frame"]))
        for row in made.to_pylist()
    ]
    return found.to_pylist()[0], rows, unit_tracks(found, made).to_pylist()


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize(
    ("pictures", "sound", "length_s"),
    [
        ((1.2, 8.0), (0.0, 8.0), 8.0),
        ((0.0, 8.0), (1.2, 7.0), 8.0),
        ((0.0, 8.0), (0.0, 9.0), 9.0),
        ((0.0, 8.0), (0.0, 0.5), 8.0),
        ((1.2, 6.0), (0.0, 3.0), 6.0),
    ],
    ids=["picture late", "sound late", "sound ends last", "sound ends first", "picture late and last"],
)
def test_a_film_lasts_from_its_beginning_to_its_last_picture_or_sample(tmp_path, suffix, pictures, sound, length_s):
    """The length was that of the pictures alone, while times are from the beginning: what came last was nowhere."""
    track, rows, _ = cut(tmp_path, film(tmp_path, pictures=pictures, sound=sound, suffix=suffix))
    assert track["duration_s"] == pytest.approx(length_s, abs=0.1)
    assert [row[0] for row in rows] == ["whole"]
    assert track["frame_times_s"][0] == pytest.approx(pictures[0], abs=TS_LEAD_S)
    assert track["frame_times_s"][-1] == pytest.approx(pictures[1] - 0.1, abs=TS_LEAD_S)


@pytest.mark.parametrize("suffix", [".mkv", ".ts"])
def test_a_film_that_begins_at_any_time_lasts_as_long(tmp_path, suffix):
    data = film(
        tmp_path, pictures=(1.2, 8.0), sound=(0.0, 8.0), suffix=suffix, words=("-output_ts_offset", 5000)
    )  # fmt: skip
    assert cut(tmp_path, data)[0]["duration_s"] == pytest.approx(8.0, abs=0.1)


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_last_pictures_and_sounds_of_a_long_film_are_in_its_last_clip(tmp_path, suffix):
    track, rows, _ = cut(tmp_path, film(tmp_path, pictures=(1.2, 44.0), sound=(0.0, 45.0), suffix=suffix))
    assert [row[0] for row in rows] == ["clip", "clip"]
    assert rows[-1][2] == pytest.approx(45.0, abs=0.1)
    assert [(first, last) for *_, (first, last) in rows] == [(0, rows[0][3][1]), (rows[0][3][1], 428)]
    (_, start_s, end_s, (first, last)) = rows[-1]
    span = Span(
        digest="d",
        parent_digest="p",
        start_us=round(start_s * 1e6),
        end_us=round(end_s * 1e6),
        start_frame=first,
        end_frame=last,
    )
    clip = cut_film(tmp_path / f"film{suffix}", tmp_path / "clip.mp4", span, settings=CutSettings())
    assert (clip.num_frames, clip.is_exact) == (last - first, True)
    with open_media(tmp_path / "clip.mp4") as container:
        num_samples = sum(frame.samples for frame in container.decode(audio=0))
    assert num_samples / 48_000 == pytest.approx(end_s - start_s, abs=0.1), "the sound behind the last picture as well"
    assert track["shots"][-1]["end_s"] == pytest.approx(44.0, abs=TS_LEAD_S)


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize(
    ("pictures", "sound", "expected"),
    [
        ((24.0, 34.0), (0.0, 34.0), [("no_picture", 0, 24, 0), ("clip", 24, 34, 100)]),
        ((0.0, 14.0), (0.0, 34.0), [("clip", 0, 14, 140), ("no_picture", 14, 34, 0)]),
        ((12.0, 24.0), (0.0, 34.0), [("no_picture", 0, 12, 0), ("clip", 12, 24, 120), ("no_picture", 24, 34, 0)]),
        ((3.0, 9.0), (0.0, 15.0), [("whole", 0, 15, None)]),
    ],
    ids=["before", "behind", "both", "short enough to stay whole"],
)
def test_seconds_without_a_picture_at_either_end_are_a_gap(tmp_path, suffix, pictures, sound, expected):
    _, rows, _ = cut(tmp_path, film(tmp_path, pictures=pictures, sound=sound, suffix=suffix))
    found = [
        (kind, start_s, end_s, None if first is None else last - first) for kind, start_s, end_s, (first, last) in rows
    ]
    assert [(kind, frames) for kind, _, _, frames in found] == [(kind, frames) for kind, _, _, frames in expected]
    for (_, start_s, end_s, _), (_, from_s, to_s, _) in zip(found, expected, strict=True):
        assert (start_s, end_s) == (pytest.approx(from_s, abs=0.1), pytest.approx(to_s, abs=0.1))


def test_the_clip_in_front_of_sound_alone_is_damaged(tmp_path):
    """The damage stands where the last picture is shown: at its end it would be of the gap, and of no unit."""
    _, _, of_units = cut(tmp_path, film(tmp_path, pictures=(0.0, 14.0), sound=(0.0, 34.0), suffix=".mkv"))
    (clip,) = of_units
    assert [damage["what"] for damage in clip["damages"]] == ["sound goes on for 20.0 s behind the last picture"]


def test_a_picture_with_a_minute_of_sound_is_one_unit_of_a_minute(tmp_path):
    track, rows, _ = cut(tmp_path, film(tmp_path, pictures=(0.0, 0.1), sound=(0.0, 60.0), suffix=".mkv"))
    assert (track["num_frames"], [row[0] for row in rows]) == (1, ["whole"])
    assert rows[0][2] == pytest.approx(60.0, abs=0.1)


def test_what_an_edit_list_hides_is_of_no_length(tmp_path):
    film(tmp_path, pictures=(0.0, 8.0), sound=(0.0, 9.0), suffix=".mp4", words=("-g", 50))
    out = tmp_path / "cut.mp4"
    command = [
        imageio_ffmpeg.get_ffmpeg_exe(),
        "-v",
        "error",
        "-ss",
        "3.3",
        "-i",
        tmp_path / "film.mp4",
        "-c",
        "copy",
        out,
    ]
    subprocess.run([str(word) for word in command], check=True, stdin=subprocess.DEVNULL)
    track, rows, _ = cut(tmp_path, out.read_bytes())
    assert (track["num_frames"], [row[0] for row in rows]) == (47, ["whole"])
    assert track["duration_s"] == pytest.approx(5.7, abs=0.1)
