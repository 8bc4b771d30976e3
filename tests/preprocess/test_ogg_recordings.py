"""Ogg files of broadcasts: streams one behind the other, recordings that somebody began late."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
import soundfile
from preprocess_media import tone

from mmlake.loader.decode import DECODERS
from mmlake.media import ogg_pages
from mmlake.media.decoders import placed_sound
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.audio import audio_track

RATE_HZ = 48_000


def ogg(pitch_hz: float, duration_s: float, subtype: str) -> bytes:
    sink = io.BytesIO()
    samples = tone(duration_s, RATE_HZ, pitch_hz=pitch_hz)
    soundfile.write(sink, samples, RATE_HZ, format="OGG", subtype=subtype)
    return sink.getvalue()


def pages(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        end = at + 27 + data[at + 26] + sum(data[at + 27 : at + 27 + data[at + 26]])
        found.append(data[at:end])
        at = end
    return found


def pitch_hz(samples: np.ndarray, rate_hz: int) -> float:
    return float(np.abs(np.fft.rfft(samples)).argmax()) * rate_hz / len(samples)


@pytest.mark.parametrize("subtype", ["OPUS", "VORBIS"])
def test_streams_that_follow_each_other_are_decoded_one_behind_the_other(tmp_path, subtype: str) -> None:
    path = tmp_path / "radio.ogg"
    path.write_bytes(ogg(440, 2.0, subtype) + ogg(880, 3.0, subtype))
    columns, flac = audio_track(path, settings=PreprocessSettings())
    sound, rate_hz = soundfile.read(io.BytesIO(flac))
    whole = sum(len(block) for _, _, block in placed_sound(path))
    assert columns["duration_s"] == pytest.approx(5.0, abs=0.05)
    assert columns["damages"] == []
    assert pitch_hz(sound[rate_hz // 2 : rate_hz], rate_hz) == pytest.approx(440, abs=3)
    assert pitch_hz(sound[4 * rate_hz : 4 * rate_hz + rate_hz // 2], rate_hz) == pytest.approx(880, abs=3)
    assert whole / RATE_HZ == pytest.approx(5.0, abs=0.05)
    assert len(DECODERS["sound"](path.read_bytes())) / 16_000 == pytest.approx(5.0, abs=0.05)


def test_a_file_of_one_stream_is_no_chain() -> None:
    assert not ogg_pages.is_chained(io.BytesIO(ogg(440, 1.0, "OPUS")))
    assert not ogg_pages.is_chained(io.BytesIO(b"RIFF"))
    assert not ogg_pages.is_chained(io.BytesIO(ogg(440, 1.0, "OPUS")[:40]))


def test_a_broadcast_that_was_joined_late_is_whole(tmp_path) -> None:
    found = pages(ogg(440, 12.0, "OPUS"))
    path = tmp_path / "late.opus"
    path.write_bytes(b"".join(found[:2] + found[6:]))
    columns, _ = audio_track(path, settings=PreprocessSettings())
    assert 6.0 < columns["duration_s"] < 10.0


def test_what_an_opus_file_says_is_not_played_is_not_missing(tmp_path) -> None:
    first, *others = pages(ogg(440, 3.0, "OPUS"))
    at = first.index(b"OpusHead") + 10
    head = first[:22] + bytes(4) + first[26:at] + struct.pack("<H", RATE_HZ) + first[at + 2 :]
    path = tmp_path / "cut.opus"
    checksum = ogg_pages._checksum(head).to_bytes(4, "little")
    path.write_bytes(head[:22] + checksum + head[26:] + b"".join(others))
    columns, _ = audio_track(path, settings=PreprocessSettings())
    assert columns["duration_s"] == pytest.approx(2.0, abs=0.05)
