"""Sound in forms that libsndfile writes and cannot seek in, and Apple Lossless in CAF, whose end FFmpeg cuts off."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import soundfile
from preprocess_media import tone

from mmlake.loader.decode import DECODERS
from mmlake.media.decoders import placed_sound
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.audio import audio_track

RATE_HZ = 8_000


@pytest.mark.parametrize("kind", ["WAV GSM610", "WAV G721_32", "AU G721_32", "AU G723_24", "AU G723_40"])
@pytest.mark.parametrize("from_s", [0.0, 1.0])
def test_a_codec_that_is_read_from_its_start_alone_is_read(tmp_path, kind: str, from_s: float) -> None:
    path, (form, subtype) = tmp_path / "call", kind.split()
    soundfile.write(path, tone(2.0, RATE_HZ), RATE_HZ, format=form, subtype=subtype)
    blocks = list(placed_sound(path, from_s=from_s))
    _, position, last = blocks[-1]
    assert (position + len(last)) / RATE_HZ == pytest.approx(2.0, abs=0.02)
    assert len(DECODERS["sound"](path.read_bytes())) / 16_000 == pytest.approx(2.0, abs=0.02)


@pytest.mark.parametrize("num_samples", [1, 4_095, 4_097, 16_000])
@pytest.mark.parametrize("subtype", ["ALAC_16", "ALAC_24"])
def test_apple_lossless_in_caf_is_as_long_as_it_was(tmp_path, subtype: str, num_samples: int) -> None:
    path = tmp_path / "memo.caf"
    soundfile.write(path, tone(2.0, RATE_HZ)[:num_samples], RATE_HZ, format="CAF", subtype=subtype)
    columns, _ = audio_track(path, settings=PreprocessSettings())
    assert columns["duration_s"] == num_samples / RATE_HZ
    assert columns["damages"] == []


@pytest.mark.parametrize("kind", ["WAV GSM610", "AIFF GSM610", "WAV G721_32", "AU G721_32", "AU G723_24", "AU G723_40"])
def test_tracks_have_the_sound_that_was_written(tmp_path, kind: str) -> None:
    """FFmpeg gave G.721 and G.723 a quarter to a half too loud, and said that two seconds of GSM in AIFF last minutes
    (3002)."""
    path, (form, subtype) = tmp_path / "call", kind.split()
    soundfile.write(path, tone(2.0, RATE_HZ), RATE_HZ, format=form, subtype=subtype)
    columns, flac = audio_track(path, settings=PreprocessSettings())
    samples = DECODERS["sound"](flac)
    assert columns["duration_s"] == pytest.approx(2.0, abs=0.05)
    assert columns["sample_rate_hz"] == RATE_HZ
    assert np.sqrt(2 * np.mean(samples[4_000:28_000] ** 2)) == pytest.approx(0.33, rel=0.05)


@pytest.mark.parametrize("num_channels", [1, 2])
def test_24_bits_that_lie_in_32_are_integers(tmp_path, num_channels: int) -> None:
    """As WASAPI records them (WAVE_FORMAT_EXTENSIBLE, wValidBitsPerSample 24): FFmpeg takes them for floats of 24 bits,
    and the file for longer than it is (3002)."""
    samples = tone(1.0)
    values = (samples[:, None].repeat(num_channels, axis=1) * (1 << 23)).astype("<i4") << 8
    rate_hz, width = 16_000, 4 * num_channels
    about = struct.pack("<HHIIHHHHI", 0xFFFE, num_channels, rate_hz, rate_hz * width, width, 32, 22, 24, 0)
    about += bytes.fromhex("0100000000001000800000aa00389b71")  # KSDATAFORMAT_SUBTYPE_PCM
    body = b"WAVEfmt " + struct.pack("<I", len(about)) + about
    body += b"data" + struct.pack("<I", values.nbytes) + values.tobytes()
    (path := tmp_path / "memo.wav").write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    columns, flac = audio_track(path, settings=PreprocessSettings())
    assert (columns["duration_s"], columns["num_channels"]) == (1.0, num_channels)
    np.testing.assert_allclose(DECODERS["sound"](flac), samples, atol=1e-4)
