"""How much of copies that were cut at other places stays: a long recording or film, trimmed, excerpted and edited.

    python -m benchmarks.cut_elsewhere ../shared/data/more/audio/lecture_802s.mp3 --excerpts 12

The file, a copy without its first seconds, excerpts at seeded places, one with seconds cut out of its middle and one
with its halves swapped are coded anew and land in a lake. Printed is how many seconds of all of it there are to have
(those of the file), how many stay where only pairs of units count, and how many stay now.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import av
import imageio_ffmpeg
import numpy as np
import pyarrow.parquet as pq

_TRIMMED_S, _EXCERPT_S, _CUT_S = 7.3, 22.0, 7.0


def _coded(source: Path, out: Path, *, is_film: bool, parts: list[tuple[float, float]]) -> None:
    """These parts of the source, one after the other, at another rate and size."""
    chains, labels = [], ""
    for at, (start, end) in enumerate(parts):
        if is_film:
            chains.append(f"[0:v]trim={start:.3f}:{end:.3f},setpts=PTS-STARTPTS,scale=640:-2[v{at}]")
            labels += f"[v{at}]"
        chains.append(f"[0:a]atrim={start:.3f}:{end:.3f},asetpts=PTS-STARTPTS[a{at}]")
        labels += f"[a{at}]"
    outputs = ["[v]", "[a]"] if is_film else ["[a]"]
    chains.append(f"{labels}concat=n={len(parts)}:v={int(is_film)}:a=1{''.join(outputs)}")
    maps = [word for output in outputs for word in ("-map", output)]
    codecs = ["-c:v", "libx264", "-preset", "veryfast", "-crf", "26"] if is_film else []
    graph = ["-filter_complex", ";".join(chains), *maps, *codecs, "-c:a", "aac", "-b:a", "64k"]
    subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", "-i", source, *graph, out], check=True)


def _land(source: Path, root: Path, *, num: int, seed: int) -> float:
    """The landing zone; how long the source is."""
    with av.open(str(source)) as container:
        length_s = container.duration / 1e6
        is_film = bool(container.streams.video) and source.suffix != ".mp3"
    ending = "mp4" if is_film else "m4a"
    (root / source.name).write_bytes(source.read_bytes())
    rng = np.random.default_rng(seed)
    starts = rng.uniform(0, length_s - 30, num + 2)
    edits = {"trimmed": [(_TRIMMED_S, length_s)]}
    edits |= {f"excerpt{at}": [(start, start + _EXCERPT_S)] for at, start in enumerate(starts[:num])}
    cut, swapped = starts[num:]
    edits["cut_out"] = [(cut, cut + 10), (cut + 10 + _CUT_S, cut + 20 + _CUT_S)]
    edits["swapped"] = [(swapped + 12, swapped + 24), (swapped, swapped + 12)]
    for name, parts in edits.items():
        _coded(source, root / f"{name}.{ending}", is_film=is_film, parts=parts)
    return length_s


def main() -> None:
    """Print the seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--excerpts", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "landing").mkdir()
        length_s = _land(args.source, root / "landing", num=args.excerpts, seed=args.seed)
        command = [sys.executable, "-c", "from mmlake_assets.console import entry; entry()", "run"]
        places = ["--lake", root / "lake", "--landing", root / "landing"]
        subprocess.run([*command, *places], check=True, capture_output=True)
        found = {one: list((root / "lake/tables/units" / one).glob("*.parquet")) for one in ("audio", "video")}
        modality = max(found, key=lambda one: len(found[one]))
        tables = root / "lake/tables"
        units = pq.read_table(found[modality][0]).to_pylist()
        pairs = pq.read_table(next((tables / "near_duplicates" / modality).glob("*.parquet"))).to_pylist()
    seconds = {unit["digest"]: (unit["end"] - unit["start"]) / 1e6 for unit in units if not unit["gap"]}
    for name, relations in (("by pairs of units", ("same", "inside")), ("now", ("same", "inside", "across"))):
        gone = {pair["right"] for pair in pairs if pair["relation"] in relations}
        stays_s = sum(length for digest, length in seconds.items() if digest not in gone)
        print(f"{name}: {stays_s:.0f} of {sum(seconds.values()):.0f} s stay, {stays_s / length_s:.2f} of the file's")


if __name__ == "__main__":
    main()
