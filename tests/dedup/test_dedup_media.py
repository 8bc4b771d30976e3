"""Near duplicates of clips, on generated material with labelled distortions."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake.dedup import DedupSettings
from mmlake.dedup.matching import NONE, SAME
from mmlake.dedup.prints import Ragged
from mmlake.dedup.video import fingerprints, hashes
from mmlake.dedup.video import matcher as video_matcher
from mmlake.errors import UnreadableItem
from tests.dedup.test_dedup_image import scene

SETTINGS = DedupSettings()


def clip(path, *, seed, path_seed, num_frames=40, size=96, rate=20, quality=3, skip=0):
    """A bright square that wanders over a fixed background."""
    import av

    rng = np.random.default_rng(path_seed)
    corners = rng.uniform(5, 65, (6, 2))
    background = np.asarray(scene(seed, 96)) // 2
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=rate)
        stream.width = stream.height = size
        stream.bit_rate = 400_000 // quality
        for at in range(skip, num_frames):
            x, y = (int(np.interp(at / num_frames * 5, range(6), corners[:, axis])) for axis in (0, 1))
            picture = background.copy()
            picture[y : y + 24, x : x + 24] = 250
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(size, size)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def matcher(prints):
    table = {method: Ragged.of([one.get(method, []) for one in prints]) for method in video_matcher.METHODS}
    return video_matcher.FilmMatcher(table, SETTINGS)


def watched(paths):
    films = matcher([fingerprints.fingerprint(path, settings=SETTINGS) for path in paths])
    return {(i, j) for j in range(len(paths)) for i in range(j) if films.compare(i, np.array([j])).relation[0] == SAME}


def test_reencoded_scaled_and_trimmed_clips_are_found_and_other_movements_before_the_same_wall_are_not(tmp_path):
    paths = [
        clip(tmp_path / "a.mp4", seed=1, path_seed=1), clip(tmp_path / "b.mp4", seed=1, path_seed=1, quality=8),
        clip(tmp_path / "c.mkv", seed=1, path_seed=1, size=64),
        clip(tmp_path / "d.mp4", seed=1, path_seed=1, skip=6), clip(tmp_path / "e.mp4", seed=1, path_seed=9),
        clip(tmp_path / "f.mp4", seed=5, path_seed=1),
    ]  # fmt: skip
    assert watched(paths) == {(i, j) for j in range(4) for i in range(j)}


def test_black_clips_never_pair():
    planes = np.zeros((20, 64, 64), np.uint8)
    dark = {"frame-phash": np.zeros(20, np.uint64), "frame-windows": np.zeros(160, np.uint64)}
    dark |= {"frame-luma": np.zeros(160, np.uint64), "frame-keys": hashes.hashed(planes).keys}
    assert len(dark["frame-keys"]) == 0
    assert matcher([dark, dark, {}]).compare(0, np.array([1, 2])).relation.tolist() == [NONE, NONE]


def test_a_file_that_names_other_files_is_not_followed(tmp_path):
    clip(tmp_path / "real.mp4", seed=1, path_seed=1, num_frames=5)
    (tmp_path / "list.mp4").write_text("ffconcat version 1.0\nfile real.mp4\n")
    with pytest.raises(UnreadableItem, match="no demuxer among the allowed formats"):
        fingerprints.fingerprint(tmp_path / "list.mp4", settings=SETTINGS)
