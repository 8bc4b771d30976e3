"""Films whose container says when pictures are decoded where it should say when they are shown."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from test_avi_times import CUT, NUM, RATE, film, row_of

from mmlake.media.decoders import frames, open_media, picture_stream
from mmlake.media.stamps import Stamps
from mmlake.preprocess.containers.frame_times import frame_times

_DELAY = 2  # frames, which dts is behind pts at most


def mistimed(folder: Path, ending: str) -> Path:
    """A film of two scenes with B pictures, each packet of which is said to be shown when it is decoded."""
    import av

    right, wrong = film(folder / f"right.{ending}", num_b_frames=2), folder / f"wrong.{ending}"
    with av.open(str(right)) as source, av.open(str(wrong), "w") as sink:
        stream = source.streams.video[0]
        copied = sink.add_stream_from_template(stream)
        packets = [packet for packet in source.demux(stream) if packet.size]
        for position, packet in enumerate(packets):
            packet.pts = packet.dts = round(Fraction(position, RATE) / stream.time_base)
            packet.stream = copied
            sink.mux(packet)
    return wrong


def times_s(path: Path) -> list[float]:
    with open_media(path) as container:
        return [frame.time for frame in frames(container, picture_stream(container))]


@pytest.mark.parametrize("ending", ["mp4", "mkv"])
def test_pictures_have_the_times_of_their_order(tmp_path: Path, ending: str) -> None:
    """They went back and forth in time: every frame was said to leave others out, and clips held other pictures."""
    path = mistimed(tmp_path, ending)
    with open_media(path) as container:
        stamps = [frame.pts for frame in container.decode(video=0)]
    assert stamps != sorted(stamps)
    row = row_of(path, tmp_path)
    shown_s = np.array(row["frame_times_s"])
    assert np.diff(shown_s)[2 * _DELAY :] == pytest.approx(np.full(NUM - 1 - 2 * _DELAY, 1 / RATE), abs=2e-3)
    assert [shot["start_s"] for shot in row["shots"]] == pytest.approx([shown_s[0], shown_s[CUT]])
    assert sum(signal["num_missing"] for signal in row["signals"]) <= _DELAY


def test_clips_are_cut_at_these_times(tmp_path: Path) -> None:
    """The sorted times of packets are other ones: those of decoding begin earlier."""
    path = mistimed(tmp_path, "mp4")
    shown_us = frame_times(path, num_frames=NUM, num_errors=0, shot_starts_s=[0.0])
    assert shown_us / 1e6 == pytest.approx(times_s(path), abs=1e-6)


def test_such_a_film_is_decoded_whole(tmp_path: Path) -> None:
    """Keyframes alone do not say that times go back."""
    row = row_of(mistimed(tmp_path, "mp4"), tmp_path, decode="keyframes")
    assert (row["decoded"], row["num_frames"]) == ("all", NUM)


class Frame:
    """A picture with its times."""

    pict_type, duration, time_base = "P", 1, Fraction(1, RATE)

    def __init__(self, pts: int, dts: int) -> None:
        self.pts, self.dts = pts, dts


def test_on_a_clock_that_jumps_back_pictures_keep_their_times(tmp_path: Path) -> None:
    """Both times go back there, whichever does first."""
    with open_media(film(tmp_path / "film.mkv", num_b_frames=0)) as container:
        stamps = Stamps(container)
    shown = [Frame(8, 10), Frame(9, 11), Frame(10, 0), Frame(0, 1), Frame(1, 2)]
    for frame in shown:
        stamps.correct(frame)
    assert [frame.pts for frame in shown] == [8, 9, 10, 0, 1]
