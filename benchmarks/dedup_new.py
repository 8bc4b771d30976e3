"""What one percent of new or removed units costs the near tiers: CPU seconds against those of a whole join.

    python -m benchmarks.dedup_new                        all modalities
    python -m benchmarks.dedup_new --only image --scale .2
    python -m benchmarks.dedup_new --recall               what the keys find, and what fewer of them would
    python -m benchmarks.dedup_new --only image audio --made-up 100000   prints that are made up (`dedup_memory`): a
                                                          tenth are copies, and half an hour is enough for both

A join is keys, candidates, comparisons and elections, from prints to edges; fingerprints are not in it. `kept` is the
first join that keeps what the next one goes on from. Each outcome is checked against that of a whole join. A third of
the units are edited copies.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake import schemas
from mmlake.dedup import DedupSettings, near_pairs, recall_counts, recall_of, tiers_of
from mmlake.dedup.audio import fingerprints as audio_fingerprints
from mmlake.dedup.image import fingerprints as image_fingerprints
from mmlake.dedup.image.perceptual import pack_bytes
from mmlake.dedup.kept.join import Units
from mmlake.dedup.kept.store import KeptJoins
from mmlake.dedup.prints import PrintTable, Ragged, digests_of, of_lists
from mmlake.dedup.stars.standings import by_digest
from mmlake.dedup.text import fingerprints as text_fingerprints
from mmlake.dedup.tiers import joined_tier
from mmlake.dedup.video import hashes
from mmlake.dedup.video.matcher import KEYS_METHOD, LUMA_METHOD, METHOD, WINDOWS_METHOD

SETTINGS = DedupSettings()
_COPIES = 3  # one unit in so many is a copy of an earlier one
Prints = list[dict[str, Any]]


def _texts(num: int) -> Prints:
    rng = np.random.default_rng(1)
    words = np.array(["".join(rng.choice(list("abcdefghijklmnoprstu"), 6)) for _ in range(20_000)])
    ranks = 1 / np.arange(1, len(words) + 1)
    pages: list[np.ndarray] = []
    for at in range(num):
        if at % _COPIES == _COPIES - 1:
            page = pages[int(rng.integers(len(pages)))].copy()
            page[rng.integers(0, len(page), 4)] = rng.choice(words, 4)
        else:
            page = rng.choice(words, int(rng.integers(60, 240)), p=ranks / ranks.sum())
        pages.append(page)
    found: Prints = []
    for low in range(0, num, 1_024):
        found += [
            one._asdict() for one in text_fingerprints.prints([" ".join(page) for page in pages[low : low + 1_024]])
        ]
    return found


def _scene(rng: np.random.Generator, side: int) -> np.ndarray:
    import cv2

    planes = [cv2.resize(rng.integers(0, 255, (n, n, 3), np.uint8), (side, side)).astype(float) for n in (3, 7, 15, 40)]
    return np.average(planes, axis=0, weights=(4, 3, 2, 2)).astype(np.uint8)


def _pictures(num: int) -> Prints:
    from PIL import Image

    rng = np.random.default_rng(2)
    scenes: list[Image.Image] = []
    found: Prints = []
    for at in range(num):
        quality = 90
        if at % _COPIES == _COPIES - 1:
            picture, quality = scenes[int(rng.integers(len(scenes)))], int(rng.integers(30, 80))
        else:
            picture = Image.fromarray(_scene(rng, 160))
            scenes.append(picture)
        sink = io.BytesIO()
        picture.save(sink, "JPEG", quality=quality)
        found.append(image_fingerprints.fingerprint(sink.getvalue()))
    return found


def _films(num: int) -> Prints:
    rng = np.random.default_rng(3)
    side, frames = hashes.SIDE, 40
    found: Prints = []
    originals: list[np.ndarray] = []
    for at in range(num):
        if at % _COPIES == _COPIES - 1:
            planes = originals[int(rng.integers(len(originals)))]
            planes = (planes + rng.normal(0, 4, planes.shape)).clip(0, 255).astype(np.uint8)
        else:
            wide = _scene(rng, 3 * side)[..., 0]
            path = np.cumsum(rng.integers(-3, 4, (frames, 2)), axis=0).clip(-side, side - 1) + side
            planes = np.stack([wide[y : y + side, x : x + side] for y, x in path])
            originals.append(planes)
        hashed = hashes.hashed(planes)
        windows = hashed.hashes_VNW.transpose(0, 2, 1).reshape(-1)
        values = (windows[:frames], windows[frames:], pack_bytes(hashed.luma_VN64), hashed.keys)
        methods = (METHOD, WINDOWS_METHOD, LUMA_METHOD, KEYS_METHOD)  # details of moments decide elections alone
        found.append(dict(zip(methods, values, strict=True)))
    return found


def _recordings(num: int) -> Prints:
    rng = np.random.default_rng(4)
    times_s = np.arange(4 * audio_fingerprints.RATE_HZ) / audio_fingerprints.RATE_HZ
    found: Prints = []
    originals: list[np.ndarray] = []
    for at in range(num):
        if at % _COPIES == _COPIES - 1:
            sound = originals[int(rng.integers(len(originals)))] + rng.normal(0, 0.005, len(times_s))
        else:
            knots = np.linspace(0, 4, 32)
            pitch = np.cumsum(np.interp(times_s, knots, rng.uniform(90, 260, 32))) / audio_fingerprints.RATE_HZ
            sound = np.zeros(len(times_s))
            for part in range(1, 10):
                sound += np.interp(times_s, knots, rng.uniform(0, 1, 32) ** 3) * np.sin(2 * np.pi * part * pitch) / part
            sound *= 0.2 / np.abs(sound).max()
            originals.append(sound)
        found.append(dict(audio_fingerprints.fingerprint_samples(sound.astype(np.float32))))
    return found


CASES: dict[str, tuple[Callable[[int], Prints], int]] = {
    "text": (_texts, 100_000),
    "image": (_pictures, 6_000),
    "video": (_films, 2_000),
    "audio": (_recordings, 2_000),
}


def _table(modality: str, prints: Prints) -> PrintTable:
    """The rows of each method of the modality's tier."""
    (tier,) = tiers_of(modality)
    return {method: Ragged.of([one.get(method, np.empty(0, np.uint64)) for one in prints]) for method in tier.methods}


def made_up(modality: str, num: int) -> PrintTable:
    """The same of so many units whose prints are no media's."""
    from benchmarks.dedup_memory import Pictures, Sounds

    (tier,) = tiers_of(modality)
    parts = list({"image": Pictures, "audio": Sounds}[modality](num))
    found = {}
    for method in tier.methods:
        rows = [part.filter(pc.equal(part["method"], method))["hashes"] for part in parts]
        lists = pa.chunked_array([chunk for column in rows for chunk in column.chunks], rows[0].type)
        found[method] = of_lists(lists) if len(lists) else Ragged.empty(num)
    return found


def measure(modality: str, table: PrintTable) -> dict[str, Any]:
    """CPU seconds of a whole join, of one that is kept, and of what goes on from it."""
    (tier,) = tiers_of(modality)
    num = len(table[tier.methods[0]])
    names = [hashlib.sha256(f"{modality} {at}".encode()).hexdigest() for at in range(num)]
    chosen = np.random.default_rng(5).random(num) < 0.01

    def part(rows: Sequence[int]) -> tuple[dict[str, Ragged], list[str]]:
        by_name = sorted(rows, key=lambda at: names[at])
        return {method: values.take(np.array(by_name)) for method, values in table.items()}, [
            names[at] for at in by_name
        ]

    def join(rows: Sequence[int], joins: KeptJoins | None) -> tuple[Any, float]:
        mine, digests = part(rows)
        started = time.process_time()
        units = Units(pa.array(digests, pa.string()), partial(digests_of, mine))
        found = joined_tier(tier, mine, units, by_digest(digests), settings=SETTINGS, kept=joins)
        return found, time.process_time() - started

    everything, most = range(num), np.flatnonzero(~chosen).tolist()
    join(range(min(20_000, num)), None)  # what is compiled or imported at first use
    whole, whole_s = join(everything, None)
    fewer, _ = join(most, None)
    row = {"modality": modality, "units": num, "new": int(chosen.sum()), "gone": len(whole.left)}
    row |= {"whole_s": whole_s}
    with tempfile.TemporaryDirectory() as folder:
        joins = KeptJoins(Path(folder), "")
        first, row["kept_s"] = join(most, joins)
        more, row["new_s"] = join(everything, joins)
        row["kept_bytes_per_unit"] = sum(path.stat().st_size for path in Path(folder).iterdir()) / num
        less, row["removed_s"] = join(most, joins)
        _, row["nothing_s"] = join(most, joins)
    assert (first, more, less) == (fewer, whole, fewer), f"{modality}: a join that went on from another differs"
    return row | {"new_fraction": row["new_s"] / whole_s, "removed_fraction": row["removed_s"] / whole_s}


def fingerprints(modality: str, num: int) -> pa.Table:
    """Rows of FINGERPRINTS of so many units."""
    (tier,) = tiers_of(modality)
    rows: list[dict[str, Any]] = []
    for at, prints in enumerate(CASES[modality][0](num)):
        digest = hashlib.sha256(f"{modality} {at}".encode()).hexdigest()
        rows += [
            {"digest": digest, "method": method, "hashes": prints.get(method, np.empty(0, np.uint64))}
            for method in tier.methods
        ]
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in ("digest", "method", "hashes")}
    columns |= {"times_s": [np.empty(0, np.float32)] * len(rows), "status": ["ok"] * len(rows)}
    columns |= {"error_code": [None] * len(rows), "reason": [None] * len(rows)}
    return schemas.from_columns(schemas.FINGERPRINTS, columns)


def recall(modality: str) -> dict[str, Any]:
    """What a version keeps of the search by keys."""
    num = {"text": 20_000, "image": 1_200, "video": 500, "audio": 400}[modality]
    pairs = near_pairs(fingerprints(modality, num), tiers_of(modality), settings=SETTINGS)
    return {"modality": modality, "units": num, "estimated": recall_of(recall_counts(pairs))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CASES, nargs="*", default=list(CASES))
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes (default %(default)s)")
    parser.add_argument("--recall", action="store_true", help="estimate the recall of the keys, and measure no time")
    parser.add_argument(
        "--made-up", type=int, metavar="NUM", help="of pictures or recordings, as dedup_memory has them"
    )
    chosen = parser.parse_args()
    for modality in chosen.only:
        if chosen.recall:
            print(json.dumps(recall(modality)))
            continue
        made, num = CASES[modality]
        if chosen.made_up:
            row = measure(modality, made_up(modality, chosen.made_up))
        else:
            row = measure(modality, _table(modality, made(max(100, int(num * chosen.scale)))))
        print(json.dumps({name: round(one, 4) if isinstance(one, float) else one for name, one in row.items()}))


if __name__ == "__main__":
    main()
