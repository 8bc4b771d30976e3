"""Joins of what is all alike: CPU seconds and memory of each tier on degenerate corpora, at a quarter and at full size.

    python benchmarks/dedup_size.py                     all cases
    python benchmarks/dedup_size.py text/heap --scale .2

Each case runs in a process of its own. `growth` is CPU at full size over CPU at a quarter: 4 is linear. `bytes per
unit` is the peak beyond the prints themselves. `left` is how many units stay.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from mmlake.dedup import DedupSettings, tiers_of
from mmlake.dedup.leaders import stars
from mmlake.dedup.prints import PrintTable, Ragged, digests_of
from mmlake.dedup.survivors import by_digest
from mmlake.dedup.vectors import VectorMatcher

SETTINGS = DedupSettings()
Made = tuple[str, PrintTable]


def _prints(modality: str, subjects: list[object], num: int) -> Made:
    """The prints of the subjects, repeated until there are so many units."""
    (tier,) = tiers_of(modality)
    made = [tier.fingerprint([one], SETTINGS)[0] for one in subjects]
    rows = np.arange(num) % len(made)
    return modality, {
        method: Ragged.of([one.get(method, np.empty(0, np.uint64)) for one in made]).take(rows)
        for method in tier.methods
    }


def _texts(pages: list[str]) -> Made:
    (tier,) = tiers_of("text")
    made = [one for low in range(0, len(pages), 1_024) for one in tier.fingerprint(pages[low : low + 1_024], SETTINGS)]
    return "text", {method: Ragged.of([one[method] for one in made]) for method in tier.methods}


def _words(rng: random.Random, num: int) -> list[str]:
    return ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(num)]


def _identical(num: int) -> Made:
    return _texts([" ".join(_words(random.Random(1), 80))] * num)


def _heap(num: int) -> Made:
    """Texts within the bound of one: two of its eighty words replaced."""
    rng = random.Random(2)
    base = _words(rng, 80)
    pages = [" ".join(base)]
    for _ in range(num - 1):
        page = list(base)
        for at in rng.sample(range(80), 2):
            page[at] = _words(rng, 1)[0]
        pages.append(" ".join(page))
    return _texts(pages)


def _templates(num: int) -> Made:
    """Pages of one template, each with a passage of its own."""
    rng = random.Random(3)
    before, behind = _words(rng, 50), _words(rng, 30)
    return _texts([" ".join((*before, *_words(rng, 25), *behind)) for _ in range(num)])


def _empty(num: int) -> Made:
    return _texts([""] * num)


def _picture(plane: np.ndarray) -> bytes:
    from PIL import Image

    sink = io.BytesIO()
    Image.fromarray(plane.astype(np.uint8)).save(sink, "PNG")
    return sink.getvalue()


def _black(num: int) -> Made:
    return _prints("image", [_picture(np.zeros((64, 64)))], num)


def _static(num: int) -> Made:
    """One scene, each time with other noise."""
    rng = np.random.default_rng(4)
    scene = np.kron(rng.integers(30, 220, (12, 16)), np.ones((10, 10)))
    noisy: list[object] = [_picture((scene + rng.normal(0, 4, scene.shape)).clip(0, 255)) for _ in range(250)]
    return _prints("image", noisy, num)


def _sound(samples: np.ndarray) -> bytes:
    import soundfile

    sink = io.BytesIO()
    soundfile.write(sink, samples, 16_000, format="WAV", subtype="PCM_16")
    return sink.getvalue()


def _hum(num: int) -> Made:
    times_s = np.arange(32_000) / 16_000
    return _prints("audio", [_sound(0.3 * np.sin(2 * np.pi * hz * times_s)) for hz in (50, 60, 100, 120)], num)


def _clips(num: int) -> Made:
    """Short recordings with one noise floor and one beep."""
    rng = np.random.default_rng(5)
    times_s = np.arange(24_000) / 16_000
    beep = 0.3 * np.sin(2 * np.pi * 900 * times_s) * (times_s < 0.5)
    clips: list[object] = [_sound(beep + rng.normal(0, 0.01, len(beep))) for _ in range(100)]
    return _prints("audio", clips, num)


CASES: dict[str, tuple[Callable[[int], Made] | None, int]] = {
    "text/identical": (_identical, 100_000),
    "text/heap": (_heap, 100_000),
    "text/templates": (_templates, 100_000),
    "text/empty": (_empty, 50_000),
    "image/black": (_black, 20_000),
    "image/static": (_static, 20_000),
    "audio/hum": (_hum, 20_000),
    "audio/clips": (_clips, 20_000),
    "vectors/heap": (None, 100_000),
}


def _measure(case: str, num: int) -> None:
    """Print what the join of one case costs."""
    make, _ = CASES[case]
    who = by_digest([f"{at:08d}" for at in range(num)])
    if make is None:
        rng = np.random.default_rng(6)
        vectors = (rng.normal(size=64) + rng.normal(0, 0.15, (num, 64))).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    else:
        modality, prints = make(num)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin_s = time.process_time()
    if make is None:
        matcher = VectorMatcher(vectors, who.order(), bound=0.9, settings=SETTINGS)
        found = stars(matcher, who, equal=np.zeros((num, 2), np.uint64))
    else:
        (tier,) = tiers_of(modality)
        found = stars(tier.made_matcher(prints, SETTINGS), who, equal=digests_of(prints))
    used_s = time.process_time() - begin_s
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gone = sum(relation in (1, 2) for relation in found.relation)
    print(json.dumps({"cpu_s": used_s, "bytes_per_unit": (peak - held) * 1024 / num, "left": num - gone}))


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes (default: 1)")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        _measure(arguments.cases[0], arguments.measure)
        return
    print("| case | units | CPU s | growth | bytes per unit | left |\n| --- | --- | --- | --- | --- | --- |")
    for case in arguments.cases or CASES:
        full = int(CASES[case][1] * arguments.scale)
        runs = []
        for num in (full // 4, full):
            command = [sys.executable, __file__, case, "--measure", str(num)]
            runs.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        growth = runs[1]["cpu_s"] / max(runs[0]["cpu_s"], 1e-3)
        row = (case, f"{full:,}", f"{runs[1]['cpu_s']:.1f}", f"{growth:.1f}", f"{runs[1]['bytes_per_unit']:,.0f}")
        print("| " + " | ".join((*row, f"{runs[1]['left']:,}")) + " |", flush=True)


if __name__ == "__main__":
    main()
