"""Families of films for the question who stays: originals encoded coarsely and finely, and hard copies of each, in a
development half and one that is held out.

Originals are scenes of films and pans over photographs, as x264 at crf 18 to 30, MPEG-4 or VP9. Copies are those of the
table of edits, and what spoils a copy although it is encoded more finely than its original.

    python -m benchmarks.dedup_edits.video_families ../shared/data --half held-out --limit 6
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.dedup_edits.picture_families import HALVES
from benchmarks.dedup_edits.video import EDITS, Frames, encoded, keepers, originals
from mmlake.store import BlobStore

_SOME = 14  # copies of a draw
# the whole film encoded again, mostly more finely than it came: they show what it shows, and no measure knows which of
# them was first
SECOND_GENERATIONS = frozenset({"crf 10", "crf 20", "MPEG-4, finest"})
# codec and options of an original: what cameras, sites and archives make
FORMS: tuple[dict[str, Any], ...] = (
    {"crf": "18"},
    {"crf": "23"},
    {"crf": "30"},
    {"codec": "mpeg4", "quantizer": 6},
    {"codec": "libvpx-vp9"},
)


def decoded(film: bytes) -> Frames:
    import io

    import av

    with av.open(io.BytesIO(film)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def _noisy(frames: Frames, rng: np.random.Generator) -> Frames:
    return [(frame + rng.normal(0, 5, frame.shape)).clip(0, 255).astype(np.uint8) for frame in frames]


def _sharpened(frame: np.ndarray) -> np.ndarray:
    import cv2

    return cv2.addWeighted(frame, 1.6, cv2.GaussianBlur(frame, (0, 0), 1.5), -0.6, 0)


def _halved(frame: np.ndarray) -> np.ndarray:
    import cv2

    small = cv2.resize(frame, (frame.shape[1] // 2, frame.shape[0] // 2), interpolation=cv2.INTER_AREA)
    return cv2.resize(small, (frame.shape[1], frame.shape[0]), interpolation=cv2.INTER_CUBIC)


def _washed(frame: np.ndarray) -> np.ndarray:
    return (frame * 0.8 + 30).clip(0, 255).astype(np.uint8)


def copies(film: bytes, rng: np.random.Generator) -> dict[str, bytes]:
    """Edit -> film: each made of what a player shows of the original."""
    frames = decoded(film)
    found = {name: encoded(change(frames), **({"crf": "26"} | options)) for name, (change, options) in EDITS.items()}
    again = decoded(encoded(frames, crf="34"))
    return found | {
        "crf 10": encoded(frames, crf="10"),
        "crf 20": encoded(frames, crf="20"),
        "MPEG-4, finest": encoded(frames, codec="mpeg4", quantizer=2),
        "crf 34, then crf 14": encoded(again, crf="14"),
        "noise, crf 16": encoded(_noisy(frames, rng), crf="16"),
        "sharpened, crf 16": encoded([_sharpened(frame) for frame in frames], crf="16"),
        "halved and enlarged, crf 14": encoded([_halved(frame) for frame in frames], crf="14"),
        "washed out, crf 16": encoded([_washed(frame) for frame in frames], crf="16"),
        "frozen for a second": encoded(frames + [frames[-1]] * 20, crf="18"),
        "3 px cropped, crf 16": encoded([frame[4:, 4:] for frame in frames], crf="16"),
    }


def main() -> None:
    """Print who stays, of whole families and of fourteen random copies of each, with second generations and without."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with landing/ and more/")
    parser.add_argument("--half", choices=HALVES, default=HALVES[0])
    parser.add_argument("--limit", type=int, default=6, help="families")
    parser.add_argument("--draws", type=int, default=1, help="of fourteen copies, of each family and kind")
    parser.add_argument("--seed", type=int, default=12)
    arguments = parser.parse_args()
    half = HALVES.index(arguments.half)
    rng = np.random.default_rng([arguments.seed, half])
    num, beaten = Counter[str](), Counter[str]()
    kept = Counter[str]()
    sources = originals(arguments.data, rng, arguments.limit, part=slice(half, None, len(HALVES)))
    for at, frames in enumerate(sources):
        with tempfile.TemporaryDirectory() as folder:
            store = BlobStore(Path(folder))
            film = encoded(frames, **FORMS[at % len(FORMS)])
            own = store.put(film, extension="mp4")
            family = {store.put(copy, extension="mp4"): name for name, copy in copies(film, rng).items()}
            named = sorted(family, key=lambda digest: family[digest])  # not all have the same bytes in each run
            edited = [digest for digest in named if family[digest] not in SECOND_GENERATIONS]
            draws = [(named, "all copies"), (edited, "without second generations")]
            for _ in range(arguments.draws):
                draws.append((rng.choice(named, _SOME, replace=False).tolist(), f"{_SOME} copies"))
                some = rng.choice(edited, _SOME, replace=False).tolist()
                draws.append((some, f"{_SOME} without second generations"))
            for digests, size in draws:
                keeper = keepers(sorted({own, *digests}), store).get(own)
                num[size] += 1
                kept[size] += keeper is None
                if keeper is not None:
                    beaten[family[keeper]] += 1
                print(f"family {at}, {size}: {'the original' if keeper is None else family[keeper]} stays", flush=True)
    for size in num:
        print(f"{size}: the original stays in {kept[size]} of {num[size]}")
    print("stays in its place:", ", ".join(f"{name} {times}" for name, times in beaten.most_common()) or "nothing")


if __name__ == "__main__":
    main()
