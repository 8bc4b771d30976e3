"""Sound in forms that libsndfile writes and cannot seek in, and Apple Lossless in CAF, whose end FFmpeg cuts off."""

from __future__ import annotations

import pytest
import soundfile
from preprocess_media import tone

from mmlake.decoders import placed_sound
from mmlake.loader.decode import DECODERS
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
