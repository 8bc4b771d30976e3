"""One film in many renditions, one recording at many rates: whether the first of each stays, in a lake.

    python -m benchmarks.dedup_edits.renditions [--enlarged] FILE [FILE ...]

Of each film, eight seconds by x264 at crf 20, and those at .75, .5 and .33 of the size at crf 23; with --enlarged those
at 1.25 to 2.25 times the size at crf 18, and at half of it. Of each recording, twenty seconds as MP3 of 320, 192, 128
and 64 kbit/s, so it should be one that was not coded coarsely.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mmlake import pipeline
from mmlake.lake import Lake
from mmlake.tables import Slot

_FACTORS, _RATES, _FILMS = (0.75, 0.5, 0.33), (320, 192, 128, 64), (".mp4", ".mkv", ".webm", ".mov", ".avi")
_ENLARGED = (1.25, 1.3, 1.5, 1.8, 2.0, 2.25)


def ffmpeg(*arguments: str | Path) -> None:
    """Run it."""
    from imageio_ffmpeg import get_ffmpeg_exe

    subprocess.run([get_ffmpeg_exe(), "-v", "error", "-y", *map(str, arguments)], check=True)


def film(source: Path, target: Path, factors: Sequence[float]) -> None:
    """The first rendition, then those of other sizes."""
    first = target / f"{source.stem}-0.mp4"
    ffmpeg("-i", source, "-t", "8", "-c:v", "libx264", "-crf", "20", "-an", first)
    for at, factor in enumerate(factors, 1):
        scale = f"scale=trunc(iw*{factor}/2)*2:trunc(ih*{factor}/2)*2"
        crf = "23" if factor < 1 else "18"
        ffmpeg("-i", first, "-vf", scale, "-c:v", "libx264", "-crf", crf, target / f"{source.stem}-{at}.mp4")


def recording(source: Path, target: Path) -> None:
    """The highest rate first."""
    for at, rate in enumerate(_RATES):
        path = target / f"{source.stem}-{at}.mp3"
        ffmpeg("-ss", "5", "-t", "20", "-i", source, "-map", "0:a:0", "-c:a", "libmp3lame", "-b:a", f"{rate}k", path)


def kept(lake: Lake, modality: str) -> tuple[dict[str, str], list[str]]:
    """(name of each file that goes by the name of the one that stays for it, all names)."""
    names = {
        row["digest"]: Path(json.loads(row["source_ref"])["path"]).stem
        for row in lake.tables.concat("items", modality, columns=["digest", "source_ref"]).to_pylist()
    }
    clusters = lake.tables.read(Slot("duplicate_clusters", modality)).to_pylist()
    found = {names[row["digest"]]: names[row["survivor"]] for row in clusters if row["digest"] in names}
    return found, sorted(names.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--enlarged", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        zone = Path(folder) / "landing" / "media"
        zone.mkdir(parents=True)
        for at, path in enumerate(asked.files):
            if path.suffix.lower() in _FILMS:
                film(path, zone, (_ENLARGED[at % len(_ENLARGED)], 0.5) if asked.enlarged else _FACTORS)
            else:
                recording(path, zone)
        lake = Lake(Path(folder) / "lake", landing=zone.parent)
        pipeline.refresh(lake)
        pipeline.run_tables(lake)
        for modality in ("video", "audio"):
            survivors, names = kept(lake, modality)
            firsts = [name for name in names if name.endswith("-0")]
            stays = [survivors.get(name, name) == name for name in firsts]
            if firsts:
                print(f"{modality}: the first stays in {sum(stays)} of {len(firsts)}")


if __name__ == "__main__":
    main()
