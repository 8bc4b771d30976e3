"""One decode of a video gives its size, its times, its shots, its keyframes and its sound."""

from __future__ import annotations

import io
from fractions import Fraction

import av
import numpy as np
import pytest
import simplejpeg
from films import film, flashes
from preprocess_media import scene, tone, video

from mmlake.errors import UnreadableItem
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.containers.bare_streams import is_of_a_pipe
from mmlake.preprocess.video import video_track
from mmlake.preprocess.visual.planes import oriented_size
from mmlake.preprocess.visual.signals import Signals

SETTINGS = PreprocessSettings()
TWO_SHOTS = [*scene(1, 40), *scene(2, 35)]


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    path = tmp_path_factory.mktemp("clip") / "a.mp4"
    video(path, TWO_SHOTS, sound=[(0.0, tone(3))])
    return path


@pytest.fixture(scope="module")
def decoded(clip):
    return video_track(clip, settings=SETTINGS)


def piped(frames, container: str, codec: str, sound: str) -> bytes:
    """The film as a writer leaves it that cannot go back to the header."""

    class Pipe:
        def __init__(self) -> None:
            self.data = bytearray()

        def write(self, data: bytes) -> int:
            self.data += data
            return len(data)

    pipe = Pipe()
    with av.open(pipe, "w", format=container) as sink:
        stream = sink.add_stream(codec, rate=25)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        track = sink.add_stream(sound, rate=44100, layout="mono", options={"b": "64k"})
        for index, frame in enumerate(frames):
            picture = av.VideoFrame.from_ndarray(frame, format="rgb24")
            picture.pts, picture.time_base = index, Fraction(1, 25)
            sink.mux(stream.encode(picture))
        sink.mux(stream.encode())
        samples = (tone(len(frames) / 25, 44100) * 32767).astype(np.int16)
        fifo = av.AudioResampler(format=track.format, layout="mono", rate=44100)
        for offset in range(0, len(samples), 1024):
            piece = av.AudioFrame.from_ndarray(samples[None, offset : offset + 1024], format="s16", layout="mono")
            piece.sample_rate, piece.pts, piece.time_base = 44100, offset, Fraction(1, 44100)
            for one in fifo.resample(piece):
                sink.mux(track.encode(one))
        sink.mux(track.encode())
    return bytes(pipe.data)


def code_of(path, data, settings=SETTINGS):
    path.write_bytes(data)
    with pytest.raises(UnreadableItem) as caught:
        video_track(path, settings=settings)
    return caught.value.code


def test_size_count_rate_and_duration_are_those_of_the_stream(decoded):
    columns = decoded.columns
    assert (columns["width_px"], columns["height_px"], columns["num_frames"]) == (320, 240, 75)
    assert columns["frame_rate"] == pytest.approx(25)
    assert columns["duration_s"] == pytest.approx(3.0)


def test_shots_cover_the_stream_and_meet_at_the_cut(decoded):
    shots = decoded.columns["shots"]
    assert [shot["transition"] for shot in shots] == ["start", "cut"]
    assert shots[0]["end_s"] == shots[1]["start_s"] == pytest.approx(40 / 25)


def test_signals_come_at_most_eight_times_a_second(decoded):
    times = np.array([row["time_s"] for row in decoded.columns["signals"]])
    assert np.diff(times).min() >= 1 / 8 - 1e-4
    assert times[-1] > 2.7


def test_each_shot_has_its_first_frame_and_one_near_its_middle(decoded):
    times = {shot: [frame.time_s for frame in decoded.keyframes if frame.shot == shot] for shot in (0, 1)}
    assert times[0][0] == 0.0
    assert times[1][0] == pytest.approx(1.6)
    assert min(abs(time - 0.8) for time in times[0]) <= 0.3
    assert min(abs(time - 2.3) for time in times[1]) <= 0.3


def test_keyframes_show_what_was_filmed(decoded):
    shown = simplejpeg.decode_jpeg(decoded.keyframes[0].jpeg).astype(float)
    assert np.abs(shown - TWO_SHOTS[0]).mean() < 12


def test_the_sound_is_extracted(decoded):
    assert decoded.flac is not None
    assert decoded.columns["audio_codec"] == "aac"
    assert decoded.columns["sample_rate_hz"] == 16000


def _plain(value: object) -> object:
    """Arrays as lists, which have one answer to whether they are equal."""
    return list(value) if isinstance(value, (np.ndarray, Signals)) else value


def test_everything_is_the_same_each_time(clip, decoded):
    again = video_track(clip, settings=SETTINGS)
    one, other = ({name: _plain(value) for name, value in film.columns.items()} for film in (again, decoded))
    assert one == other
    assert again.flac == decoded.flac
    assert again.keyframes == decoded.keyframes


def test_large_frames_make_keyframes_of_at_most_512_px(tmp_path):
    video(tmp_path / "a.mp4", scene(3, 5, size=(1280, 720)))
    first = video_track(tmp_path / "a.mp4", settings=SETTINGS).keyframes[0]
    assert simplejpeg.decode_jpeg_header(first.jpeg)[:2] == (288, 512)


def test_the_number_of_keyframes_is_bounded(tmp_path):
    frames = [frame for seed in range(12) for frame in scene(seed, 8, size=(96, 72), noise=0)]
    video(tmp_path / "a.mp4", frames)
    assert len(video_track(tmp_path / "a.mp4", settings=PreprocessSettings(max_keyframes=5)).keyframes) == 5


def test_a_still_clip_has_one_keyframe(tmp_path):
    video(tmp_path / "a.mp4", [TWO_SHOTS[0]] * 50)
    assert len(video_track(tmp_path / "a.mp4", settings=SETTINGS).keyframes) == 1


def test_times_follow_the_clock_of_a_stream_with_a_variable_rate(tmp_path):
    sink = av.open(str(tmp_path / "a.mkv"), "w")
    stream = sink.add_stream("libx264", rate=25, options={"preset": "ultrafast"})
    stream.width, stream.height, stream.pix_fmt, stream.codec_context.time_base = 320, 240, "yuv420p", Fraction(1, 1000)
    at_ms = [*range(0, 1000, 40), *range(1000, 3000, 100)]
    for frame, pts in zip([*scene(1, 25), *scene(2, 20)], at_ms, strict=True):
        picture = av.VideoFrame.from_ndarray(frame, format="rgb24")
        picture.pts, picture.time_base = pts, Fraction(1, 1000)
        sink.mux(stream.encode(picture))
    sink.mux(stream.encode())
    sink.close()
    shots = video_track(tmp_path / "a.mkv", settings=SETTINGS).columns["shots"]
    assert [shot["start_s"] for shot in shots] == pytest.approx([0.0, 1.0], abs=0.002)


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "avi"])
def test_half_a_file_is_truncated(tmp_path, suffix):
    data = video(tmp_path / f"a.{suffix}", TWO_SHOTS)
    assert code_of(tmp_path / f"b.{suffix}", data[: len(data) // 2]) == 3002


@pytest.mark.parametrize(
    ("container", "codec", "sound"),
    [("avi", "mpeg4", "mp3"), ("avi", "mjpeg", "pcm_s16le"), ("asf", "wmv2", "wmav2"), ("asf", "msmpeg4v3", "mp3")],
)
def test_a_film_that_was_written_to_a_pipe_is_read_to_its_end(tmp_path, container: str, codec: str, sound: str):
    """Its header says that AVI has 2^30 frames, and of ASF a length that is not valid."""
    path = tmp_path / f"a.{container}"
    path.write_bytes(piped(TWO_SHOTS, container, codec, sound))
    with av.open(str(path)) as opened:
        assert is_of_a_pipe(opened)
    columns = video_track(path, settings=SETTINGS).columns
    assert (columns["num_frames"], columns["container_duration_s"]) == (75, None)
    assert columns["duration_s"] == pytest.approx(3.0, abs=0.15)
    with pytest.raises(UnreadableItem, match=r"num_frames=51 not in \[1, 50\]"):  # counted while they are read
        video_track(path, settings=PreprocessSettings(max_frames=50))


@pytest.mark.parametrize("suffix", ["avi", "asf", "mkv"])
def test_a_film_whose_writer_came_back_to_the_header_is_held_to_it(tmp_path, suffix: str):
    video(path := tmp_path / f"a.{suffix}", TWO_SHOTS)
    with av.open(str(path)) as opened:
        assert not is_of_a_pipe(opened)


def test_an_mp4_with_its_index_in_front_is_truncated_when_cut_late(tmp_path):
    data = video(tmp_path / "a.mp4", TWO_SHOTS, options={"movflags": "faststart"})
    assert code_of(tmp_path / "b.mp4", data[: int(len(data) * 0.95)]) == 3002


def test_a_stream_shorter_than_its_header_is_truncated(tmp_path):
    data = bytearray(video(tmp_path / "a.mkv", TWO_SHOTS))
    at = data.index(b"\x44\x89\x88") + 3  # the duration of the segment, a double in milliseconds
    data[at : at + 8] = np.array([9000.0], ">f8").tobytes()
    assert code_of(tmp_path / "b.mkv", bytes(data)) == 3002


def test_scattered_damage_is_counted_and_heavy_damage_is_refused(tmp_path, clip):
    data, rng = bytearray(clip.read_bytes()), np.random.default_rng(0)
    start = data.index(b"mdat") + 4
    for at in rng.integers(start + 2000, start + 100_000, 400):
        data[at] ^= 0xFF
    assert code_of(tmp_path / "b.mp4", bytes(data)) == 3002


def test_the_pixel_budget_holds_for_video(tmp_path, clip):
    assert code_of(tmp_path / "b.mp4", clip.read_bytes(), PreprocessSettings(max_pixels=320 * 240 - 1)) == 3004


def test_sound_alone_is_no_video(tmp_path):
    sink = io.BytesIO()
    with av.open(sink, "w", format="matroska") as container:
        stream = container.add_stream("pcm_s16le", rate=16000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1600), np.int16), format="s16", layout="mono")
        frame.sample_rate, frame.pts = 16000, 0
        container.mux(stream.encode(frame))
    assert code_of(tmp_path / "a.mkv", sink.getvalue()) == 3003


@pytest.mark.parametrize(("sound_s", "is_named"), [(3.9, False), (4.2, True), (30.0, True)])
def test_sound_that_goes_on_behind_the_pictures_is_named(tmp_path, sound_s, is_named):
    """A minute of it was in no clip and in no gap, and nothing said so."""
    path = film(tmp_path / "talk.mp4", range(0, 2000, 40), flashes(50), sound=tone(sound_s))
    places = video_track(path, settings=PreprocessSettings()).columns["damages"]
    assert [(one["what"][:14], one["at_s"]) for one in places] == [("sound goes on ", pytest.approx(1.96))] * is_named


@pytest.mark.parametrize(("rotation", "size"), [(0, (4, 3)), (90, (3, 4)), (-90, (3, 4)), (180, (4, 3))])
def test_a_turned_phone_swaps_the_sides(rotation, size):
    assert oriented_size(4, 3, rotation) == size
