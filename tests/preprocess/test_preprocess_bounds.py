"""Bounds before work: what no machine should try is a row with a code, and a bound holds just inside of it."""

from __future__ import annotations

import struct
import tracemalloc
from fractions import Fraction

import av
import numpy as np
import pytest
from preprocess_media import encoded, items, photo, scene, tone, video, wav

from mmlake.errors import SettingsError, UnreadableItem
from mmlake.modalities import MODALITIES
from mmlake.preprocess import PreprocessSettings, tracks
from mmlake.preprocess.sound import SoundWriter
from mmlake.store import BlobStore


@pytest.fixture
def store(tmp_path):
    return BlobStore(tmp_path / "blobs")


def outcome(store, data, modality, **settings):
    """(status, code) of the one track."""
    table = tracks(
        items(store, [data], modality),
        modality,
        decoder=MODALITIES[modality].decoder,
        store=store,
        settings=PreprocessSettings(**settings),
    )
    (row,) = table.to_pylist()
    return row["status"], row["error_code"]


def _checksum(data: bytes, *, bits: int, polynomial: int) -> int:
    value = 0
    for byte in data:
        value ^= byte << (bits - 8)
        for _ in range(8):
            value = (value << 1) ^ (polynomial if value >> (bits - 1) else 0)
            value &= (1 << bits) - 1
    return value


def flac_of_one_block(rate_hz: int, num_samples: int = 65_535) -> bytes:
    """55 bytes: a FLAC stream whose only block holds that many equal samples (the format of xiph.org/flac, by hand)."""
    packed = rate_hz << 44 | 0 << 41 | 15 << 36 | num_samples  # rate, channels - 1, bits - 1, samples
    info = struct.pack(">HH", num_samples, num_samples) + bytes(6) + packed.to_bytes(8, "big") + bytes(16)
    head = b"\xff\xf8" + bytes([0x70, 0x08, 0x00]) + struct.pack(">H", num_samples - 1)
    head += bytes([_checksum(head, bits=8, polynomial=0x07)])
    block = head + b"\x00" + struct.pack(">h", 1_000)  # one constant subframe
    return (
        b"fLaC" + b"\x80\x00\x00\x22" + info + block + struct.pack(">H", _checksum(block, bits=16, polynomial=0x8005))
    )


def test_the_flac_made_by_hand_is_one(store):
    assert len(flac_of_one_block(8_000)) == 55
    assert outcome(store, flac_of_one_block(8_000), "audio") == ("ok", None)


def test_a_few_bytes_that_claim_a_sample_a_second_are_a_row_and_take_no_memory(store):
    """At 16 kHz the one block would be a billion samples, 4 GB."""
    data = flac_of_one_block(1)
    tracemalloc.start()
    assert outcome(store, data, "audio") == ("unreadable", 3006)
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(("rate_hz", "expected"), [(999, ("unreadable", 3006)), (1_000, ("ok", None))])
def test_the_lowest_sample_rate(store, rate_hz, expected):
    assert outcome(store, flac_of_one_block(rate_hz, 2_000), "audio") == expected


@pytest.mark.parametrize(("highest", "expected"), [(44_099, ("unreadable", 3006)), (44_100, ("ok", None))])
def test_the_highest_sample_rate(store, highest, expected):
    assert outcome(store, wav(tone(0.2, 44_100), 44_100), "audio", max_sample_rate_hz=highest) == expected


@pytest.mark.parametrize(("longest", "expected"), [(0.99, ("unreadable", 3007)), (1.0, ("ok", None))])
def test_the_longest_sound(store, longest, expected):
    assert outcome(store, wav(tone(1)), "audio", max_decoded_s=longest) == expected


def test_the_sound_of_a_film_has_the_same_bounds(store, tmp_path):
    data = video(tmp_path / "a.mkv", scene(1, 30), sound=[(0.0, tone(1))])
    assert outcome(store, data, "video", max_decoded_s=0.5) == ("unreadable", 3007)
    assert outcome(store, data, "video", max_sample_rate_hz=8_000) == ("unreadable", 3006)
    assert outcome(store, data, "video") == ("ok", None)


def test_silence_that_fills_a_gap_counts_before_it_is_written():
    def frame(at_s: float) -> av.AudioFrame:
        piece = av.AudioFrame.from_ndarray(np.zeros((1, 160), np.int16), format="s16", layout="mono")
        piece.sample_rate, piece.pts, piece.time_base = 16_000, round(at_s * 16_000), Fraction(1, 16_000)
        return piece

    with SoundWriter(origin_s=0.0, settings=PreprocessSettings(max_decoded_s=100.0, max_gap_s=1_000.0)) as writer:
        writer.add(frame(0.0))
        writer.add(frame(99.0))
        with pytest.raises(UnreadableItem, match=r"3007 duration_budget: duration_s=900 s not in \[0, 100\]"):
            writer.add(frame(900.0))


# one block of 65,535 samples at 8 kHz becomes twice as many
@pytest.mark.parametrize(("most", "expected"), [(131_069, ("unreadable", 3009)), (131_070, ("ok", None))])
def test_the_largest_frame_after_resampling(store, most, expected):
    assert outcome(store, flac_of_one_block(8_000), "audio", max_frame_samples=most) == expected


@pytest.mark.parametrize(("most", "expected"), [(29, ("unreadable", 3008)), (30, ("ok", None))])
@pytest.mark.parametrize("suffix", ["mp4", "mkv"])  # mkv does not say how many frames there are
def test_the_largest_number_of_frames(store, tmp_path, suffix, most, expected):
    data = video(tmp_path / f"a.{suffix}", scene(1, 30))
    assert outcome(store, data, "video", max_frames=most) == expected


@pytest.mark.parametrize(("most", "expected"), [(320 * 240 - 1, ("unreadable", 3004)), (320 * 240, ("ok", None))])
def test_the_largest_picture(store, most, expected):
    assert outcome(store, encoded(photo()), "image", max_pixels=most) == expected


@pytest.mark.parametrize("name", ["min_sample_rate_hz", "max_decoded_s", "max_frame_samples", "max_frames"])
def test_a_bound_of_nothing_is_refused(name):
    with pytest.raises(SettingsError, match=name):
        PreprocessSettings(**{name: 0})


def test_bounds_that_leave_no_sample_rate_are_refused():
    with pytest.raises(SettingsError, match="max_sample_rate_hz=8000 is below"):
        PreprocessSettings(min_sample_rate_hz=16_000, max_sample_rate_hz=8_000)
