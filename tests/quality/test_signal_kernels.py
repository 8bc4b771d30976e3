"""The compiled modules of `scipy.signal` give what the package gives, and the package is not imported for it."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from mmlake.quality import signal_kernels
from mmlake.quality.loudness import Loudness, _filters
from mmlake.quality.signal_kernels import filtered, prominences


def gone(name: str) -> ModuleType:
    raise ImportError(name)


OTHERS = {
    "the package, where there are no such modules": gone,
    "the package, where they have other functions": lambda name: ModuleType(name),
    "the package, where these want other arguments": lambda name: SimpleNamespace(
        _sosfilt=lambda samples: None, _local_maxima_1d=lambda: None
    ),
}


@pytest.fixture(params=["compiled modules", *OTHERS])
def of(request, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the functions come from."""
    if request.param in OTHERS:
        monkeypatch.setattr(signal_kernels, "_compiled", OTHERS[request.param])
    return request.param


@pytest.mark.parametrize("num_channels", [1, 2, 6])
def test_blocks_are_filtered_as_the_package_does_it_bit_for_bit(of: str, num_channels: int) -> None:
    from scipy.signal import sosfilt

    rng, sections = np.random.default_rng(3), _filters(16_000)
    states = expected_states = np.zeros((2, 2, num_channels))
    for num_samples in (4_001, 1, 700):
        block = rng.standard_normal((num_samples, num_channels)).astype(np.float32)
        given = states.copy()
        found, after = filtered(sections, block, states)
        expected, expected_states = sosfilt(sections, block, axis=0, zi=expected_states)
        assert np.array_equal(found, expected) and np.array_equal(after, expected_states)
        assert np.array_equal(given, states), "states that were given are not changed"
        states = after


@pytest.mark.parametrize("values", [[], [1.0], [0, 1, 0], [0, 1, 1, 0, 3, 2, 5, 0], [2, 1, 2], [1, 1, 1, 1]])
def test_peaks_stand_out_as_the_package_says(of: str, values: list[float]) -> None:
    from scipy.signal import find_peaks, peak_prominences

    numbers = np.array(values, np.float64)
    assert prominences(numbers).tolist() == peak_prominences(numbers, find_peaks(numbers)[0])[0].tolist()


def test_peaks_of_noise_stand_out_as_the_package_says(of: str) -> None:
    from scipy.signal import find_peaks, peak_prominences

    numbers = np.random.default_rng(5).integers(0, 9, (700, 3))[:, 1].astype(np.float64)
    assert np.array_equal(prominences(numbers), peak_prominences(numbers, find_peaks(numbers)[0])[0])


_MEASURED = """
import sys
import numpy as np
from mmlake.quality.loudness import Loudness
from mmlake.quality.music import music_fraction
sound = np.random.default_rng(1).standard_normal(80_000).astype(np.float32)
loudness = Loudness()
loudness.add(sound[:, None], 16_000)
rest = [name for name in ("scipy.signal", "scipy.stats") if name in sys.modules]
print(loudness.found(), music_fraction(sound), rest)
import scipy.signal
print(scipy.signal.find_peaks([0, 1, 0])[0].tolist())
"""


def test_a_sound_is_measured_without_the_package_which_can_be_imported_later() -> None:
    done = subprocess.run([sys.executable, "-c", _MEASURED], capture_output=True, text=True, check=True)
    loudness, music, rest = done.stdout.splitlines()[0].split(" ", 2)
    assert (rest, done.stdout.splitlines()[1]) == ("[]", "[1]")
    own = Loudness()
    own.add(np.random.default_rng(1).standard_normal((80_000, 1)).astype(np.float32), 16_000)
    assert float(loudness) == own.found()
