"""Clips of films whose sound cannot be decoded are silent, and of two sounds the one that can be is played."""

from __future__ import annotations

import subprocess
from pathlib import Path

import av
import imageio_ffmpeg
import pytest

from mmlake.cuts import CutSettings, cut_film
from mmlake.cuts.runner import program
from mmlake.media.decoders import open_media, playable_sound, sound_stream
from tests.cuts.counted_films import counted_film, span_of

SECRET = ("-encryption_scheme", "cenc-aes-ctr", "-encryption_key", "00" * 16, "-encryption_kid", "11" * 16)


def with_sounds(folder: Path, *codecs: str) -> Path:
    """A film of counted frames with a tone by each of these codecs, and the header of the first one damaged if that is
    Vorbis."""
    silent, film = counted_film(folder / "silent.mkv"), folder / "film.mkv"
    words = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", "-i", str(silent)]
    for number, _ in enumerate(codecs):
        words += ["-f", "lavfi", "-i", f"sine={300 * (number + 1)}:duration=4:sample_rate=48000"]
    words += ["-map", "0:v", "-c:v", "copy"]
    for number, codec in enumerate(codecs):
        words += ["-map", f"{number + 1}:a", f"-c:a:{number}", codec]
    subprocess.run([*words, "-disposition:a:0", "default", str(film)], check=True, stdin=subprocess.DEVNULL)
    data = film.read_bytes()
    if (at := data.find(b"\x05vorbis") + 7) > 7:
        film.write_bytes(data[:at] + b"\xff" * 64 + data[at + 64 :])
    return film


def streams_of(clip: Path) -> tuple[int, int]:
    with av.open(str(clip)) as container:
        return len(container.streams.video), len(container.streams.audio)


def test_a_film_whose_sound_does_not_decode_is_cut_to_silent_clips(tmp_path) -> None:
    """The program ended with status 183, and no clip of such a film came into a version (3303)."""
    film = with_sounds(tmp_path, "libvorbis")
    cut_film(film, tmp_path / "clip.mp4", span_of(film, 25, 50), settings=CutSettings())
    assert streams_of(tmp_path / "clip.mp4") == (1, 0)


def test_a_film_whose_sound_is_encrypted_is_cut_to_silent_clips(tmp_path) -> None:
    """MP4 says of each packet whether it is."""
    film, secret = with_sounds(tmp_path, "aac"), tmp_path / "film.mp4"
    words = ["-v", "error", "-y", "-i", str(film), "-c", "copy", *SECRET, str(secret)]
    subprocess.run([program(), *words], check=True, stdin=subprocess.DEVNULL)
    with open_media(secret) as container:
        assert sound_stream(container) is not None
        assert playable_sound(container) is None


@pytest.mark.parametrize(("codecs", "played"), [(("libvorbis", "aac"), "aac"), (("aac", "libopus"), "aac")])
def test_of_two_sounds_one_that_can_be_decoded_is_played(tmp_path, codecs: tuple[str, ...], played: str) -> None:
    """The first is marked as default, and was played whether it decodes or not."""
    with open_media(with_sounds(tmp_path, *codecs)) as container:
        found = playable_sound(container)
        assert found is not None
        assert found.codec_context.name == played
