"""The steps that decode, with worker processes and without: wall seconds and CPU seconds (user + system, of all
processes), median of the rounds, ratios within the rounds.

    python benchmarks/workers.py pictures DIRECTORY [num_pictures] [rounds]
    python benchmarks/workers.py films [num_clips] [rounds]
pictures: JPEGs of 640 to 1,280 px, cut out of the pictures in the directory, in eight tars. films: generated clips of
20 s, 640x360, with sound. Each contestant is a process of its own, in turn. The clock runs over all steps of the
modality from tracks on; what starting the workers takes is in it.
"""

from __future__ import annotations

import io
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

NUM_TARS, CLIP_S, RATE_HZ, SIDES_PX = 8, 20, 48_000, (640, 1280)


def make_pictures(source: Path, landing: Path, num_pictures: int) -> None:
    """Tars of pictures cut out of those in the directory."""
    from PIL import Image

    rng = random.Random(0)
    found = sorted(path for path in source.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png", ".webp"))
    originals = []
    for path in found:
        with Image.open(path) as picture:
            if min(picture.size) >= 200:
                originals.append(picture.convert("RGB"))
    if not originals:
        raise SystemExit(f"{source} has no picture of 200 px or more")
    landing.mkdir(parents=True)
    for tar in range(NUM_TARS):
        with tarfile.open(landing / f"pictures-{tar}.tar", "w") as file:
            for number in range(tar, num_pictures, NUM_TARS):
                picture = rng.choice(originals)
                width, height = (rng.randint(200, side) for side in picture.size)
                left, top = rng.randint(0, picture.width - width), rng.randint(0, picture.height - height)
                scale = rng.randint(*SIDES_PX) / max(width, height)
                cut = picture.crop((left, top, left + width, top + height))
                buffer = io.BytesIO()
                cut.resize((round(width * scale), round(height * scale))).save(buffer, "JPEG", quality=88)
                info = tarfile.TarInfo(f"{number:06d}.jpg")
                info.size = len(buffer.getvalue())
                buffer.seek(0)
                file.addfile(info, buffer)


def make_films(landing: Path, num_clips: int) -> None:
    """Clips of drifting texture with a cut every four seconds, and a tone."""
    import av
    import numpy as np

    landing.mkdir(parents=True)
    for clip in range(num_clips):
        rng = np.random.default_rng(clip)
        with av.open(str(landing / f"clip-{clip}.mp4"), "w") as container:
            film = container.add_stream("libx264", rate=25, options={"preset": "veryfast"})
            film.width, film.height, film.pix_fmt = 640, 360, "yuv420p"
            sound = container.add_stream("aac", rate=RATE_HZ)
            for at in range(CLIP_S * 25):
                if at % 100 == 0:
                    texture = rng.integers(0, 256, (48, 80, 3), np.uint8).repeat(12, 0).repeat(12, 1)
                frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(texture[at : at + 360, at : at + 640]))
                container.mux(film.encode(frame))
            times = np.arange(CLIP_S * RATE_HZ) / RATE_HZ
            tone = (0.3 * np.sin(2 * np.pi * (220 + 40 * clip) * times)).astype(np.float32)
            for start in range(0, len(tone), 1024):
                part = av.AudioFrame.from_ndarray(tone[None, start : start + 1024], format="fltp", layout="mono")
                part.sample_rate, part.pts = RATE_HZ, start
                container.mux(sound.encode(part))
            container.mux(film.encode(None))
            container.mux(sound.encode(None))


def contest(landing: str, lake_dir: str, modality: str, workers: str) -> None:
    """Make the tables; prints the seconds, and the versions of the tables. workers: 0 for none."""
    from mmlake import pipeline
    from mmlake.lake import Lake
    from mmlake.modalities import MODALITIES
    from mmlake.steps import row_steps, run_step
    from mmlake.tables import Slot

    if workers == "0":
        from mmlake.border import InProcess

        lake = Lake(lake_dir, landing=landing, runner=InProcess())
    else:
        from mmlake.settings import Settings

        lake = Lake(lake_dir, landing=landing, settings=Settings.of({"compute": {"workers": int(workers)}}))
    pipeline.refresh(lake)
    shards = lake.registry.keys(modality)
    bringing_in, steps = [], []
    for step in row_steps(MODALITIES[modality]):
        (bringing_in if step.name in ("items", "blobs") else steps).append(step)
    for shard in shards:
        for step in bringing_in:
            run_step(step, lake, modality, shard)
    cpu_s, started = _cpu_s(), time.perf_counter()
    for step in steps:
        if workers == "0":
            for shard in shards:
                run_step(step, lake, modality, shard)
        else:
            from mmlake.steps import run_shards

            for _, made in run_shards(step, lake, modality, shards):
                if isinstance(made, BaseException):
                    raise made
    wall_s = time.perf_counter() - started
    if workers != "0":
        from mmlake.workers.fork_client import fork_server

        lake.close()
        fork_server().close()  # waited for, it is counted with its workers
    versions = {
        step.name: [lake.tables.stamp(Slot(step.name, modality, shard)).data_version for shard in shards]
        for step in steps
    }
    print(json.dumps({"wall_s": wall_s, "cpu_s": _cpu_s() - cpu_s, "versions": versions}))


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure(landing: Path, modality: str, rounds: int) -> None:
    """Run the contestants in turn and print a table."""
    tree = Path(__file__).resolve().parent.parent
    contestants = {"one process": "0", "1 worker": "1", "2 workers": "2"}
    if (cores := len(os.sched_getaffinity(0))) > 2:
        contestants[f"{cores} workers"] = str(cores)
    found: dict[str, list[dict]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, workers in contestants.items():
            with tempfile.TemporaryDirectory() as lake:
                command = [sys.executable, __file__, "contest", str(landing), f"{lake}/lake", modality, workers]
                done = subprocess.run(
                    command, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True
                )
            if done.returncode:
                raise SystemExit(done.stderr)
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
            one = found[name][-1]
            print(f"  {name}: {one['wall_s']:.2f} s wall, {one['cpu_s']:.2f} s CPU", file=sys.stderr)
    base = found["one process"]
    print("| | wall s | CPU s | wall, of one process | CPU, of one process |\n| --- | --- | --- | --- | --- |")
    for name, runs in found.items():
        middle = {key: statistics.median(run[key] for run in runs) for key in ("wall_s", "cpu_s")}
        faster = statistics.median(one["wall_s"] / run["wall_s"] for one, run in zip(base, runs, strict=True))
        more = statistics.median(run["cpu_s"] / one["cpu_s"] for one, run in zip(base, runs, strict=True))
        print(f"| {name} | {middle['wall_s']:.2f} | {middle['cpu_s']:.2f} | {faster:.2f} x faster | {more:.3f} x |")
    same = {json.dumps(run["versions"]) for name, runs in found.items() if name != "one process" for run in runs}
    print(f"\ntables of 1 and 2 workers are {'equal' if len(same) == 1 else 'DIFFERENT'}", end="")
    print(f", and {'equal to' if same == {json.dumps(base[0]['versions'])} else 'not of the schema of'} one process")


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "contest":
        contest(*rest)
    else:
        with tempfile.TemporaryDirectory() as directory:
            landing = Path(directory) / "landing"
            if kind == "pictures":
                place, *rest = rest
                make_pictures(Path(place), landing, int(rest[0]) if rest else 2000)
            else:
                make_films(landing, int(rest[0]) if rest else 6)
            rounds = int(rest[1]) if len(rest) > 1 else 3
            measure(landing, "image" if kind == "pictures" else "video", rounds)
