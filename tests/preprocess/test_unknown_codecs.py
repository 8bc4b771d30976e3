"""Sound whose codec has no decoder here: the row says which it is and what to make of the file."""

from __future__ import annotations

import re
import struct

import pytest
from preprocess_media import tone, wav

from mmlake.errors import UnreadableItem
from mmlake.media.decoders import placed_sound
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.audio import audio_track


def of_tag(tag: int, samples: bytes, *, before: bytes = b"") -> bytes:
    """A WAV of 16 kHz with these bytes as samples. before: chunks between its format and its samples."""
    form = struct.pack("<HHIIHHH", tag, 1, 16_000, 8_000, 1, 16, 0)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + before
    body += b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", len(body)) + body


def reason_of(path) -> tuple[int, str]:
    with pytest.raises(UnreadableItem) as caught:
        audio_track(path, settings=PreprocessSettings())
    return caught.value.code, caught.value.reason


@pytest.mark.parametrize("tag", [0x674F, 0x6750, 0x6751, 0x676F, 0x6770, 0x6771])
def test_vorbis_in_a_wav_is_named(tmp_path, tag: int) -> None:
    """LMMS ships drums like these as .ogg; they were said to have no stream of sound (3003)."""
    (path := tmp_path / "kick.ogg").write_bytes(of_tag(tag, b"\2" * 4_000))
    code, reason = reason_of(path)
    assert code == 3001 and f"format_tag=0x{tag:04x}: Vorbis in a WAV" in reason and "convert it" in reason


@pytest.mark.parametrize("before", [b"", b"fact" + struct.pack("<II", 4, 32_000)], ids=["plain", "behind a count"])
def test_the_bytes_that_are_an_ogg_file_are_one(tmp_path, before: bytes) -> None:
    """What the reason advises gives the recording, also where a chunk stands before the samples."""
    ogg = wav(tone(2.0), kind="OGG")
    (path := tmp_path / "kick.ogg").write_bytes(of_tag(0x674F, ogg, before=before))
    code, reason = reason_of(path)
    found = re.search(r"num_bytes=(\d+) from byte (\d+) on", reason)
    assert code == 3001 and found
    size, start = map(int, found.groups())
    (saved := tmp_path / "saved.ogg").write_bytes(path.read_bytes()[start : start + size])
    assert sum(len(block) for _, _, block in placed_sound(saved)) / 16_000 == pytest.approx(2.0, abs=0.01)


def test_another_tag_is_given_as_it_is(tmp_path) -> None:
    (path := tmp_path / "call.wav").write_bytes(of_tag(0x1234, b"\2" * 4_000))
    code, reason = reason_of(path)
    assert code == 3001 and reason.startswith("format_tag=0x1234: a codec")
