"""What a film may not do to the machine that cuts it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import ffmpeg
import pytest

from mmlake.cuts import CutSettings, Span, cut_film, video
from mmlake.cuts.runner import as_file, run_ffmpeg
from mmlake.errors import UnreadableItem
from tests.cuts.counted_films import counted_film, span_of

SPAN = Span(digest="a" * 64, parent_digest="b" * 64, start_us=0, end_us=1_000_000)


@pytest.mark.parametrize(
    "playlist",
    [
        "ffconcat version 1.0\nfile '{film}'\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:4.8,\n{film}\n#EXT-X-ENDLIST\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:4.8,\nhttp://127.0.0.1:9/x.ts\n#EXT-X-ENDLIST\n",
        '<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><BaseURL>{film}</BaseURL></MPD>',
    ],
)
@pytest.mark.parametrize("ending", ["mp4", "m3u8", "txt"])
def test_a_playlist_as_a_film_opens_no_other_file(tmp_path, playlist: str, ending: str) -> None:
    film = counted_film(tmp_path / "secret.ts")
    hostile = tmp_path / f"film.{ending}"
    hostile.write_text(playlist.format(film=film))
    with pytest.raises(UnreadableItem) as raised:
        cut_film(hostile, tmp_path / "clip.mp4", SPAN, settings=CutSettings())
    assert raised.value.code == 3001
    graph = ffmpeg.input(as_file(hostile), protocol_whitelist="file,pipe", format_whitelist="mov,mpegts")
    with pytest.raises(UnreadableItem):  # nor by the program itself
        run_ffmpeg(graph.output(as_file(tmp_path / "out.mp4"), format="mp4"), settings=CutSettings(), what="the film")


def test_a_film_that_takes_too_long_is_ended(tmp_path) -> None:
    started = time.monotonic()
    endless = ffmpeg.input("testsrc=size=640x480", format="lavfi").output("-", format="null")
    with pytest.raises(UnreadableItem) as raised:
        run_ffmpeg(endless, settings=CutSettings(timeout_s=0.5), what="the film")
    assert raised.value.code == 3102
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("memory_bytes", [40 << 20, 100 << 20])  # the system has no more, and x264 says so itself
def test_a_film_that_needs_too_much_memory_is_ended(tmp_path, memory_bytes: int) -> None:
    film = counted_film(tmp_path / "film.mp4", 30, size=(1920, 1080))
    with pytest.raises(UnreadableItem) as raised:
        cut_film(film, tmp_path / "clip.mp4", span_of(film, 0, 30), settings=CutSettings(memory_bytes=memory_bytes))
    assert raised.value.code == 3103


def test_larger_pictures_may_take_more_memory(tmp_path, monkeypatch) -> None:
    """No film of 7680 x 4320 could be cut."""
    assert CutSettings().of_picture(3840 * 2160) == CutSettings()
    assert CutSettings().of_picture(7680 * 4320).memory_bytes > 5 << 30
    film, given = counted_film(tmp_path / "film.mp4", 1, size=(4800, 3200), with_sound=False), list[int]()
    monkeypatch.setattr(video, "run_ffmpeg", lambda graph, *, settings, what: given.append(settings.memory_bytes))
    with suppress(FileNotFoundError):  # nothing was cut
        cut_film(film, tmp_path / "clip.mp4", span_of(film, 0, 1), settings=CutSettings())
    assert given and min(given) > 2 << 30


def test_a_damaged_film_gives_a_clip_or_our_own_words(tmp_path) -> None:
    film = counted_film(tmp_path / "film.mp4")
    span, data = span_of(film, 30, 60), bytearray(film.read_bytes())
    for at in range(len(data) // 3, len(data) // 2, 97):
        data[at] ^= 0x55
    film.write_bytes(data)
    with suppress(UnreadableItem):
        assert cut_film(film, tmp_path / "clip.mp4", span, settings=CutSettings()).num_frames > 0


def test_the_program_ends_with_its_parent(tmp_path) -> None:
    script = textwrap.dedent("""
        import ffmpeg
        from mmlake.cuts import CutSettings
        from mmlake.cuts.runner import run_ffmpeg
        graph = ffmpeg.input("testsrc=size=64x48", format="lavfi", re=None).output("-", format="null")
        print("started", flush=True)
        run_ffmpeg(graph, settings=CutSettings(), what="the film")
    """)
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        parent.stdout.readline()
        children = []
        while not children:
            time.sleep(0.02)
            children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        time.sleep(0.3)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    for _ in range(250):
        if not _runs(int(children[0])):
            break
        time.sleep(0.02)
    assert not _runs(int(children[0]))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
