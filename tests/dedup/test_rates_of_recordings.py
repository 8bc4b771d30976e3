"""One recording at many rates of one codec: the one that was coded with most bits stays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import soundfile

from mmlake.dedup.audio import fingerprints
from mmlake.dedup.stars.standings import standing_of
from mmlake.quality.audio_fidelity import FIDELITY_MEASURES, coded_kbps

RATE_HZ = 44_100
NUMBERS = {"is_lossless": 0.0, "num_true_channels": 1.0, "bandwidth_hz": 16_000.0, "duration_s": 20.0, "sound_s": 20.0}


def recording(path, level: float):
    """An MP3 of two seconds, of the rate that the level of compression gives."""
    sound = np.random.default_rng(0).normal(0, 0.1, 2 * RATE_HZ)
    soundfile.write(path, sound, RATE_HZ, format="MP3", bitrate_mode="CONSTANT", compression_level=level)
    return path


def test_the_rate_of_a_file_is_that_of_its_sound_and_lossless_ones_have_none(tmp_path):
    rates = [coded_kbps(recording(tmp_path / f"{level}.mp3", level)) for level in (0.0, 0.5, 0.9)]
    assert rates == sorted(rates, reverse=True)
    assert 300 < rates[0] < 340
    for kind in ("wav", "flac"):
        soundfile.write(tmp_path / f"a.{kind}", np.zeros(RATE_HZ), RATE_HZ)
        assert coded_kbps(tmp_path / f"a.{kind}") is None


def test_a_chain_of_files_has_the_rate_of_all_of_its_sound(tmp_path):
    sink, sound = [], np.random.default_rng(0).normal(0, 0.1, (2 * RATE_HZ, 2))
    for channels in (1, 2):
        soundfile.write(path := tmp_path / f"{channels}.ogg", sound[:, :channels], RATE_HZ)
        sink.append(path.read_bytes())
    (tmp_path / "chained.ogg").write_bytes(b"".join(sink))
    of_both = [coded_kbps(tmp_path / f"{channels}.ogg") for channels in (1, 2)]
    assert coded_kbps(tmp_path / "chained.ogg") == pytest.approx(np.mean(of_both), rel=0.05)


@pytest.mark.parametrize(
    ("kbps", "bandwidth_hz", "stays"),
    [
        ((64, 128, 320, 192), (16_000,) * 4, 2),
        ((64, 128, 256), (16_000,) * 3, 2),
        ((320, 128), (16_000, 16_000), 0),
        ((320, 128), (11_000, 16_000), 1),  # coded anew, from a lower one
    ],
)
def test_the_highest_rate_stays_though_the_middle_one_is_closest_to_the_rest(kbps, bandwidth_hz, stays):
    num = len(kbps)
    rows = [
        dict.fromkeys(FIDELITY_MEASURES) | NUMBERS | {"coded_kbps": rate, "bandwidth_hz": band}
        for rate, band in zip(kbps, bandwidth_hz, strict=True)
    ]
    columns = {
        one.name: pa.array([row.get(one.column) for row in rows], pa.float64())
        for one in fingerprints.FIDELITY
        if one.is_of_column
    }
    nodes = {"digest": [str(at) for at in range(num)], "priority": [0] * num, "is_clean": [True] * num}
    standing = standing_of(pa.table(nodes | columns), fingerprints.FIDELITY)
    middle = sorted(range(num), key=lambda at: kbps[at])[num // 2 - 1]
    assert standing.elect(np.arange(num), lambda ones, others: np.where(ones == middle, 1.0, 0.9)) == stays
