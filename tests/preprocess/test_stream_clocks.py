"""Films and recordings that were laid end to end, each with a clock of its own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import av
import numpy as np
import pytest
from films import film, flashes

from mmlake.cuts import CutSettings, Span, cut_film
from mmlake.errors import UnreadableItem
from mmlake.loader.decode import DECODERS
from mmlake.media.decoders import frames, open_media
from mmlake.preprocess.audio import audio_track
from mmlake.preprocess.containers.stream_clocks import StreamClocks
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.video import video_track

SETTINGS = PreprocessSettings()


def broadcast(path: Path, *, num_frames: int = 50, from_s: float = 0.0, has_pictures: bool = True) -> bytes:
    """MPEG-TS of 25 pictures a second, with sound, whose clock begins there."""
    tone = 0.3 * np.sin(np.arange(16_000 * num_frames // 25) * 0.1).astype(np.float32)
    times_ms = [number * 40 for number in range(num_frames)] if has_pictures else [0]
    options = {"output_ts_offset": str(from_s)}
    made = film(path, times_ms, flashes(len(times_ms)), sound=tone, container_options=options)
    if has_pictures:
        return made.read_bytes()
    import av

    with (
        av.open(str(made)) as source,
        av.open(str(sound := path.with_suffix(".sound.ts")), "w", options=options) as sink,
    ):
        copy = sink.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(source.streams.audio[0]):
            if packet.size:
                packet.stream = copy
                sink.mux(packet)
    return sound.read_bytes()


@pytest.mark.parametrize("from_s", [0.0, 900.0, 90_000.0], ids="again ahead wrapped".split())
@pytest.mark.parametrize("is_turned", [False, True], ids="first second".split())
def test_two_films_end_to_end_are_one_film(tmp_path, from_s: float, is_turned: bool) -> None:
    """Pictures were taken in turns, each moment twice, and the sound of the second was left out without a word; then
    both were refused (3011)."""
    parts = [broadcast(tmp_path / "first.ts"), broadcast(tmp_path / "second.ts", from_s=from_s, num_frames=75)]
    joined, expected = tmp_path / "joined.ts", []
    joined.write_bytes(b"".join(parts := parts[::-1] if is_turned else parts))
    for number, part in enumerate(parts):
        (path := tmp_path / f"{number}.ts").write_bytes(part)
        with av.open(str(path)) as container:
            expected += [frame.to_ndarray() for frame in container.decode(video=0)]
    with open_media(joined) as container:
        found = list(frames(container, container.streams.video[0]))
    assert len(found) == len(expected) == 125
    assert all(np.array_equal(frame.to_ndarray(), picture) for frame, picture in zip(found, expected, strict=True))
    film_track = video_track(joined, settings=SETTINGS)
    columns, steps = film_track.columns, np.diff(film_track.columns["frame_times_s"])
    assert (columns["num_frames"], columns["damages"]) == (125, [])
    before_s = columns["frame_times_s"][0]  # sound alone
    assert columns["duration_s"] - before_s == pytest.approx(5.0, abs=0.15)
    assert steps.min() == pytest.approx(0.04, abs=1e-3)
    assert sorted(steps)[-2] == pytest.approx(0.04, abs=1e-3), "one step where they meet"
    sound = DECODERS["sound"](film_track.flac)
    assert len(sound) / 16_000 == pytest.approx(5.0, abs=0.2)
    assert np.sqrt(np.mean(sound**2)) == pytest.approx(0.3 / np.sqrt(2), rel=0.06)


def test_a_clip_across_the_place_where_two_films_meet_is_cut(tmp_path) -> None:
    part = broadcast(tmp_path / "part.ts")
    (joined := tmp_path / "joined.ts").write_bytes(part * 3)
    times_s = video_track(joined, settings=SETTINGS).columns["frame_times_s"]
    start_us, end_us = (round(times_s[number] * 1e6) for number in (30, 120))
    span = Span(
        digest="a" * 64, parent_digest="b" * 64, start_us=start_us, end_us=end_us, start_frame=30, end_frame=120
    )
    clip = cut_film(joined, tmp_path / "clip.mp4", span, settings=CutSettings())
    assert (clip.num_frames, clip.is_exact) == (90, True)


def test_two_recordings_end_to_end_are_one(tmp_path) -> None:
    part = broadcast(tmp_path / "part.ts", has_pictures=False)
    (joined := tmp_path / "joined.ts").write_bytes(part + part)
    (single := tmp_path / "single.ts").write_bytes(part)
    one_s = audio_track(single, settings=SETTINGS)[0]["duration_s"]
    columns, _ = audio_track(joined, settings=SETTINGS)
    assert (columns["duration_s"], columns["damages"]) == (pytest.approx(2 * one_s, abs=0.4), [])


def test_mpeg_ps_end_to_end_is_named(tmp_path) -> None:
    part = film(tmp_path / "part.mpg", range(0, 2000, 40), flashes(50), codec="mpeg2video").read_bytes()
    (joined := tmp_path / "joined.mpg").write_bytes(part + part)
    with pytest.raises(UnreadableItem, match="packets lie behind a jump of the clock") as caught:
        video_track(joined, settings=SETTINGS)
    assert caught.value.code == 3011


@pytest.mark.parametrize(("ending", "codec"), [("mpg", "mpeg2video"), ("mkv", "libx264"), ("webm", "libvpx")])
def test_where_the_second_of_two_begins_is_said(tmp_path, ending: str, codec: str) -> None:
    """The remedy is to split the file, and the reason named no place."""
    part = film(tmp_path / f"part.{ending}", range(0, 2000, 40), flashes(50), codec=codec).read_bytes()
    (joined := tmp_path / f"joined.{ending}").write_bytes(part + part)
    with pytest.raises(UnreadableItem, match=rf"which comes at byte {len(part)}\)") as caught:
        video_track(joined, settings=SETTINGS)
    assert caught.value.code == 3011


@pytest.mark.parametrize(("ending", "codec"), [("mpg", "mpeg2video"), ("mkv", "libx264")])
def test_what_lies_behind_a_jump_is_a_place_at_the_end(tmp_path, ending: str, codec: str) -> None:
    """Packets of a short second film were places at the beginning, by their own clock: the first clip was damaged."""
    long, short = (
        film(tmp_path / f"{num}.{ending}", range(0, 40 * num, 40), flashes(num), codec=codec).read_bytes()
        for num in (500, 25)
    )
    (joined := tmp_path / f"joined.{ending}").write_bytes(long + short)
    places = video_track(joined, settings=SETTINGS).columns["damages"]
    assert places
    assert min(place["at_s"] for place in places) > 19.5


def test_other_streams_behind_the_first_are_named(tmp_path) -> None:
    """Of MPEG-TS that was joined of two programs players show the first; the second was in no row."""
    first = broadcast(tmp_path / "first.ts")
    with (
        av.open(str(tmp_path / "first.ts")) as source,
        av.open(str(tmp_path / "second.ts"), "w", options={"mpegts_start_pid": "768"}) as sink,
    ):
        copies = {stream.index: sink.add_stream_from_template(stream) for stream in source.streams}
        for packet in source.demux():
            if packet.size:
                packet.stream = copies[packet.stream.index]
                sink.mux(packet)
    (joined := tmp_path / "joined.ts").write_bytes(first + (tmp_path / "second.ts").read_bytes())
    with pytest.raises(UnreadableItem, match=f"other streams begin at byte {len(first) + 3 * 188}") as caught:
        video_track(joined, settings=SETTINGS)
    assert caught.value.code == 3012


def test_a_film_of_one_clock_has_no_packet_astray(tmp_path) -> None:
    path = tmp_path / "one.ts"
    path.write_bytes(broadcast(path, num_frames=50, from_s=95_440.0))  # its 33 bits end within it
    assert video_track(path, settings=SETTINGS).columns["damages"] == []


@pytest.mark.parametrize(
    ("format_name", "times_s", "num_astray"),
    [
        ("matroska,webm", [0, 1, 2, 900, 901], 0),  # a pause, in a format that has an index
        ("mpegts", [0, 1, 2, 900, 901], 2),
        ("mpegts", [0, 1, 2, 500, 3, 4, 5], 0),  # one wrong time
        ("mpegts", [0, 1, 2, 500, 501, 502], 0),  # a pause
        ("mpegts", [0, 1, 0.6, 2, 3], 0),  # a writer that is a little late
        ("mpegts", [0, 1, 2, 0, 1, 2, 3], 2),
        ("ogg", [0, 1, 2, 0, 1, 2], 0),  # the links of a chain
    ],
)
def test_times_that_are_over_or_cannot_follow_are_astray(
    format_name: str, times_s: list[float], num_astray: int
) -> None:
    stream = SimpleNamespace(index=0)
    clocks = StreamClocks(SimpleNamespace(format=SimpleNamespace(name=format_name)), [stream])
    found = [clocks.is_astray(SimpleNamespace(stream=stream, dts=time_s, time_base=1, pos=0)) for time_s in times_s]
    assert sum(found) == num_astray


def test_a_broadcast_that_was_joined_between_two_keyframes_is_whole_from_the_next_one_on(tmp_path) -> None:
    """HEVC with pictures before a keyframe that need what came before it was refused (3002): a third of them."""
    options = {"x265-params": "log-level=none:open-gop=1:bframes=4:keyint=25:min-keyint=25:scenecut=0:pools=1"}
    path = tmp_path / "whole.ts"
    with av.open(str(path), "w") as sink:
        stream = sink.add_stream("libx265", rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
        for picture in flashes(100, size=(128, 96)):
            sink.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        sink.mux(stream.encode())
    whole = path.read_bytes()
    with av.open(str(path)) as container:
        places = [packet.pos for packet in container.demux(video=0) if packet.size]
    (joined := tmp_path / "joined.ts").write_bytes(whole[: 2 * 188] + whole[places[30] :])
    columns = video_track(joined, settings=SETTINGS).columns
    assert (columns["num_frames"], columns["damages"], columns["num_decode_errors"]) == (50, [], 0)
