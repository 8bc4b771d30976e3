"""Recordings whose framing is chunks, or nothing but a header: WAV, W64, CAF, NIST SPHERE and AMR; cut off, laid end to
end, or written by programs that forget padding."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from preprocess_media import tone

from mmlake.errors import UnreadableItem
from mmlake.formats.sniff import kind_of
from mmlake.loader.decode import DECODERS
from mmlake.media.decoders import placed_sound
from mmlake.media.file_views import other_amr, view_of
from mmlake.media.joined_files import second_file
from mmlake.media.wav_chunks import forgotten_padding
from mmlake.preprocess.audio import audio_track
from mmlake.preprocess.settings import PreprocessSettings

SETTINGS = PreprocessSettings()
KINDS = {"w64": ("W64", "PCM_16"), "caf": ("CAF", "PCM_16"), "alac": ("CAF", "ALAC_16"), "sph": ("NIST", "PCM_16")}
SECONDS, RATE_HZ = 2.0, 16_000


def recording(kind: str, *, pitch_hz: float = 440.0) -> bytes:
    form, subtype = {**KINDS, "rf64": ("RF64", "PCM_16"), "wav": ("WAV", "PCM_16")}[kind]
    sink = io.BytesIO()
    soundfile.write(sink, tone(SECONDS, RATE_HZ, pitch_hz=pitch_hz), RATE_HZ, format=form, subtype=subtype)
    return sink.getvalue()


def amr(seconds: float = SECONDS) -> bytes:
    sink = io.BytesIO()
    with av.open(sink, "w", format="amr") as container:
        stream = container.add_stream("libopencore_amrnb", rate=8_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(tone(seconds, 8_000)[None].astype(np.float32), "fltp", "mono")
        frame.sample_rate = 8_000
        resampler = av.AudioResampler("s16", "mono", 8_000, frame_size=160)
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            container.mux(stream.encode(piece))
        container.mux(stream.encode(None))
    return sink.getvalue()


def test_w64_is_a_recording_whatever_its_name() -> None:
    """It was bytes of no kind (1005)."""
    kind = kind_of(recording("w64")[:4096], "take.bin")
    assert kind is not None
    assert (kind.modality, kind.content_type) == ("audio", "audio/x-w64")


@pytest.mark.parametrize("kind", ["w64", "caf", "alac"])
def test_what_was_cut_off_is_refused(tmp_path: Path, kind: str) -> None:
    """Half of a recording passed as a whole one: FFmpeg reckons how long it is by the bytes that are there."""
    whole = recording(kind)
    (path := tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UnreadableItem, match="data chunk: present_bytes=") as caught:
        audio_track(path, settings=SETTINGS)
    assert caught.value.code == 3002
    path.write_bytes(whole)
    assert audio_track(path, settings=SETTINGS)[0]["duration_s"] == pytest.approx(SECONDS)


@pytest.mark.parametrize("kind", [*KINDS, "rf64"])
def test_a_second_one_behind_the_first_is_named(tmp_path: Path, kind: str) -> None:
    """W64 and CAF were said to be cut off, of RF64 and Apple Lossless half was in no row, and of SPHERE the header of
    the second one was noise."""
    one = recording(kind)
    (path := tmp_path / "joined").write_bytes(one + recording(kind, pitch_hz=880.0))
    with pytest.raises(UnreadableItem, match=f"a second file begins at byte {len(one)}, not read") as caught:
        audio_track(path, settings=SETTINGS)
    assert caught.value.code == 3012
    assert all(second_file(io.BytesIO(one + rest)) is None for rest in (b"", bytes(100), b"caff"[:3]))


def test_writers_to_a_pipe_leave_the_size_of_caf_open(tmp_path: Path) -> None:
    whole = recording("caf")
    at = whole.index(b"data") + 4
    (path := tmp_path / "piped.caf").write_bytes(whole[:at] + b"\xff" * 8 + whole[at + 8 :])
    assert audio_track(path, settings=SETTINGS)[0]["duration_s"] == pytest.approx(SECONDS)


@pytest.mark.parametrize("num", [2, 5])
def test_amr_recordings_end_to_end_are_one(tmp_path: Path, num: int) -> None:
    """The header of each one was read as a frame, and nothing behind it stood where a frame begins."""
    one = amr()
    (path := tmp_path / "joined.amr").write_bytes(one * num)
    (single := tmp_path / "single.amr").write_bytes(one)
    one_s = audio_track(single, settings=SETTINGS)[0]["duration_s"]
    columns, _ = audio_track(path, settings=SETTINGS)
    assert (columns["duration_s"], columns["damages"]) == (pytest.approx(num * one_s, abs=1e-3), [])
    assert sum(len(block) for _, _, block in placed_sound(path)) == pytest.approx(num * one_s * 8_000, abs=8)
    assert len(DECODERS["sound"](path.read_bytes())) == pytest.approx(num * one_s * 16_000, abs=32)
    assert view_of(single) is None


def test_amr_of_the_other_kind_behind_the_first_is_named(tmp_path: Path) -> None:
    one = amr()
    (path := tmp_path / "joined.amr").write_bytes(one * 2 + b"#!AMR-WB\n" + b"\x04" + bytes(17))
    columns, _ = audio_track(path, settings=SETTINGS)
    (damage,) = columns["damages"]  # type: ignore[misc]
    assert (damage["at_byte"], "a second file begins" in damage["what"]) == (2 * len(one), True)
    assert columns["duration_s"] == pytest.approx(2 * SECONDS, abs=0.1)


def test_heads_of_amr_are_found_wherever_blocks_end(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"\x04" * 20
    for size in range(16, 40):
        monkeypatch.setattr("mmlake.media.file_views._BLOCK_BYTES", size)
        data = b"#!AMR\n" + body + b"#!AMR\n" + body + b"#!AMR-WB\n" + body
        assert other_amr(io.BytesIO(data)) == 52


def chunk(name: bytes, content: bytes, *, is_padded: bool) -> bytes:
    return name + struct.pack("<I", len(content)) + content + bytes(is_padded and len(content) % 2)


@pytest.mark.parametrize("num_bytes", [5, 7, 603])
@pytest.mark.parametrize("name", [b"LIST", b"bext", b"xyz "])
@pytest.mark.parametrize("is_padded", [True, False], ids="padded forgotten".split())
def test_an_odd_chunk_without_its_padding_hides_no_samples(
    tmp_path: Path, name: bytes, num_bytes: int, is_padded: bool
) -> None:
    """ "No data chunk before the end of the file" (3002), with the advice to fetch it again."""
    whole = recording("wav")
    form, samples = whole[12:36], whole[whole.index(b"data") + 8 :]
    odd = chunk(name, b"x" * num_bytes, is_padded=is_padded)
    body = b"WAVE" + odd + form + odd + chunk(b"data", samples, is_padded=True)
    (path := tmp_path / "odd.wav").write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    columns, flac = audio_track(path, settings=SETTINGS)
    assert (columns["duration_s"], columns["damages"]) == (pytest.approx(SECONDS), [])
    expected = np.frombuffer(samples, "<i2") / 2**15
    np.testing.assert_allclose(np.concatenate([block[:, 0] for _, _, block in placed_sound(path)]), expected)
    np.testing.assert_allclose(DECODERS["sound"](path.read_bytes()), expected)
    assert len(forgotten_padding(io.BytesIO(path.read_bytes()), path.stat().st_size)) == (0 if is_padded else 2)


def test_a_padding_byte_that_could_begin_a_name_is_padding() -> None:
    """The rule of the format comes first: only where it leads to no known chunk is it left."""
    data = b"RIFF\0\0\0\0WAVEfoo \1\0\0\0xddata\2\0\0\0\0\0"
    assert forgotten_padding(io.BytesIO(data), len(data)) == []


def test_two_odd_wavs_without_padding_are_two(tmp_path: Path) -> None:
    whole = recording("wav")
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, RATE_HZ, RATE_HZ, 1, 8)
    samples = np.frombuffer(whole[44 : 44 + 31_001], np.uint8).tobytes()
    body = b"WAVE" + form + chunk(b"data", samples, is_padded=False) + chunk(b"LIST", b"INFO", is_padded=False)
    one = b"RIFF" + struct.pack("<I", len(body)) + body
    assert second_file(io.BytesIO(one)) is None
    assert second_file(io.BytesIO(one + one)) == len(one)
