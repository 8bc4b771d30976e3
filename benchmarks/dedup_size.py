"""Joins of what is all alike: CPU seconds and memory of each tier on degenerate corpora, at a quarter and at full size.

    python benchmarks/dedup_size.py                     all cases
    python benchmarks/dedup_size.py text/heap --scale .2

Each case runs in a process of its own. `growth` is CPU at full size over CPU at a quarter: 4 is linear. `bytes per
unit` is the peak beyond the prints, for each further unit beyond a quarter. `left` is how many units stay.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from mmlake.dedup import DedupSettings, tiers_of
from mmlake.dedup.prints import PrintTable, Ragged, digests_of
from mmlake.dedup.stars.leaders import stars
from mmlake.dedup.stars.standings import by_digest
from mmlake.dedup.vectors.matcher import VectorMatcher

SETTINGS = DedupSettings()
Made = tuple[str, PrintTable]


def _prints(modality: str, subjects: Iterable[object], num: int) -> Made:
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
    """Pages of one template, each with a passage of its own: Jaccard .69, just below the bound."""
    rng = random.Random(3)
    before, behind = _words(rng, 50), _words(rng, 30)
    return _texts([" ".join((*before, *_words(rng, 12), *behind)) for _ in range(num)])


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
    """One scene, each time with other noise: no two are equal."""
    rng = np.random.default_rng(4)
    scene = np.kron(rng.integers(30, 220, (12, 16)), np.ones((10, 10)))
    noisy = ((scene + rng.normal(0, 4, scene.shape)).clip(0, 255) for _ in range(num))
    return _prints("image", (_picture(one) for one in noisy), num)


def _sound(samples: np.ndarray) -> bytes:
    import soundfile

    sink = io.BytesIO()
    soundfile.write(sink, samples, 16_000, format="WAV", subtype="PCM_16")
    return sink.getvalue()


def _hum(num: int) -> Made:
    times_s = np.arange(32_000) / 16_000
    return _prints("audio", [_sound(0.3 * np.sin(2 * np.pi * hz * times_s)) for hz in (50, 60, 100, 120)], num)


def _tones(num: int) -> Made:
    times_s = np.arange(24_000) / 16_000
    tones: list[object] = [_sound(0.3 * np.sin(2 * np.pi * hz * times_s)) for hz in np.geomspace(80, 4_000, 500)]
    return _prints("audio", tones, num)


def _silence(num: int) -> Made:
    return _prints("audio", [_sound(np.zeros(24_000))], num)


def _clips(num: int) -> Made:
    """Short recordings with one beep, each with noise of its own; of a thousand each comes again and again."""
    rng = np.random.default_rng(5)
    times_s = np.arange(24_000) / 16_000
    beep = 0.3 * np.sin(2 * np.pi * 900 * times_s) * (times_s < 0.5)
    clips: list[object] = [_sound(beep + rng.normal(0, 0.01, len(beep))) for _ in range(1_000)]
    return _prints("audio", clips, num)


def _beeps(num: int) -> Made:
    """The same, no two with one noise."""
    rng = np.random.default_rng(5)
    times_s = np.arange(24_000) / 16_000
    beep = 0.3 * np.sin(2 * np.pi * 900 * times_s) * (times_s < 0.5)
    return _prints("audio", [_sound(beep + rng.normal(0, 0.01, len(beep))) for _ in range(num)], num)


def _turning(rng: np.random.Generator, num: int, length: int) -> np.ndarray:
    """Words of which an eighth of the signs changes from one to the next, all firm: of no sound in particular."""
    turned = rng.integers(0, 1 << 32, (3, num, length), np.uint64)
    turned = np.bitwise_and.reduce(turned, axis=0)
    turned[:, 0] = rng.integers(0, 1 << 32, num, np.uint64)
    return np.bitwise_xor.accumulate(turned, axis=1) | np.uint64(0xFFFFFFFF << 32)


def _jingle(num: int) -> Made:
    """Recordings of 15 s that begin with the same 5 s: words of no sound in particular."""
    rng = np.random.default_rng(7)
    made = {}
    for method, per_s in (("chromaprint", 8), ("band-signs", 62)):
        words = _turning(rng, num, 15 * per_s)
        words[:, : 5 * per_s] = _turning(rng, 1, 5 * per_s)
        made[method] = Ragged(words.ravel(), np.arange(num + 1) * words.shape[1])
    return "audio", made


def _bed(num: int) -> Made:
    """Recordings of 15 s of which each fourth half second is one and the same noise."""
    rng = np.random.default_rng(8)
    made = {}
    for method, per_s in (("chromaprint", 8), ("band-signs", 62)):
        words = _turning(rng, num, 15 * per_s)
        is_bed = np.arange(15 * per_s) // (per_s // 2) % 4 == 0
        words[:, is_bed] = _turning(rng, 1, 15 * per_s)[:, is_bed]
        made[method] = Ragged(words.ravel(), np.arange(num + 1) * words.shape[1])
    return "audio", made


def _intros(num: int) -> Made:
    """Films of 60 s that begin with the same 10 s: a thing that wanders over a ground, another one every 5 s."""
    from mmlake.dedup.image.perceptual import pack_bytes
    from mmlake.dedup.video import hashes
    from mmlake.dedup.video import matcher as video_matcher

    def scenes(seed: int, seconds: int) -> np.ndarray:
        rng, shots = np.random.default_rng(seed), []
        for _ in range(seconds // 5):
            ground = np.kron(rng.integers(40, 200, (8, 8)), np.ones((8, 8), int)).astype(np.uint8)
            shot, ends = np.repeat(ground[None], 40, axis=0), rng.integers(0, 48, (2, 2))
            for at in range(40):
                y, x = ends[0] + (ends[1] - ends[0]) * at // 40
                shot[at, y : y + 16, x : x + 16] = 235
            shots.append(shot)
        return np.concatenate(shots)

    intro, made = scenes(9, 10), []
    for seed in range(num):
        found = hashes.hashed(np.concatenate([intro, scenes(100 + seed, 50)]))
        windows = found.hashes_VNW.transpose(0, 2, 1).reshape(-1)
        whole = found.hashes_VNW.shape[1]
        nothing = np.empty(0, np.uint64)  # of moments and keyframes
        made.append((windows[:whole], windows[whole:], pack_bytes(found.luma_VN64), found.keys, nothing, nothing))
    columns = zip(video_matcher.METHODS, zip(*made, strict=True), strict=True)
    return "video", {method: Ragged.of(rows) for method, rows in columns}


CASES: dict[str, tuple[Callable[[int], Made] | None, int]] = {
    "text/identical": (_identical, 100_000),
    "text/heap": (_heap, 100_000),
    "text/templates": (_templates, 100_000),
    "text/empty": (_empty, 50_000),
    "image/black": (_black, 20_000),
    "image/static": (_static, 20_000),
    "video/intro": (_intros, 80),
    "audio/hum": (_hum, 20_000),
    "audio/tones": (_tones, 20_000),
    "audio/silence": (_silence, 20_000),
    "audio/clips": (_clips, 20_000),
    "audio/beeps": (_beeps, 20_000),
    "audio/jingle": (_jingle, 5_000),
    "audio/bed": (_bed, 5_000),
    "vectors/heap": (None, 100_000),
}


def _status(field: str) -> int:
    """KiB of memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def _reset_peak() -> int:
    """The KiB that the process holds now; its peak begins there."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


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
    held = _reset_peak()
    begin_s = time.process_time()
    if make is None:
        matcher = VectorMatcher(vectors, who.order(), bound=0.9, settings=SETTINGS)
        found = stars(matcher, who, equal=np.zeros((num, 2), np.uint64))
    else:
        (tier,) = tiers_of(modality)
        found = stars(tier.made_matcher(prints, SETTINGS), who, equal=digests_of(prints))
    used_s = time.process_time() - begin_s
    peak = _status("VmHWM")
    gone = sum(relation in (1, 2) for relation in found.relation)
    print(json.dumps({"cpu_s": used_s, "bytes": (peak - held) * 1024, "left": num - gone}))


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
        more = (runs[1]["bytes"] - runs[0]["bytes"]) / (full - full // 4)
        row = (case, f"{full:,}", f"{runs[1]['cpu_s']:.1f}", f"{growth:.1f}", f"{more:,.0f}")
        print("| " + " | ".join((*row, f"{runs[1]['left']:,}")) + " |", flush=True)


if __name__ == "__main__":
    main()
