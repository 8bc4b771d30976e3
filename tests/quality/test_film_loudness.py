"""Loudness of films is that of their own channels, as that of recordings is."""

from __future__ import annotations

import io
from fractions import Fraction

import av
import numpy as np
import pytest
from quality_media import RATE_HZ, measures_of, sound, table_of, track

from mmlake.modalities import MODALITIES
from mmlake.quality import measure
from mmlake.store import BlobStore
from tests import make

_HZ = 48_000


@pytest.fixture
def store(tmp_path):
    return BlobStore(tmp_path)


def tone(level_dbfs: float, length_s: float) -> np.ndarray:
    """A sine of 1 kHz whose peak has this level."""
    return 10 ** (level_dbfs / 20) * np.sin(2 * np.pi * 1_000 * np.arange(round(length_s * _HZ)) / _HZ)


def film_track(store: BlobStore, channels: list[np.ndarray], layout: str) -> dict[str, object]:
    """The track of a film with this sound, whose mono track is the mean of its channels."""
    samples, sink = np.stack(channels, axis=1), io.BytesIO()
    with av.open(sink, "w", format="matroska") as container:
        picture = container.add_stream("mpeg4", rate=5)
        picture.width, picture.height, picture.pix_fmt = 64, 48, "yuv420p"
        sound_stream = container.add_stream("pcm_s16le", rate=_HZ, layout=layout)
        for _ in range(5 * len(samples) // _HZ):
            container.mux(picture.encode(av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), format="rgb24")))
        container.mux(picture.encode())
        for at in range(0, len(samples), 4_800):
            piece = np.round(samples[at : at + 4_800] * 32_767).astype(np.int16).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(piece, format="s16", layout=layout)
            frame.sample_rate, frame.time_base, frame.pts = _HZ, Fraction(1, _HZ), at
            container.mux(sound_stream.encode(frame))
        container.mux(sound_stream.encode())
    length_s = len(samples) / _HZ
    mono = samples.mean(axis=1)[:: _HZ // RATE_HZ]
    digests = {"digest": store.put(sink.getvalue()), "audio_digest": store.put(sound(mono, RATE_HZ, "FLAC"))}
    shots = [{"start_s": 0.0, "end_s": length_s, "transition": "start"}]
    return track(modality="video", duration_s=length_s, shots=shots, keyframes=[], signals=[], **digests)


@pytest.mark.parametrize(
    ("levels", "layout"),
    [((-23, -23), "stereo"), ((-28, -28, -24, -5, -30, -30), "5.1")],
)
def test_a_film_has_the_loudness_that_ebu_tech_3341_asks_for(store, levels, layout):
    """Cases 1 and 6, each at -23 LUFS; the mono track of the first has 3 less."""
    row = film_track(store, [tone(level, 10) for level in levels], layout)
    assert measures_of(row, store)["loudness_lufs"] == pytest.approx(-23.0, abs=0.1)


def test_each_span_of_a_film_has_its_own_loudness(store):
    wave = np.concatenate([tone(-23, 4), tone(-33, 4)])
    row = film_track(store, [wave, wave], "stereo")
    table = measure(make.cut(table_of([row]), (0.0, 4.0), (4.0, 8.0)), MODALITIES["video"].measurements, store=store)
    found = {one["digest"]: one["value"] for one in table.to_pylist() if one["measure"] == "loudness_lufs"}
    assert [found[f"{row['digest']}/{at}"] for at in range(2)] == pytest.approx([-23.0, -33.0], abs=0.1)


def test_a_film_whose_own_sound_does_not_open_has_the_loudness_of_its_track(store):
    row = film_track(store, [tone(-23, 5)] * 2, "stereo") | {"digest": store.put(b"no film")}
    assert measures_of(row, store)["loudness_lufs"] == pytest.approx(-26.0, abs=0.1)
