"""Encrypted films and recordings are refused with that reason, and films whose sound does not decode are films."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from test_bad_media import H264, SCENE, TONE, Made, lavfi, made

from mmlake.errors import UnreadableItem
from mmlake.formats.matroska_checksums import element_head
from mmlake.formats.media_containers import matroska_tracks
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.audio import audio_track
from mmlake.preprocess.video import video_track

SECRET = ("-encryption_scheme", "cenc-aes-ctr", "-encryption_key", "00" * 16, "-encryption_kid", "11" * 16)
OPUS = ("-c:a", "libopus", "-ar", "48000")
PIPED = ("-f", "webm", "-live", "1", "-write_crc32", "0")  # without sizes, places and sums that would change
# ContentEncodings, ContentEncoding, ContentEncodingType: 1, encryption; 0, compression (RFC 9559, section 5.1.4.1.31)
ENCRYPTED, COMPRESSED = (bytes.fromhex(f"6d8087 624084 50338{size}") for size in ("101", "100"))
TRACKS, ENTRY = b"\x16\x54\xae\x6b", b"\xae"


def element(name: bytes, value: bytes) -> bytes:
    return name + (len(value) | 1 << 56).to_bytes(8, "big") + value


def with_encoding(data: bytes, encoding: bytes) -> bytes:
    """The WebM with these words at the end of its first track."""
    at = data.rindex(TRACKS)  # before it the list of elements may name it
    _, size, used = element_head(data[at : at + 16]) or (b"", 0, 0)
    tracks = data[at + used : at + used + (size or 0)]
    first = tracks.index(ENTRY)
    _, length, head = element_head(tracks[first : first + 16]) or (b"", 0, 0)
    end = first + head + (length or 0)
    entry = element(ENTRY, tracks[first + head : end] + encoding)
    return data[:at] + element(TRACKS, tracks[:first] + entry + tracks[end:]) + data[at + used + len(tracks) :]


def written(folder: Path, make: Made, suffix: str) -> Path:
    path = folder / f"item{suffix}"
    path.write_bytes(make(folder))
    return path


def test_an_encrypted_film_says_so(tmp_path: Path) -> None:
    """Its row said that no frame of 25 packets decodes, as of damage."""
    path = written(tmp_path, made(*lavfi(SCENE), *H264, *SECRET, suffix=".mp4"), ".mp4")
    with pytest.raises(UnreadableItem, match="num_encrypted=25 of 25 video packets") as caught:
        video_track(path, settings=PreprocessSettings())
    assert caught.value.code == 3010


def test_encrypted_sound_is_no_noise(tmp_path: Path) -> None:
    """Opus decodes whatever bytes it is given: of 59 encrypted packets it made 1.95 s of noise that passed as sound."""
    clear = written(tmp_path, made(*lavfi(TONE), *OPUS, *PIPED, suffix=".webm"), ".webm")
    assert audio_track(clear, settings=PreprocessSettings())[0]["duration_s"] == pytest.approx(1.0, abs=0.03)
    secret = tmp_path / "secret.webm"
    secret.write_bytes(with_encoding(clear.read_bytes(), ENCRYPTED))
    with pytest.raises(UnreadableItem, match="audio packets") as caught:
        audio_track(secret, settings=PreprocessSettings())
    assert caught.value.code == 3010


def test_compressed_packets_are_not_encrypted(tmp_path: Path) -> None:
    data = made(*lavfi(SCENE, TONE), "-c:v", "libvpx", *OPUS, *PIPED, suffix=".webm")(tmp_path)
    assert matroska_tracks(io.BytesIO(data)) == [("video", False), ("audio", False)]
    assert matroska_tracks(io.BytesIO(with_encoding(data, ENCRYPTED)))[0] == ("video", True)
    assert matroska_tracks(io.BytesIO(with_encoding(data, COMPRESSED)))[0] == ("video", False)


def test_a_film_whose_sound_is_encrypted_is_a_silent_film(tmp_path: Path) -> None:
    """It was refused as a whole."""
    data = made(*lavfi(TONE, SCENE), *H264, *OPUS, *PIPED[2:], "-f", "matroska", "-map", "0", "-map", "1")(tmp_path)
    (path := tmp_path / "film.mkv").write_bytes(with_encoding(data, ENCRYPTED))
    columns = video_track(path, settings=PreprocessSettings()).columns
    assert (columns["num_frames"], columns.get("audio_codec")) == (25, None)
    assert {place["what"] for place in columns["damages"]} == {"a packet of audio is encrypted"}  # type: ignore[attr-defined]


def test_a_film_whose_sound_does_not_decode_is_a_silent_film(tmp_path: Path) -> None:
    """A damaged Vorbis header left no packet of sound, and the film was refused as truncated: 67 of 92 packets."""
    data = made(*lavfi(SCENE, TONE), *H264, "-c:a", "libvorbis")(tmp_path)
    at = data.index(b"\x05vorbis") + 7
    (path := tmp_path / "film.mkv").write_bytes(data[:at] + b"\xff" * 64 + data[at + 64 :])
    film = video_track(path, settings=PreprocessSettings())
    assert (film.columns["num_frames"], film.flac) == (25, None)
    assert film.columns["damages"]
