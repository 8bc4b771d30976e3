"""The checksums that formats carry are checked: an item that decodes with a damaged place says where, and is neither
sound nor lost. What is rare and sound is neither damaged nor refused."""

from __future__ import annotations

import io
import struct
import zlib
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
from damaged_media import NUM_FLIPS, RATE_HZ, coded, film_of, flipped, noise, old_flac, sound_file, wma
from PIL import Image
from preprocess_media import encoded, photo

from mmlake.errors import UnreadableItem
from mmlake.formats.matroska_checksums import bad_elements
from mmlake.formats.sniff import kind_of
from mmlake.media import ogg_pages
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.audio import audio_track
from mmlake.preprocess.containers.container import Decoding
from mmlake.preprocess.image import image_track
from mmlake.preprocess.video import video_track
from mmlake.quality import IMAGE_RULES
from mmlake.quality.damage import DAMAGED, damage_measures
from mmlake.quality.measurement import Subject

SETTINGS = PreprocessSettings()
LENGTH_S = 8.0


def found_in(path, data) -> tuple[str, list[dict[str, object]]]:
    """("sound", "damaged" or the code, the places)."""
    path.write_bytes(data)
    try:
        damages = audio_track(path, settings=SETTINGS)[0]["damages"]
    except UnreadableItem as error:
        return str(error.code), []
    return "damaged" if damages else "sound", damages


@pytest.mark.parametrize(
    ("kind", "subtype", "first_byte", "most_lost"),
    # behind the tags of FLAC, which no checksum covers. An Ogg page with the header that a decoder begins with is lost
    # with it, as are too many seconds at once
    [("FLAC", None, 8_300, 0), ("OGG", "VORBIS", 0, 8), ("OGG", "OPUS", 0, 8)],
)
def test_every_flipped_bit_of_a_recording_is_found_and_has_a_place(tmp_path, kind, subtype, first_byte, most_lost):
    data = sound_file(noise(LENGTH_S), kind, subtype)
    assert found_in(tmp_path / "a", data) == ("sound", [])
    counts: Counter[str] = Counter()
    for changed in flipped(data, first_byte):
        state, places = found_in(tmp_path / "a", changed)
        counts[state] += 1
        for place in places:
            assert place["at_s"] is not None or place["at_byte"] is not None
            assert 0 <= (place["at_s"] or 0.0) <= LENGTH_S
    assert counts["sound"] == 0
    assert counts["damaged"] >= NUM_FLIPS - most_lost


@pytest.mark.parametrize("codec", ["ac3", "eac3"])
def test_every_flipped_bit_of_a_dolby_frame_is_found(tmp_path, codec):
    """A CRC-16 of each frame, which FFmpeg compares where it is asked to; of 80 flips none was noticed without."""
    data = coded(noise(3.0), codec, codec)
    assert found_in(tmp_path / "a", data) == ("sound", [])
    assert "sound" not in {found_in(tmp_path / "a", changed)[0] for changed in flipped(data, 0)}


def test_a_flipped_bit_of_a_matroska_element_with_a_checksum_is_found_at_its_byte(tmp_path):
    """PCM carries no checksum of its own: what is found is found by the container's."""
    data = coded(noise(3.0), "pcm_s16le", "matroska")
    assert found_in(tmp_path / "a", data) == ("sound", [])
    assert list(bad_elements(io.BytesIO(data))) == []
    start = data.index(b"\xbf\x84") + 6  # behind the first checksum
    states = Counter(found_in(tmp_path / "a", changed)[0] for changed in flipped(data, start))
    print(states)
    assert states["sound"] == 0


@pytest.mark.parametrize("subtype", ["PCM_S8", "PCM_16", "PCM_24"])
@pytest.mark.parametrize("num_channels", [1, 2])
def test_a_flac_of_any_depth_has_its_md5(tmp_path, subtype, num_channels):
    sound = np.stack([noise(1.0, seed) for seed in range(num_channels)], axis=1)
    assert found_in(tmp_path / "a", sound_file(sound, "FLAC", subtype)) == ("sound", [])


def test_a_flac_whose_md5_is_another_is_damaged(tmp_path):
    """Whole frames that were exchanged have right checksums each."""
    data = bytearray(sound_file(noise(1.0), "FLAC"))
    data[30] ^= 1
    state, places = found_in(tmp_path / "a", bytes(data))
    assert state == "damaged"
    assert places[0]["at_byte"] == 26


def test_a_damaged_place_of_a_recording_has_the_time_of_its_frame(tmp_path):
    data = bytearray(sound_file(noise(LENGTH_S), "FLAC"))
    data[len(data) // 2] ^= 1  # noise takes as many bytes in every second
    _, places = found_in(tmp_path / "a", bytes(data))
    assert [place["at_s"] for place in places] == pytest.approx([LENGTH_S / 2], abs=0.3)


def test_pages_of_ogg_are_damaged_at_their_byte(tmp_path):
    data = sound_file(noise(LENGTH_S), "OGG", "VORBIS")
    at = data.index(b"OggS", len(data) // 2)
    changed = bytearray(data)
    changed[at + 100] ^= 4
    _, places = found_in(tmp_path / "a", bytes(changed))
    assert [place["at_byte"] for place in places] == [at]


def test_a_recording_of_ogg_that_was_not_ended_is_whole_or_damaged_at_its_end(tmp_path):
    sink = io.BytesIO()
    white = np.random.default_rng(0).integers(-20_000, 20_000, (200_000, 2), dtype=np.int16)
    soundfile.write(sink, white, 48_000, format="OGG", subtype="VORBIS")  # packets of more than 255 bytes
    data = sink.getvalue()
    at, end = (data.rindex(b"OggS\0", 0, limit) for limit in (data.rindex(b"OggS\0"), None))
    assert found_in(tmp_path / "a", data[:end]) == ("sound", [])  # as live recordings end
    page = data[at:end]
    segments = page[27 : 27 + page[26]]
    kept = segments[: segments.rindex(255) + 1]  # in the middle of a packet
    body = page[27 + len(segments) :][: sum(kept)]
    unfinished = page[:26] + bytes([len(kept)]) + kept + body
    checksum = ogg_pages._checksum(unfinished[:22] + bytes(4) + unfinished[26:])
    data = data[:at] + unfinished[:22] + checksum.to_bytes(4, "little") + unfinished[26:]
    state, places = found_in(tmp_path / "b", data)
    assert (state, [(place["at_byte"], place["what"]) for place in places]) == (
        "damaged",
        [(len(data), "the last packet is not whole")],
    )
    assert found_in(tmp_path / "c", data[:-1])[0] == "3002"  # a page that was cut


def test_every_flipped_bit_of_a_png_is_found():
    data = encoded(photo(), "PNG", pnginfo=_comment())
    assert image_track(data, settings=SETTINGS)["damages"] == []
    counts: Counter[str] = Counter()
    for changed in flipped(data, 0):
        try:
            places = image_track(changed, settings=SETTINGS)["damages"]
        except UnreadableItem:
            counts["unreadable"] += 1
            continue
        counts["damaged" if places else "sound"] += 1
    assert counts["sound"] == 0


def _comment():
    from PIL.PngImagePlugin import PngInfo

    info = PngInfo()
    info.add_text("Comment", "a checksum that no decoder needs " * 400)
    return info


def test_pixels_under_a_wrong_checksum_have_its_byte():
    data = bytearray(encoded(photo(), "PNG"))
    at = data.index(b"IDAT") - 4
    data[at + 8 + int.from_bytes(data[at : at + 4], "big")] ^= 1
    assert image_track(bytes(data), settings=SETTINGS)["damages"] == [
        {"what": "the checksum of the chunk IDAT does not hold", "at_s": None, "at_byte": at}
    ]


def test_a_png_that_does_not_open_has_the_byte_in_its_reason():
    data = bytearray(encoded(photo(), "PNG", pnginfo=_comment()))
    at = data.index(b"tEXt") - 4
    data[at + 100] ^= 1
    with pytest.raises(UnreadableItem, match=f"3001 .*; at byte {at} the checksum of the chunk tEXt does not hold"):
        image_track(bytes(data), settings=SETTINGS)


def animation(num_frames: int = 5) -> bytes:
    pictures = [Image.fromarray(np.roll(photo(), 7 * at, axis=1)) for at in range(num_frames)]
    sink = io.BytesIO()
    pictures[0].save(sink, "PNG", save_all=True, append_images=pictures[1:], duration=200)
    return sink.getvalue()


def with_bad_frame(data: bytes) -> bytes:
    """The last frame holds no pixels, under right checksums."""
    at = data.rindex(b"fdAT")
    length = struct.unpack(">I", data[at - 4 : at])[0]
    body = b"fdAT" + data[at + 4 : at + 8] + b"\xff" * (length - 4)
    return data[:at] + body + struct.pack(">I", zlib.crc32(body)) + data[at + length + 8 :]


def test_an_apng_with_one_bad_late_frame_is_damaged_and_not_lost():
    track = image_track(with_bad_frame(animation()), settings=SETTINGS)
    assert (track["width_px"], track["num_frames"]) == (320, 5)
    assert [place["at_s"] for place in track["damages"]] == pytest.approx([0.8])


def test_a_damaged_item_is_flagged_with_its_place():
    places = [{"what": "a page", "at_s": 1.25, "at_byte": 7636}]
    measures = damage_measures(Subject({"damages": places}))
    assert measures == {"num_damages": 1.0, "damaged_at_s": 1.25, "damaged_at_byte": 7636}
    assert damage_measures(Subject({"damages": []})) == {
        "num_damages": 0.0, "damaged_at_s": None, "damaged_at_byte": None,
    }  # fmt: skip
    assert DAMAGED in IMAGE_RULES
    assert (DAMAGED.error_code, DAMAGED.severity) == (4004, "P2")


def test_flac_of_blocks_of_different_lengths_is_sound_and_in_order(tmp_path):
    """Before version 1.2 such files marked nothing, and FFmpeg puts their frames at times that they never had."""
    samples = noise(4.0)
    sizes = [1152, 576, 4608] * 10 + [100]
    (tmp_path / "a.flac").write_bytes(old_flac(samples, sizes))
    columns, flac = audio_track(tmp_path / "a.flac", settings=SETTINGS)
    assert (columns["damages"], columns["num_decode_errors"]) == ([], 0)
    assert np.array_equal(soundfile.read(io.BytesIO(flac), dtype="int16")[0], samples[: sum(sizes)])


def test_windows_media_audio_is_sound(tmp_path):
    data = wma(np.repeat(noise(1.0), 3))
    for name in ("a.wma", "a.asf"):
        kind = kind_of(data[:4096], name, stream=lambda: io.BytesIO(data))
        assert kind is not None
        assert (kind.modality, kind.extension) == ("audio", "wma")
    assert found_in(tmp_path / "a", data) == ("sound", [])


def test_nist_sphere_is_sound(tmp_path):
    data = sound_file(noise(1.0), "NIST")
    kind = kind_of(data[:4096], "a.wav")
    assert kind is not None
    assert (kind.modality, kind.extension) == ("audio", "sph")
    (tmp_path / "a").write_bytes(data)
    assert audio_track(tmp_path / "a", settings=SETTINGS)[0]["duration_s"] == pytest.approx(1.0)
    assert soundfile.info(tmp_path / "a").samplerate == RATE_HZ


def test_pixels_that_are_not_square_do_not_squeeze_keyframes(tmp_path):
    film_of(tmp_path / "a.mkv", [(320, 240)], aspect=Fraction(3, 2))
    film = video_track(tmp_path / "a.mkv", settings=SETTINGS)
    assert (film.columns["width_px"], film.columns["height_px"]) == (480, 240)
    with Image.open(io.BytesIO(film.keyframes[0].jpeg)) as picture:
        assert picture.size == (480, 240)


def test_the_largest_stream_is_decoded_and_not_the_first(tmp_path):
    film_of(tmp_path / "a.mkv", [(64, 48), (320, 240)])
    film = video_track(tmp_path / "a.mkv", settings=SETTINGS)
    assert (film.columns["width_px"], film.columns["height_px"]) == (320, 240)


@dataclass
class _Refused:
    """A packet that FFmpeg does not take."""

    size: int
    pts: int = 3
    is_keyframe: bool = True
    time_base: Fraction = Fraction(1, 25)
    pos: int = 10
    stream: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(type="video", index=0, start_time=0))

    def has_sidedata(self, name: str) -> bool:
        """None: it is not encrypted."""
        return False

    def decode(self) -> list[object]:
        """Never."""
        raise ValueError


@pytest.mark.parametrize(("size", "num_damages"), [(0, 0), (4, 1)])
def test_an_empty_packet_that_has_a_time_shows_a_picture_once_more(size, num_damages):
    """Theora spells a repeated frame so: 131 of them made a sound film one of 131 damages."""
    packet = _Refused(size)
    container = SimpleNamespace(format=SimpleNamespace(name="ogg"), demux=lambda *_: iter([packet]))
    decoding = Decoding(container, [packet.stream])
    assert list(decoding) == []
    assert decoding.errors.total() == num_damages
