"""CPU seconds of the whole visual track of films (decode, shots, signals, traces of damage, keyframes) next to those of
plain decode by PyAV and of PySceneDetect's AdaptiveDetector alone, and shots per detector.

    python benchmarks/av_shots.py FILM ... [--rounds N]
Every contestant runs in this process on one codec thread, one after the other in each round; the ratio is the median
over rounds of a peer's time over ours, so that above 1 ours is faster. The sound of the films is not decoded.
"""

from __future__ import annotations

import argparse
import resource
import statistics
from collections.abc import Callable
from pathlib import Path

import cv2

from mmlake.decoders import frames, open_media, picture_stream
from mmlake.preprocess.container import FrameClock
from mmlake.preprocess.planes import pixel_aspect
from mmlake.preprocess.settings import PreprocessSettings
from mmlake.preprocess.video import _Reader


def cpu_s() -> float:
    """User and system time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def plain(path: Path) -> int:
    """Decode and nothing else; the number of frames."""
    with open_media(path) as container:
        return sum(1 for _ in frames(container, picture_stream(container)))


def track(path: Path) -> int:
    """Everything that the visual track holds; the number of shots."""
    with open_media(path) as container:
        stream = picture_stream(container)
        reader = _Reader(
            clock=FrameClock(container, stream),
            aspect=pixel_aspect(stream.sample_aspect_ratio),
            settings=PreprocessSettings(),
        )
        for frame in frames(container, stream):
            reader.add(frame)
        return len(reader.finish()[0]["shots"])


def scenedetect(path: Path) -> int:
    """PySceneDetect as its own documentation runs it, on PyAV and one thread as well; the number of scenes."""
    from scenedetect import AdaptiveDetector, SceneManager, open_video

    video = open_video(str(path), backend="pyav", threading_mode="NONE")
    manager = SceneManager()
    manager.add_detector(AdaptiveDetector())
    manager.detect_scenes(video)
    return max(1, len(manager.get_scene_list()))


CONTESTANTS: dict[str, Callable[[Path], int]] = {"plain decode": plain, "scenedetect": scenedetect, "track": track}


def main(paths: list[Path], rounds: int) -> None:
    """Print one line per film and one for all."""
    cv2.setNumThreads(1)
    for contestant in CONTESTANTS.values():
        contestant(paths[0])  # imports
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
        shots = f"{found['plain decode']} frames, {found['track']} shots, scenedetect {found['scenedetect']}"
        print(f"{path.name:24} {line(used)}  {shots}", flush=True)
    print(f"{'all':24} {line(totals)}")


def line(used: dict[str, list[float]]) -> str:
    """Medians, and the ratios of both peers over the track."""
    medians = " ".join(f"{name} {statistics.median(times):6.2f} s" for name, times in used.items())
    ratios = " ".join(
        f"{statistics.median(peer / own for peer, own in zip(used[name], used['track'], strict=True)):.2f} x {name}"
        for name in ("scenedetect", "plain decode")
    )
    return f"{medians}  {ratios}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("films", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    main(given.films, given.rounds)
