"""CPU seconds of the whole visual track of films (decode, shots, signals, traces of damage, keyframes) next to those of
plain decode by PyAV and of PySceneDetect's AdaptiveDetector alone, and shots per detector; the same from keyframes and
groups between those that differ (`[preprocess] decode = "keyframes"`), and fingerprints from the frames that are kept.

    python benchmarks/av_shots.py FILM ... [--rounds N]
Every contestant runs in this process on one codec thread, one after the other in each round; the ratio is the median
over rounds of a peer's time over ours, so that above 1 ours is faster. The sound of the films is not decoded.
"""

from __future__ import annotations

import argparse
import functools
import resource
import statistics
from collections.abc import Callable
from pathlib import Path

import cv2

from mmlake.dedup import DedupSettings
from mmlake.dedup.video.fingerprints import KeptFilm, fingerprint
from mmlake.media.decoders import frames, open_media, picture_stream
from mmlake.media.film_frames import FrameKeeper
from mmlake.preprocess.containers.container import Decoding, FrameClock
from mmlake.preprocess.settings import KEYFRAMES, PreprocessSettings
from mmlake.preprocess.visual.film_reader import FilmReader
from mmlake.preprocess.visual.gops import GopReader
from mmlake.preprocess.visual.planes import pixel_aspect


def cpu_s() -> float:
    """User and system time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def plain(path: Path) -> int:
    """Decode and nothing else; the number of frames."""
    with open_media(path) as container:
        return sum(1 for _ in frames(container, picture_stream(container)))


def track(path: Path) -> int:
    """Everything that the visual track holds, small frames for fingerprints included; the number of shots."""
    with open_media(path) as container:
        stream = picture_stream(container)
        reader = FilmReader(
            clock=FrameClock(container, stream),
            aspect=pixel_aspect(stream.sample_aspect_ratio),
            settings=PreprocessSettings(),
        )
        for frame in frames(container, stream):
            reader.add(frame)
        reader.kept_frames()
        return len(reader.finish()[0]["shots"])


def groups(path: Path) -> int:
    """The track of keyframes, and of groups between those that differ; the number of shots."""
    settings = PreprocessSettings(decode=KEYFRAMES)
    with open_media(path) as container:
        stream = picture_stream(container)
        stream.codec_context.skip_frame = "NONKEY"
        reader = GopReader(
            clock=FrameClock(container, stream), aspect=pixel_aspect(stream.sample_aspect_ratio), settings=settings
        )
        for frame in Decoding(container, [stream], seen=reader.see):
            reader.add(frame)
    if not reader.read_groups(path):
        return track(path)
    return len(reader.finish()[0]["shots"])


def prints(path: Path) -> int:
    """Fingerprints of the film from the small frames of its track, which is made before the clock starts."""
    return len(fingerprint(KeptFilm(_kept(path)), settings=DedupSettings())["frame-phash"])


@functools.cache
def _kept(path: Path) -> bytes:
    keeper = FrameKeeper()
    with open_media(path) as container:
        for frame in frames(container, picture_stream(container)):
            keeper.add(frame, frame.time or 0.0)
    return keeper.packed() or b""


def scenedetect(path: Path) -> int:
    """PySceneDetect as its own documentation runs it, on PyAV and one thread as well; the number of scenes."""
    from scenedetect import AdaptiveDetector, SceneManager, open_video

    video = open_video(str(path), backend="pyav", threading_mode="NONE")
    manager = SceneManager()
    manager.add_detector(AdaptiveDetector())
    manager.detect_scenes(video)
    return max(1, len(manager.get_scene_list()))


CONTESTANTS: dict[str, Callable[[Path], int]] = {
    "plain decode": plain,
    "scenedetect": scenedetect,
    "track": track,
    "groups": groups,
    "prints": prints,
}


def main(paths: list[Path], rounds: int) -> None:
    """Print one line per film and one for all."""
    cv2.setNumThreads(1)
    for contestant in CONTESTANTS.values():
        contestant(paths[0])  # imports, and compiled code
    for path in paths:
        _kept(path)
    totals: dict[str, list[float]] = {name: [0.0] * rounds for name in CONTESTANTS}
    for path in paths:
        used: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
        found = {}
        for number in range(rounds):
            for name, contestant in CONTESTANTS.items():
                begin = cpu_s()
                found[name] = contestant(path)
                used[name].append(cpu_s() - begin)
                totals[name][number] += used[name][-1]
        num_shots = ", ".join(f"{name} {found[name]}" for name in ("track", "groups", "scenedetect"))
        shots = f"{found['plain decode']} frames; shots: {num_shots}"
        print(f"{path.name:24} {line(used)}  {shots}", flush=True)
    print(f"{'all':24} {line(totals)}")


def line(used: dict[str, list[float]]) -> str:
    """Medians, and the ratios of both peers over the track."""
    medians = " ".join(f"{name} {statistics.median(times):6.2f} s" for name, times in used.items())
    ratios = " ".join(
        f"{statistics.median(peer / own for peer, own in zip(used[name], used['track'], strict=True)):.2f} x {name}"
        for name in ("scenedetect", "plain decode")
    )
    faster, less = (
        statistics.median(left / right for left, right in zip(used[over], used[under], strict=True))
        for over, under in (("track", "groups"), ("prints", "plain decode"))
    )
    return f"{medians}  {ratios} groups {faster:.2f} x track, prints {less:.2f} of plain decode"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("films", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    main(given.films, given.rounds)
