"""Keyframes of long films: one at least every ten seconds, and no more memory than a few per ten seconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from preprocess_media import encoded

from mmlake.errors import ModelMissing, SettingsError
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.visual import keyframes
from mmlake.preprocess.visual.keyframes import Candidates, Keyframe

STILL = np.zeros(10, np.uint8)


@dataclass(frozen=True)
class Shown:
    """A frame whose JPEG is known."""

    data: bytes = b""
    num_bytes: int = 0

    def shrunk(self) -> Shown:
        return self

    def jpeg(self) -> bytes:
        return self.data


def chosen(
    length_s: float, *, cuts_s: tuple[float, ...] = (), rate: float = 4.0, every_s: float = 10.0
) -> tuple[list[Keyframe], int]:
    """(keyframes, most candidates held at once) of a film that changes at its cuts alone."""
    candidates = Candidates(PreprocessSettings(keyframe_every_s=every_s))
    rng, picture, most, cuts = np.random.default_rng(0), STILL, 0, list(cuts_s)
    for at in range(round(length_s * rate)):
        if cuts and at / rate >= cuts[0]:
            cuts.pop(0)
            picture = rng.integers(0, 256, 10, dtype=np.uint8)
        candidates.offer(at / rate, picture, Shown())
        most = max(most, len(candidates._kept))
    starts = [0.0, *cuts_s]
    return candidates.choose([*zip(starts, starts, [*cuts_s, length_s], strict=True)]), most


def longest_hole_s(keyframes: list[Keyframe], length_s: float) -> float:
    return float(np.diff([0.0, *(frame.time_s for frame in keyframes), length_s]).max())


@pytest.mark.parametrize(("length_s", "count"), [(10.0, 1), (10.5, 2), (60.0, 6)])
def test_a_still_shot_has_one_keyframe_for_each_ten_seconds(length_s, count):
    assert len(chosen(length_s)[0]) == count


def test_the_distance_is_a_setting():
    assert len(chosen(10.0, every_s=2.0)[0]) == 5


def test_a_film_of_eight_hours_has_no_hole_and_holds_a_bounded_number():
    keyframes, most = chosen(8 * 3600.0, rate=1.0)
    assert longest_hole_s(keyframes, 8 * 3600.0) <= 10
    assert len(keyframes) <= 2 * 2880 and most <= 512 + 4 * 2880 + 1


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(4, 8000), max_size=300, unique=True))
def test_no_cuts_leave_a_hole(cuts):
    cuts_s = tuple(cut / 4 for cut in sorted(cuts))
    keyframes, _ = chosen(2000.0, cuts_s=tuple(cut for cut in cuts_s if cut < 2000))
    assert longest_hole_s(keyframes, 2000.0) <= 10
    assert [frame.time_s for frame in keyframes] == sorted({frame.time_s for frame in keyframes})


def test_an_hour_of_fast_cutting_has_a_bounded_number_and_no_hole():
    cuts_s = tuple(np.arange(1, 1800).tolist())
    keyframes, _ = chosen(3600.0, cuts_s=cuts_s, rate=2.0)
    assert len(keyframes) <= 2 * 360 + 360
    assert longest_hole_s(keyframes, 3600.0) <= 10


@pytest.mark.parametrize("step", [0.5, 2.0, 5.0])
def test_no_frame_is_farther_from_the_keyframe_before_it_than_one_and_a_half_displacements(step):
    """Candidates are half a displacement apart or less, and one that is a whole one from the last kept is kept."""
    candidates, frames = Candidates(PreprocessSettings()), []
    for at in range(250):
        level = 128 + 100 * np.sin(step * at / 100)
        frames.append((at / 25, np.full(10, round(level), np.uint8)))
        candidates.offer(*frames[-1], Shown())
    kept = [frame.time_s for frame in candidates.choose([(0.0, 0.0, 10.0)])]
    levels = {time_s: int(vector[0]) for time_s, vector in frames}
    bound = 1.5 * PreprocessSettings().keyframe_displacement + step * 3  # and what moves within a tenth of a second
    assert max(abs(level - levels[max(one for one in kept if one <= at)]) for at, level in levels.items()) <= bound
    assert 3 <= len(kept) <= 60


def saved_dinov2(folder):
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32, "patch_size": 8}
    transformers.Dinov2Model(transformers.Dinov2Config(**shape)).save_pretrained(folder)


def test_dinov2_keeps_what_is_far_from_the_last_kept_and_nothing_between_equal_pictures(tmp_path):
    saved_dinov2(tmp_path)
    settings = PreprocessSettings(keyframe_feature="dinov2", keyframe_model=str(tmp_path), keyframe_distance=0.02)
    candidates = Candidates(settings)
    red, green = (encoded(np.full((48, 64, 3), colour, np.uint8)) for colour in ((220, 20, 20), (20, 220, 20)))
    for at in range(16):
        # the grey levels move from candidate to candidate; the pictures change once
        candidates.offer(at / 2, np.full(10, 8 * at, np.uint8), Shown(red if at < 10 else green))
    kept = candidates.choose([(0.0, 0.0, 8.0)])
    assert [(frame.time_s, frame.jpeg == red) for frame in kept] == [(0.0, True), (4.0, True), (5.0, False)]


@pytest.mark.parametrize(
    ("change", "error"), [({"keyframe_feature": "dinov2"}, ModelMissing), ({"keyframe_feature": "best"}, SettingsError)]
)
def test_a_feature_without_weights_or_of_no_row_is_refused(change, error):
    with pytest.raises(error, match="keyframe"):
        Candidates(PreprocessSettings(**change))


def test_frames_beyond_the_bound_are_held_shrunk_and_beyond_as_many_as_jpeg(monkeypatch):
    """What was never shrunk nor encoded cost nothing, and what is chosen is encoded once."""
    monkeypatch.setattr(keyframes, "_MAX_HELD_BYTES", 40)
    counts = {"shrunk": 0, "jpeg": 0}

    @dataclass(frozen=True)
    class Large:
        num_bytes: int = 10

        def shrunk(self):
            counts["shrunk"] += 1
            return Large(5)

        def jpeg(self):
            counts["jpeg"] += 1
            return b""

    candidates = Candidates(PreprocessSettings())
    for at in range(20):
        candidates.offer(at / 2, np.full(10, 10 * at, np.uint8), Large())
    assert counts == {"shrunk": 16, "jpeg": 8}
    assert len(candidates.choose([(0.0, 0.0, 10.0)])) <= counts["jpeg"]
