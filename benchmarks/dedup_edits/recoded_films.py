"""Of two films, which was made of the other by coding it anew: how often it is known, and how often it is wrong.

Originals of five forms (x264 at crf 18 to 30, MPEG-4, VP9), each decoded and encoded again at other steps, and the
edits of the table of edits. Two copies of one film were not made of each other.

    python -m benchmarks.dedup_edits.recoded_films ../shared/data --half held-out --limit 12
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np

from benchmarks.dedup_edits.picture_families import HALVES
from benchmarks.dedup_edits.video import Frames, encoded, originals
from benchmarks.dedup_edits.video_families import FORMS, copies, decoded
from mmlake.dedup import DedupSettings
from mmlake.dedup.video.fingerprints import fingerprint
from mmlake.dedup.video.recoding import Keyframe, keyframes_of, made_of

_AGAIN = {
    **{f"coded anew at crf {crf}": {"crf": str(crf)} for crf in (10, 16, 20, 24, 28, 34)},
    "coded anew as MPEG-4, finest": {"codec": "mpeg4", "quantizer": 2},
    "coded anew as VP9": {"codec": "libvpx-vp9"},
}


def _keyframes(folder: Path, film: bytes) -> list[Keyframe]:
    path = folder / "film.mp4"
    path.write_bytes(film)
    return keyframes_of(fingerprint(path, settings=DedupSettings())["frame-blocks"])


def _family(folder: Path, frames: Frames, at: int, rng: np.random.Generator) -> dict[str, list[Keyframe]]:
    film = encoded(frames, **FORMS[at % len(FORMS)])
    shown = decoded(film)
    films = {"": film} | {name: encoded(shown, **options) for name, options in _AGAIN.items()} | copies(film, rng)
    return {name: _keyframes(folder, data) for name, data in films.items()}


def main() -> None:
    """Print a row for each way of coding anew, and one for edits and for pairs of copies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with landing/ and more/")
    parser.add_argument("--half", choices=HALVES, default=HALVES[0])
    parser.add_argument("--limit", type=int, default=12, help="originals")
    parser.add_argument("--seed", type=int, default=12)
    arguments = parser.parse_args()
    half = HALVES.index(arguments.half)
    rng = np.random.default_rng([arguments.seed, half])
    num, known, wrong = Counter[str](), Counter[str](), Counter[str]()
    sources = originals(arguments.data, rng, arguments.limit, part=slice(half, None, len(HALVES)))
    with tempfile.TemporaryDirectory() as folder:
        for at, frames in enumerate(sources):
            family = _family(Path(folder), frames, at, rng)
            for name in family.keys() - {""}:
                kind = name if name in _AGAIN else "edits"
                num[kind] += 1
                known[kind] += made_of(family[name], family[""])
                wrong[kind] += made_of(family[""], family[name])
            for one, other in permutations(sorted(family.keys() - {""}), 2):
                num["two copies of one film"] += 1
                wrong["two copies of one film"] += made_of(family[one], family[other])
            print(f"family {at} of {arguments.limit}", flush=True)
    print("| copy | films | known | the original is called the copy |\n| --- | --- | --- | --- |")
    for kind in (*_AGAIN, "edits", "two copies of one film"):
        print(f"| {kind} | {num[kind]} | {known[kind]} | {wrong[kind]} |")


if __name__ == "__main__":
    main()
