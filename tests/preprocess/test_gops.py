"""Films read by their keyframes, and by whole groups of pictures where two keyframes differ."""

from __future__ import annotations

import numpy as np
import pytest
from films import film
from preprocess_media import photo

from mmlake.errors import SettingsError
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.video import video_track
from mmlake.preprocess.visual import gops
from mmlake.preprocess.visual.planes import small_planes

KEYS = PreprocessSettings(decode="keyframes")
GROUP = {"g": "25", "sc_threshold": "0", "keyint_min": "25"}


def shots(*lengths: int) -> list[np.ndarray]:
    """One picture after another, each with a little that moves."""
    pictures = []
    for seed, length in enumerate(lengths):
        ground = photo(seed + 1, size=(96, 64))
        for at in range(length):
            pictures.append(ground.copy())
            pictures[-1][20:24, at % 80 : at % 80 + 4] = 255
    return pictures


def test_cuts_are_exact_to_the_frame_and_quiet_groups_are_not_decoded(tmp_path, monkeypatch):
    """A cut amid a group, one at a keyframe, and seven groups in which nothing changes."""
    pictures = shots(60, 65, 150)
    path = film(tmp_path / "film.mp4", [40 * at for at in range(len(pictures))], pictures, options=GROUP)
    num_decoded, decoded = [0], gops.frames

    def counting(container, stream):
        for frame in decoded(container, stream):
            num_decoded[0] += 1
            yield frame

    monkeypatch.setattr(gops, "frames", counting)
    found = video_track(path, settings=KEYS)
    columns = found.columns
    assert [(shot["transition"], round(25 * shot["start_s"])) for shot in columns["shots"]] == [
        ("start", 0), ("cut", 60), ("cut", 125),
    ]  # fmt: skip
    assert columns["num_frames"] == 275 and columns["duration_s"] == pytest.approx(11.0)
    assert num_decoded[0] < 150
    # what only all frames show is null, and the row says why
    assert columns["decoded"] == "keyframes" and found.frames is None
    assert len(columns["signals"]) == 11 and all("num_frames" not in one for one in columns["signals"])
    assert {frame.shot for frame in found.keyframes} == {0, 1, 2}
    assert video_track(path, settings=PreprocessSettings()).columns["shots"] == columns["shots"]


def test_a_film_without_time_stamps_is_decoded_whole(tmp_path):
    pictures = shots(30, 30)
    path = film(tmp_path / "film.avi", [40 * at for at in range(60)], pictures, codec="mpeg4", options={"bf": "0"})
    columns = video_track(path, settings=KEYS).columns
    assert columns["num_frames"] == 60 and [shot["transition"] for shot in columns["shots"]] == ["start", "cut"]


def test_a_way_to_decode_that_nobody_knows_is_refused():
    with pytest.raises(SettingsError, match="preprocess.decode='fast' is neither"):
        PreprocessSettings(decode="fast")


@pytest.mark.parametrize("size", [(64, 48), (27, 48), (1, 1), (101, 77), (20, 31)])
def test_planes_shrink_by_area(size):
    """Each cell is the mean of what lies in it, lines and columns in part where they are cut."""
    import av

    yuv = np.random.default_rng(0).integers(0, 256, (3, *size), dtype=np.uint8)
    frame = av.VideoFrame.from_ndarray(yuv, format="yuv444p")
    frame.color_range = 2  # full
    luma, vector = small_planes(frame, 160)
    assert np.array_equal(luma, yuv[0])
    for plane, cells in zip(yuv, np.split(vector, [27 * 48, 27 * 48 + 9 * 16]), strict=True):
        rows, columns = (27, 48) if len(cells) > 9 * 16 else (9, 16)
        fine = np.repeat(np.repeat(plane.astype(np.float64), rows, axis=0), columns, axis=1)
        means = fine.reshape(rows, size[0], columns, size[1]).mean(axis=(1, 3))
        assert np.abs(cells - means.ravel()).max() <= 0.51
