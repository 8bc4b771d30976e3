"""AVI has no times of presentation: pictures that are stored out of order are shown in order all the same."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from preprocess_media import items

from mmlake.media.decoders import frames, open_media, picture_stream
from mmlake.modalities import MODALITIES
from mmlake.preprocess import PreprocessSettings, tracks
from mmlake.preprocess.containers.frame_times import frame_times
from mmlake.store import BlobStore

NUM, CUT = 40, 21  # frames; the first one of another scene
RATE = 25


def film(path: Path, *, num_b_frames: int) -> Path:
    """Two scenes, each of which grows brighter from frame to frame."""
    import av

    rng = np.random.default_rng(5)
    scenes = rng.integers(0, 120, (2, 12, 16, 3), dtype=np.uint8).repeat(8, axis=1).repeat(8, axis=2)
    with av.open(str(path), "w") as sink:
        stream = sink.add_stream("libx264", rate=RATE, options={"preset": "ultrafast", "bf": str(num_b_frames)})
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
        stream.codec_context.max_b_frames = num_b_frames
        for at in range(NUM):
            frame = av.VideoFrame.from_ndarray(scenes[int(at >= CUT)] + np.uint8(3 * at), format="rgb24")
            frame.pts, frame.time_base = at, Fraction(1, RATE)
            sink.mux(stream.encode(frame))
        sink.mux(stream.encode(None))
    return path


def row_of(path: Path, folder: Path, **settings: Any) -> dict[str, Any]:
    store = BlobStore(folder / "blobs")
    table = items(store, [path.read_bytes()], "video")
    given = PreprocessSettings(**settings)
    return tracks(table, "video", decoder=MODALITIES["video"].decoder, store=store, settings=given).to_pylist()[0]


def test_ffmpeg_makes_up_times_that_go_backwards(tmp_path: Path) -> None:
    """What is corrected happens at all."""
    with open_media(film(tmp_path / "film.avi", num_b_frames=2)) as container:
        stamps = [frame.pts for frame in container.decode(video=0)]
    assert stamps != sorted(stamps)


@pytest.mark.parametrize("num_b_frames", [0, 2])
def test_pictures_that_are_stored_out_of_order_have_the_times_of_their_order(tmp_path: Path, num_b_frames: int) -> None:
    row = row_of(film(tmp_path / "film.avi", num_b_frames=num_b_frames), tmp_path)
    times_s = np.array(row["frame_times_s"])
    assert np.diff(times_s) == pytest.approx(np.full(NUM - 1, 1 / RATE), abs=1e-6)
    assert [shot["start_s"] for shot in row["shots"]] == pytest.approx([times_s[0], times_s[CUT]])
    assert sum(signal["num_missing"] for signal in row["signals"]) == 0


def test_borders_of_clips_fall_on_these_times(tmp_path: Path) -> None:
    path = film(tmp_path / "film.avi", num_b_frames=2)
    row = row_of(path, tmp_path)
    starts_s = [shot["start_s"] for shot in row["shots"]]
    times_us = frame_times(path, num_frames=NUM, num_errors=0, shot_starts_s=starts_s)
    assert times_us / 1e6 == pytest.approx(row["frame_times_s"], abs=1e-6)


def test_a_film_whose_packets_have_no_times_is_decoded_whole(tmp_path: Path) -> None:
    row = row_of(film(tmp_path / "film.avi", num_b_frames=2), tmp_path, decode="keyframes")
    assert (row["decoded"], row["num_frames"]) == ("all", NUM)


def test_other_containers_keep_their_times(tmp_path: Path) -> None:
    with open_media(film(tmp_path / "film.mkv", num_b_frames=2)) as container:
        shown = [frame.time for frame in frames(container, picture_stream(container))]
    assert shown == pytest.approx(np.arange(NUM) / RATE, abs=1e-3)
