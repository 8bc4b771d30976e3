"""Chained Ogg files whose streams differ: in kind, rate, number of channels, pictures; what of them is not read."""

from __future__ import annotations

import base64
import io
import itertools
import struct
import subprocess
from fractions import Fraction

import av
import imageio_ffmpeg
import numpy as np
import pytest
import soundfile
from PIL import Image
from preprocess_media import tone

from mmlake.embed.embedding import _samples as query_samples
from mmlake.errors import UnreadableItem
from mmlake.loader.decode import DECODERS
from mmlake.media import ogg_pages
from mmlake.media.decoders import placed_sound
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.audio import audio_track
from mmlake.preprocess.video import video_track
from mmlake.quality.audio_fidelity import coded_kbps, is_lossless

FIRST_S, SECOND_S = 1.5, 2.2
RATES_HZ = {"vorbis": (8_000, 44_100, 48_000), "libopus": (8_000, 48_000), "flac": (8_000, 16_000, 44_100)}
KINDS = [(codec, rate, channels) for codec, rates in RATES_HZ.items() for rate in rates for channels in (1, 2)]


def ogg(codec: str, rate_hz: int, channels: int, *, seconds: float = FIRST_S, pitch_hz: float = 440) -> bytes:
    samples = np.repeat(tone(seconds, rate_hz, pitch_hz=pitch_hz)[:, None], channels, axis=1)
    sink = io.BytesIO()
    if codec == "vorbis":
        soundfile.write(sink, samples, rate_hz, format="OGG", subtype="VORBIS")
        return sink.getvalue()
    layout = "mono" if channels == 1 else "stereo"
    with av.open(sink, "w", format="ogg") as container:
        stream = container.add_stream(codec, rate=rate_hz, layout=layout)
        scaled = np.round(samples * 32767).astype(np.int16).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(scaled, format="s16", layout=layout)
        frame.sample_rate, frame.pts, frame.time_base = rate_hz, 0, Fraction(1, rate_hz)
        container.mux([*stream.encode(frame), *stream.encode(None)])
    return sink.getvalue()


def pitch_hz(samples: np.ndarray, rate_hz: int) -> float:
    return float(np.abs(np.fft.rfft(samples)).argmax()) * rate_hz / len(samples)


def page(data: bytes) -> tuple[bytes, list[bytes], bytes]:
    """(head, the packets that the first page holds whole, all behind it)."""
    lengths, packets, at, size = data[27 : 27 + data[26]], [], 27 + data[26], 0
    for length in lengths:
        size += length
        if length < 255:
            packets.append(data[at : at + size])
            at, size = at + size, 0
    return data[:26], packets, data[27 + len(lengths) + sum(lengths) :]


def with_cover(vorbis: bytes) -> bytes:
    """The same song, whose comment header has a picture of 16 x 16 pixels."""
    jpeg = io.BytesIO()
    Image.new("RGB", (16, 16)).save(jpeg, "JPEG")
    picture = struct.pack(">II10sIIIIII", 3, 10, b"image/jpeg", 0, 16, 16, 24, 0, len(jpeg.getvalue()))
    comment = b"METADATA_BLOCK_PICTURE=" + base64.b64encode(picture + jpeg.getvalue())
    rest = page(vorbis)[2]
    head, (_, setup), behind = page(rest)
    packets = [b"\3vorbis" + struct.pack("<III", 0, 1, len(comment)) + comment + b"\1", setup]
    lengths = b"".join(bytes([255] * (len(one) // 255) + [len(one) % 255]) for one in packets)
    made = head[:22] + bytes(4) + bytes([len(lengths)]) + lengths + b"".join(packets)
    made = made[:22] + ogg_pages._checksum(made).to_bytes(4, "little") + made[26:]
    return vorbis[: len(vorbis) - len(rest)] + made + behind


def film(seconds: float) -> bytes:
    command = f"-f lavfi -i testsrc2=d={seconds}:s=160x120:r=10 -c:v libtheora -f ogg -".split()
    return subprocess.run(
        [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", *command], stdout=subprocess.PIPE, check=True
    ).stdout


@pytest.mark.parametrize("first", KINDS)
def test_every_stream_is_read_whatever_the_one_before_it_was(tmp_path, first: tuple[str, int, int]) -> None:
    path = tmp_path / "radio.ogg"
    data = ogg(*first)
    for second in KINDS:
        path.write_bytes(data + ogg(*second, seconds=SECOND_S, pitch_hz=880))
        columns, flac = audio_track(path, settings=PreprocessSettings())
        sound, rate_hz = soundfile.read(io.BytesIO(flac))
        shown = sum(len(block) for _, _, block in placed_sound(path)) / int(str(columns["sample_rate_hz"]))
        assert columns["duration_s"] == pytest.approx(FIRST_S + SECOND_S, abs=1e-4), second
        assert len(sound) / rate_hz == pytest.approx(FIRST_S + SECOND_S, abs=1e-4), second
        assert shown == pytest.approx(FIRST_S + SECOND_S, abs=1e-4), second
        assert columns["damages"] == [], second
        assert columns["num_channels"] == max(first[2], second[2])
        assert pitch_hz(sound[: int(1.4 * rate_hz)], rate_hz) == pytest.approx(440, abs=3)
        assert pitch_hz(sound[int(1.6 * rate_hz) :], rate_hz) == pytest.approx(880, abs=3)


def test_all_that_reads_a_recording_reads_all_streams(tmp_path) -> None:
    path = tmp_path / "radio.ogg"
    path.write_bytes(ogg("flac", 8_000, 1) + ogg("libopus", 48_000, 2, seconds=SECOND_S, pitch_hz=6_000))
    loaded = DECODERS["sound"](path.read_bytes())
    kinds = {(rate_hz, block.shape[1]) for rate_hz, _, block in placed_sound(path)}
    assert kinds == {(48_000, 2)}
    assert len(loaded) / 16_000 == pytest.approx(FIRST_S + SECOND_S, abs=1e-3)
    assert pitch_hz(loaded[2 * 16_000 : 3 * 16_000], 16_000) == pytest.approx(6_000, abs=10)
    assert len(query_samples(path)) / 16_000 == pytest.approx(FIRST_S + SECOND_S, abs=1e-3)
    assert not is_lossless(path)


def test_the_rate_of_a_chain_is_that_of_its_lossy_streams(tmp_path) -> None:
    path, second = tmp_path / "radio.ogg", ogg("libopus", 48_000, 2, seconds=8.0)
    path.write_bytes(second)
    alone = coded_kbps(path)
    for first in (ogg("flac", 8_000, 1), ogg("vorbis", 44_100, 1, seconds=0.5).replace(b"vorbis", b"vorbos")):
        path.write_bytes(first + second)
        assert coded_kbps(path) == pytest.approx(alone, rel=0.05)


def test_many_streams_do_not_drift(tmp_path) -> None:
    one = ogg("flac", 44_100, 1, seconds=0.10003)
    path = tmp_path / "jingles.ogg"
    path.write_bytes(one * 40)
    columns, flac = audio_track(path, settings=PreprocessSettings())
    assert columns["duration_s"] == pytest.approx(40 * 4_411 / 44_100, abs=1e-6)
    assert soundfile.info(io.BytesIO(flac)).frames == pytest.approx(40 * 4_411 / 44_100 * 16_000, abs=1)


def test_a_song_with_a_cover_ends_before_the_next_one(tmp_path) -> None:
    path = tmp_path / "album.ogg"
    first, second = ogg("vorbis", 44_100, 2, seconds=5.0), ogg("vorbis", 44_100, 2, seconds=4.0)
    path.write_bytes(with_cover(first) + second)
    with av.open(str(path)) as container:
        assert len(container.streams.video) == 1
    columns, _ = audio_track(path, settings=PreprocessSettings())
    assert columns["duration_s"] == pytest.approx(9.0, abs=1e-4)
    assert columns["damages"] == []


def test_a_short_song_begins_and_ends_where_it_does(tmp_path) -> None:
    path = tmp_path / "word.ogg"
    samples = np.zeros(12_000, np.float32)
    samples[6_000:6_010] = 0.9
    soundfile.write(path, samples, 8_000, format="OGG", subtype="VORBIS")
    columns, flac = audio_track(path, settings=PreprocessSettings())
    sound, rate_hz = soundfile.read(io.BytesIO(flac))
    assert columns["duration_s"] == 1.5
    assert np.abs(sound).argmax() / rate_hz == pytest.approx(6_005 / 8_000, abs=0.002)


def test_a_stream_of_an_unknown_kind_is_named_and_the_others_are_read(tmp_path) -> None:
    path = tmp_path / "radio.ogg"
    long, odd = ogg("flac", 16_000, 1, seconds=8.0), ogg("libopus", 48_000, 1, seconds=0.5)
    path.write_bytes(long + odd.replace(b"OpusHead", b"OpisHead") + ogg("vorbis", 44_100, 2))
    columns, _ = audio_track(path, settings=PreprocessSettings())
    (damage,) = columns["damages"]
    assert columns["duration_s"] == pytest.approx(8.0 + FIRST_S, abs=1e-4)
    assert damage["what"].startswith("stream 2 of 3 in a chained Ogg file: ")
    assert (damage["at_s"], damage["at_byte"]) == (pytest.approx(8.0), len(long))


def test_a_large_stream_that_cannot_be_read_makes_the_recording_unreadable(tmp_path) -> None:
    path = tmp_path / "radio.ogg"
    odd = ogg("libopus", 48_000, 1, seconds=8.0).replace(b"OpusHead", b"OpisHead")
    path.write_bytes(ogg("vorbis", 44_100, 2) + odd)
    with pytest.raises(UnreadableItem, match=r"3002 .*stream 2 of 2 in a chained Ogg file"):
        audio_track(path, settings=PreprocessSettings())


def test_damage_in_a_later_stream_has_its_time_and_byte(tmp_path) -> None:
    path = tmp_path / "radio.ogg"
    first, second = ogg("vorbis", 44_100, 1), bytearray(ogg("libopus", 48_000, 1, seconds=6.0))
    at = second.rindex(b"OggS")
    second[at + 40] ^= 1
    path.write_bytes(first + second + ogg("flac", 8_000, 1))
    (damage,) = audio_track(path, settings=PreprocessSettings())[0]["damages"]
    assert FIRST_S + 4.0 < damage["at_s"] <= FIRST_S + 6.0
    assert damage["at_byte"] == len(first) + at


def test_links_tile_the_file_also_where_a_page_is_damaged() -> None:
    parts = [ogg(*kind, seconds=3.0) for kind in (("vorbis", 44_100, 1), ("libopus", 48_000, 2), ("flac", 8_000, 1))]
    whole = b"".join(parts)
    sizes = [len(part) for part in parts]
    assert [link.size_bytes for link in ogg_pages.links(io.BytesIO(whole))] == sizes
    for at in range(60, len(whole), 61):
        broken = bytearray(whole)
        broken[at] ^= 255
        found = ogg_pages.links(io.BytesIO(broken))
        assert sum(link.size_bytes for link in found) == len(whole)
        if not any(start <= at < start + 28 for start in itertools.accumulate(sizes, initial=0)):
            assert [link.size_bytes for link in found] == sizes, at


def test_streams_beyond_the_limit_stay_in_the_last_link(monkeypatch) -> None:
    monkeypatch.setattr(ogg_pages, "_MAX_LINKS", 3)
    one = ogg("flac", 8_000, 1, seconds=0.1)
    assert [link.size_bytes for link in ogg_pages.links(io.BytesIO(one * 5))] == [len(one), len(one), 3 * len(one)]


def test_a_film_says_which_stream_behind_it_is_not_read(tmp_path) -> None:
    path = tmp_path / "film.ogv"
    first = film(6.0)
    path.write_bytes(first + ogg("libopus", 48_000, 1, seconds=0.2))
    (damage,) = [one for one in video_track(path, settings=PreprocessSettings()).columns["damages"] if one["at_byte"]]
    assert damage["what"].startswith("stream 2 of 2 in a chained Ogg file is not read")
    assert damage["at_byte"] == len(first)
    path.write_bytes(first + film(6.0))
    with pytest.raises(UnreadableItem, match=r"3012 .*stream 2 of 2 in a chained Ogg file"):
        video_track(path, settings=PreprocessSettings())
