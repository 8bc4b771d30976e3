"""What each part of a near or exact join takes of memory, on generated prints of any number.

    python benchmarks/dedup_memory.py texts 1000000            the near join of texts, from fingerprints to pairs
    python benchmarks/dedup_memory.py pictures-join 100000     the same of pictures
    python benchmarks/dedup_memory.py sounds-join 100000       the same of recordings of 20 s
    python benchmarks/dedup_memory.py vectors-join 1000000     the semantic join of vectors of 384 numbers
    python benchmarks/dedup_memory.py columns 10000000         fingerprints to columns in the order of digests
    python benchmarks/dedup_memory.py keys 10000000            the index of 32 keys of each unit
    python benchmarks/dedup_memory.py hashes 10000000          pairs of 64-bit hashes at --radius
    python benchmarks/dedup_memory.py pictures 100000          34 hashes of windows of each picture, joined; its index
    python benchmarks/dedup_memory.py sounds 1000000           keys of recordings of 20 s and their index
    python benchmarks/dedup_memory.py films 1000000            the walk over clips with 32 keys each
    python benchmarks/dedup_memory.py exact 10000000           group-by, semi-join and anti-join of digests

A tenth of the units are copies. Memory is anonymous memory (RssAnon, sampled), which the kernel cannot take back; what
is mapped of files is printed next to it. Files are written under --folder. Peaks include generated input, a part of
50,000 units at a time.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.sound_keys import made_up_words, with_noise
from mmlake import dedup
from mmlake.dedup.audio import fingerprints as audio_fingerprints
from mmlake.dedup.hamming import hamming_pairs
from mmlake.dedup.image import fingerprints as image_fingerprints
from mmlake.dedup.image import matcher, perceptual
from mmlake.dedup.image.fingerprints import SIDE
from mmlake.dedup.matching import NONE, SAME, Found
from mmlake.dedup.postings import Postings
from mmlake.dedup.print_columns import print_columns
from mmlake.dedup.prints import Ragged, digests_of
from mmlake.dedup.stars.leaders import stars
from mmlake.dedup.stars.standings import in_order
from mmlake.engine import Engine, EngineSettings
from mmlake.media.picture_pieces import pieces

_PART = 50_000
_PICTURES = 1_000  # made at once
_KEYS = 32
_WORDS = 160  # of a recording
_VECTORS, _NUMBERS = 16_384, 384  # a row group; of a vector


class Peak:
    """The largest memory in MiB since it was last asked for."""

    def __init__(self) -> None:
        self._anonymous = self._of_files = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def taken(self) -> tuple[int, int]:
        """(anonymous, mapped of files), and begins anew."""
        found = self._anonymous // 1024, self._of_files // 1024
        self._anonymous = self._of_files = 0
        return found

    def _watch(self) -> None:
        while True:
            lines = Path("/proc/self/status").read_text().splitlines()
            sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith("Rss")}
            self._anonymous = max(self._anonymous, sizes["RssAnon"])
            self._of_files = max(self._of_files, sizes["RssFile"])
            time.sleep(0.02)


def _digests(low: int, high: int) -> pa.Array:
    return pa.array([hashlib.sha256(str(at).encode()).hexdigest() for at in range(low, high)])


def _copied(values: np.ndarray) -> np.ndarray:
    """The last tenth equals the first."""
    values[len(values) - len(values) // 10 :] = values[: len(values) // 10]
    return values


class Texts:
    """Fingerprints of texts of that many words, in parts."""

    def __init__(self, num: int, words: int) -> None:
        self._num, self._words = num, words

    def __iter__(self) -> Iterator[pa.Table]:
        rng = np.random.default_rng(1)
        for low in range(0, self._num, _PART):
            num = min(_PART, self._num - low)
            shingles = _copied(np.sort(rng.integers(0, 2**64, (num, self._words - 4), dtype=np.uint64), axis=1))
            words = _copied(rng.integers(1, 2**64, (num, self._words // 2), dtype=np.uint64))
            for method, rows in (("shingles", shingles), ("words", words)):
                offsets = pa.array((np.arange(num + 1) * rows.shape[1]).astype(np.int32))
                lists = pa.ListArray.from_arrays(offsets, pa.array(rows.ravel()))
                columns = {"digest": _digests(low, low + num), "method": [method] * num, "hashes": lists}
                yield pa.table({**columns, "status": ["ok"] * num})


class Timed:
    """Parts, and the CPU seconds that making them up took."""

    def __init__(self, parts: Iterable[pa.Table]) -> None:
        self._parts, self.made_s = parts, 0.0

    def __iter__(self) -> Iterator[pa.Table]:
        parts = iter(self._parts)
        while True:
            begin_s = time.process_time()
            part = next(parts, None)
            self.made_s += time.process_time() - begin_s
            if part is None:
                return
            yield part


class Pictures:
    """Fingerprints of pictures with as much detail as photographs have at any scale, and of copies that are lighter,
    noisier and a little cropped."""

    def __init__(self, num: int) -> None:
        self._num = num

    def __iter__(self) -> Iterator[pa.Table]:
        for low in range(0, self._num, _PICTURES):
            num = min(_PICTURES, self._num - low)
            rng = np.random.default_rng(low)
            planes = np.stack([_field(rng) for _ in range(num)])
            originals, copies = planes[: num // 10], planes[num - num // 10 :]
            for at, plane in enumerate(originals):
                copies[at] = _changed(plane, rng)
            planes = np.clip(planes, 0, 255).astype(np.uint8)
            yield _fingerprints(low, low + num, dict(_prints_of(planes)))


def _field(rng: np.random.Generator) -> np.ndarray:
    """A plane whose contrast falls with its scale."""
    plane = np.full((SIDE, SIDE), 128.0, np.float32)
    for side in (3, 6, 12, 24, SIDE):
        grid = rng.standard_normal((side, side)).astype(np.float32)
        plane += cv2.resize(grid, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC) * 90 / side**0.6
    return plane


def _changed(plane: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    edge = int(rng.integers(0, 3))
    cut = plane[edge : SIDE - edge, edge : SIDE - edge]
    return cv2.resize(cut, (SIDE, SIDE), interpolation=cv2.INTER_AREA) * 1.05 + rng.standard_normal((SIDE, SIDE)) * 2


def _prints_of(planes: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    num = len(planes)
    yield image_fingerprints.METHOD, perceptual.dct_hashes(_small(planes.astype(np.float64)))[0].reshape(num, 1)
    yield "luma", perceptual.pack_bytes(planes).reshape(num, -1)
    layout = perceptual.pack_bytes(np.array([0, 255, 0, 255] * 2, np.uint8))  # no borders, no bars
    yield "layout", np.tile(np.append(layout, np.array([512, 0, 0], np.uint64)), (num, 1))
    found = np.stack([pieces(cv2.resize(plane, (512, 512), interpolation=cv2.INTER_CUBIC)) for plane in planes])
    yield "detail", perceptual.pack_bytes(found).reshape(num, -1)


class Sounds:
    """Fingerprints of recordings of 20 s: signs that change as often as those of music; copies with noise."""

    def __init__(self, num: int) -> None:
        self._num = num

    def __iter__(self) -> Iterator[pa.Table]:
        lean = np.random.default_rng(1).integers(0, 1 << 32, dtype=np.uint64)
        for low in range(0, self._num, _PICTURES):
            num, rng = min(_PICTURES, self._num - low), np.random.default_rng(low)
            words = made_up_words(rng, num, lean)[:, :_WORDS]
            words[num - num // 10 :] = with_noise(rng, words[: num // 10])
            yield _fingerprints(low, low + num, {audio_fingerprints.METHOD: words})


def _fingerprints(low: int, high: int, rows: dict[str, np.ndarray]) -> pa.Table:
    """The table of these units. rows: method -> values of shape (units, values of each)."""
    digests, found = _digests(low, high), []
    for method, values in rows.items():
        offsets = pa.array((np.arange(high - low + 1) * values.shape[1]).astype(np.int32))
        lists = pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(values).ravel()))
        columns = {"digest": digests, "method": [method] * (high - low), "hashes": lists}
        found.append(pa.table({**columns, "status": ["ok"] * (high - low)}))
    return pa.concat_tables(found)


def _pictures(num: int, engine: Engine) -> dict[str, Ragged]:
    """Prints of smooth pictures; copies differ by noise."""
    rng, luma, hashes = np.random.default_rng(1), engine.scratch.column(np.uint64), engine.scratch.column(np.uint64)
    first: list[np.ndarray] = []
    for low in range(0, num, _PICTURES):
        count = min(_PICTURES, num - low)
        if low < num - num // 10:
            planes = np.kron(rng.random((count, 8, 8)), np.ones((8, 8))) * 200 + 20
            first += [planes.astype(np.uint8)] if low < num // 10 else []
        else:
            planes = (
                first[(low - (num - num // 10)) // _PICTURES % len(first)][:count] + rng.random((count, 64, 64)) * 6
            )
        rows = np.ascontiguousarray(planes.astype(np.uint8)).reshape(-1, SIDE * SIDE)
        luma.append(np.concatenate([perceptual.pack_bytes(row) for row in rows]))
        hashes.append(perceptual.dct_hashes(_small(rows.reshape(-1, SIDE, SIDE)))[0])
    made = luma.array()
    width = SIDE * SIDE // 8
    found = {"luma": Ragged(made, np.arange(len(made) // width + 1) * width)}
    found["phash"] = Ragged(hashes.array(), np.arange(len(made) // width + 1))
    return found


def _small(planes: np.ndarray) -> np.ndarray:
    side, step = perceptual.SIDE, SIDE // perceptual.SIDE
    return planes.reshape(-1, side, step, side, step).mean(axis=(2, 4))


def _sounds(num: int, engine: Engine) -> dict[str, Ragged]:
    """Words of 20 s each, as the two prints of recordings have them; a tenth are copies."""
    rng, chroma = np.random.default_rng(1), engine.scratch.column(np.uint64)
    for low in range(0, num, _PART // 10):
        words = rng.integers(0, 2**64, (min(_PART // 10, num - low), _WORDS), dtype=np.uint64)
        chroma.append(_copied(words).ravel())
    return {
        audio_fingerprints.METHOD: Ragged(chroma.array(), np.arange(num + 1) * _WORDS),
        audio_fingerprints.BANDS: Ragged.empty(num),
    }


def _keys(num: int, engine: Engine) -> Ragged:
    rng, values = np.random.default_rng(1), engine.scratch.column(np.uint64)
    for low in range(0, num, _PART):
        rows = rng.integers(0, 2**63, (min(_PART, num - low), _KEYS), dtype=np.uint64)
        values.append(_copied(np.sort(rows, axis=1)).ravel())
    return Ragged(values.array(), np.arange(num + 1) * _KEYS)


def names(num: int, *, with_value: bool = False) -> Iterator[pa.Table]:
    """So many digests, in parts; each with a number where it is asked for."""
    for low in range(0, num, _PART):
        digests = _digests(low, min(num, low + _PART))
        value = {"value": pa.array(np.arange(len(digests)), pa.int32())} if with_value else {}
        yield pa.table({"digest": digests, **value})


class Vectors:
    """Rows of EMBEDDINGS around as many subjects as a tenth of them: a tenth are copies with a little noise."""

    def __init__(self, num: int) -> None:
        self._num, self.made_s = num, 0.0

    def __iter__(self) -> Iterator[pa.Table]:
        subjects = np.random.default_rng(0).standard_normal((max(1, self._num // 10), _NUMBERS), np.float32)
        for low in range(0, self._num, _VECTORS):
            begin_s = time.process_time()
            num, rng = min(_VECTORS, self._num - low), np.random.default_rng(low + 1)
            made = subjects[rng.integers(0, len(subjects), num)] + rng.standard_normal((num, _NUMBERS), np.float32)
            copies = num // 10
            made[-copies:] = made[:copies] + 0.05 * rng.standard_normal((copies, _NUMBERS), np.float32)
            made /= np.linalg.norm(made, axis=1, keepdims=True)
            digests = _digests(low, low + num)
            vector = pa.ListArray.from_arrays(pa.array(np.arange(num + 1) * _NUMBERS, pa.int32()), made.ravel())
            encoder, status = (pa.array([one] * num, pa.string()) for one in ("e", "ok"))
            self.made_s += time.process_time() - begin_s
            yield pa.table({"digest": digests, "encoder": encoder, "vector": vector, "status": status})


class Clips:
    """Clips of which those with equal keys are the same: the walk over them, without what a comparison costs."""

    min_shared, neighbours = 2, None

    def __init__(self, keys: Ragged) -> None:
        self.keys = keys

    def compare(self, one: int, others: np.ndarray) -> Found:
        """The same where all keys are."""
        same = np.array([np.array_equal(self.keys[one], self.keys[int(other)]) for other in others])
        return Found(np.where(same, SAME, NONE).astype(np.int8), same.astype(float), np.zeros(len(others), np.int8))


def _joined(pairs: pa.Table, num: int, made_s: float) -> None:
    """Print what was found, and what of the CPU seconds went into making prints up."""
    counts = Counter(pairs["relation"].to_pylist())
    found = ", ".join(f"{count:,} {relation}" for relation, count in sorted(counts.items()))
    print(f"pairs: {found}; {num // 10:,} copies; {made_s:.1f} s of it the input", file=sys.stderr)


def _questions(kind: str, num: int, engine: Engine, *, words: int, radius: int) -> dict[str, Callable[[], object]]:
    """What is measured, by its name."""
    if kind == "texts":
        (tier,), settings = dedup.tiers_of("text"), dedup.DedupSettings()
        return {"near join": lambda: dedup.near_pairs(Texts(num, words), (tier,), settings=settings, engine=engine)}
    if kind == "vectors-join":
        vectors, settings = Vectors(num), dedup.DedupSettings()
        ask = partial(dedup.semantic_pairs, vectors, {"e": 0.95}, settings=settings, engine=engine)
        return {"semantic join": lambda: _joined(ask(), num, vectors.made_s)}
    if kind.endswith("-join"):
        (tier,), settings = dedup.tiers_of({"pictures": "image", "sounds": "audio"}[kind[:-5]]), dedup.DedupSettings()
        made = Timed(Pictures(num) if kind == "pictures-join" else Sounds(num))
        join = partial(dedup.near_pairs, made, (tier,), settings=settings, engine=engine)
        return {"near join": lambda: _joined(join(), num, made.made_s)}
    if kind == "columns":
        return {"columns": lambda: print_columns(Texts(num, words), ("shingles", "words"), engine=engine)}
    if kind == "keys":
        keys = _keys(num, engine)
        return {"index": lambda: Postings(keys).add_all(np.arange(num))}
    if kind == "hashes":
        hashes = np.random.default_rng(1).integers(0, 2**64, num, dtype=np.uint64)
        hashes[-(num // 10) :] = hashes[: num // 10] ^ np.uint64(0b1011)
        return {f"radius {radius}": lambda: hamming_pairs(hashes, radius=radius)}
    if kind == "pictures":
        pictures, settings = _pictures(num, engine), dedup.DedupSettings()
        made = {"hashes": lambda: matcher.hashes(pictures)}
        made["keys"] = lambda: pictures.update(keys=matcher.ImageMatcher(pictures, settings).keys)
        return made | {"index": lambda: Postings(pictures["keys"])}
    if kind == "sounds":
        sounds = _sounds(num, engine)
        return {
            "keys": lambda: sounds.update(keys=audio_fingerprints.keys(sounds)),
            "index": lambda: Postings(sounds["keys"]).add_all(np.arange(num)),
        }
    if kind == "films":
        clips = Clips(_keys(num, engine))
        return {"stars": lambda: stars(clips, in_order(num), equal=digests_of({"": clips.keys}))}
    asked = engine.relations
    return {
        "group-by": lambda: asked.least_and_count(names(num, with_value=True)),
        "semi-join": lambda: asked.distinct(names(num), names(num)),
        "anti-join": lambda: asked.strangers(names(num), names(num)),
    }


def main() -> None:
    """Print a Markdown row for each question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "kind",
        choices=(
            "texts",
            "pictures-join",
            "sounds-join",
            "vectors-join",
            "columns",
            "keys",
            "hashes",
            "pictures",
            "sounds",
            "films",
            "exact",
        ),
    )
    parser.add_argument("num", type=int)
    parser.add_argument("--memory-gib", type=float, default=2.0)
    parser.add_argument("--folder", type=Path, default=Path("scratch"))
    parser.add_argument("--words", type=int, default=80)
    parser.add_argument("--radius", type=int, default=4)
    given = parser.parse_args()
    engine = Engine(given.folder, EngineSettings(memory_gib=given.memory_gib))
    peak = Peak()
    with engine.used():
        for name, ask in _questions(given.kind, given.num, engine, words=given.words, radius=given.radius).items():
            peak.taken()
            begin_s = time.process_time()
            ask()
            used_s = time.process_time() - begin_s
            anonymous, of_files = peak.taken()
            print(f"| {name} | {given.num:,} | {used_s:.1f} | {anonymous:,} | {of_files:,} |", flush=True)


if __name__ == "__main__":
    main()
