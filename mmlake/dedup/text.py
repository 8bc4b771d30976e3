"""Near duplicates of texts: word shingles, MinHash, banded LSH for candidates, exact Jaccard for the verdict.

Enters: normalized text. Leaves: two fingerprints ("minhash", "shingles") and pairs. Sources: Broder 1997 (resemblance
of shingle sets), Leskovec et al., Mining of Massive Datasets, ch. 3 (banding). Everything but the word rules is
vectorized over a batch of documents.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mmlake.dedup.joins import equal_key_pairs, mix64
from mmlake.dedup.settings import DedupSettings
from mmlake.errors import SettingsError
from mmlake.progress import Advance, silent

METHOD = "jaccard-5gram"
_BASE = 0x9E3779B97F4A7C15 | 1  # odd, so that it has an inverse modulo 2**64
_INVERSE = pow(_BASE, -1, 1 << 64)
_BATCH_CHARS = 1 << 20
_COMPILE_FROM = 300_000  # shingles; below it numpy is done before numba has compiled
# five standard errors of the MinHash estimate: candidates further below the bound are dropped unverified
_SURE_MARGIN = 0.22
# rows; larger buckets are template spam, where comparing all with all finds nothing that pivots do not
_MAX_BUCKET = 256


@dataclass(frozen=True, slots=True)
class Banding:
    """How a signature is cut, and what that finds."""

    bands: int
    rows: int
    recall_at_bound: float  # probability that a pair at exactly the bound shares a band: 1 - (1 - bound**rows)**bands


def banding(bound: float, num_perm: int, *, recall: float = 0.985) -> Banding:
    """The most selective banding whose recall at the bound is at least `recall`; the most tolerant one where none
    is."""
    if not 0 < bound <= 1 or num_perm < 1:
        raise SettingsError(
            f"dedup: cannot band {num_perm} permutations at Jaccard {bound}; expected 0 < bound <= 1 and at least "
            "one permutation"
        )
    options = [
        Banding(num_perm // rows, rows, 1 - (1 - bound**rows) ** (num_perm // rows)) for rows in range(1, num_perm + 1)
    ]
    good = [option for option in options if option.recall_at_bound >= recall]
    return good[-1] if good else options[0]


def shingles(texts: Iterable[str], *, words: int = 5) -> Iterator[np.ndarray]:
    """For each text its sorted distinct 64-bit shingle hashes; none for a text without words.

    A word is a run of letters, digits and marks after NFKC and case folding; in scripts written without spaces each
    character is a word.
    """
    batch: list[str] = []
    size = 0
    for text in texts:
        folded = unicodedata.normalize("NFKC", text).casefold()
        batch.append(folded)
        size += len(folded)
        if size >= _BATCH_CHARS:
            yield from _batch_shingles(batch, words)
            batch, size = [], 0
    yield from _batch_shingles(batch, words)


def _batch_shingles(texts: list[str], words: int) -> Iterator[np.ndarray]:
    if not texts:
        return
    points = np.frombuffer("\n".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    bounds = np.cumsum([0, *(len(text) + 1 for text in texts)])
    starts, ends = _words(points)
    hashes = _word_hashes(points, starts, ends)
    first = np.searchsorted(starts, bounds)  # document d holds the words first[d] .. first[d+1]
    joined = _joined(hashes, words)
    for at in range(len(texts)):
        low, high = first[at], first[at + 1]
        if high - low >= words:
            yield np.unique(joined[low : high - words + 1])
        elif high > low:
            yield _joined(hashes[low:high], int(high - low))
        else:
            yield np.empty(0, np.uint64)


def _words(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(start, end) of each word."""
    kinds = _kinds()[points]
    word, single = kinds > 0, kinds == 2
    previous_word, previous_single = np.r_[False, word[:-1]], np.r_[False, single[:-1]]
    begins = word & (~previous_word | single | previous_single)
    starts = np.flatnonzero(begins)
    following = np.r_[starts[1:], len(points)]
    gaps = np.r_[np.flatnonzero(~word), len(points)]
    return starts, np.minimum(following, gaps[np.searchsorted(gaps, starts)])


def _word_hashes(points: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """A 64-bit hash per word: the polynomial of its code points, read off prefix sums, scrambled."""
    powers = _powers(_BASE, len(points))
    sums = np.r_[np.zeros(1, np.uint64), np.cumsum(mix64(points.astype(np.uint64)) * powers, dtype=np.uint64)]
    return mix64(
        (sums[ends] - sums[starts]) * _powers(_INVERSE, len(points))[starts] + (ends - starts).astype(np.uint64)
    )


def _powers(base: int, num: int) -> np.ndarray:
    powers = np.full(num, base, dtype=np.uint64)
    powers[:1] = 1
    return np.cumprod(powers, dtype=np.uint64)


def _joined(hashes: np.ndarray, words: int) -> np.ndarray:
    """A hash per window of that many words; their order counts."""
    num = max(0, len(hashes) - words + 1)
    total = np.full(num, words, dtype=np.uint64)
    for offset in range(words):
        total = mix64(total * np.uint64(_BASE) + hashes[offset : offset + num])
    return total


@functools.lru_cache(maxsize=1)
def _kinds() -> np.ndarray:
    """For each code point: 0 separator, 1 part of a word, 2 a word by itself (scripts without spaces)."""
    kinds = np.fromiter(
        (character.isalnum() or unicodedata.category(character)[0] == "M" for character in map(chr, range(0x110000))),
        dtype=np.uint8,
        count=0x110000,
    )
    spaceless = (
        (0x0E00, 0x0EFF),
        (0x1000, 0x109F),
        (0x1780, 0x17FF),
        (0x3040, 0x30FF),
        (0x31F0, 0x31FF),
        (0x3400, 0x4DBF),
        (0x4E00, 0x9FFF),
        (0xF900, 0xFAFF),
        (0x20000, 0x3FFFF),
    )
    for low, high in spaceless:  # Thai and Lao, Myanmar, Khmer, Kana, Han
        kinds[low : high + 1] *= 2
    return kinds


def signatures(sets: list[np.ndarray], *, num_perm: int, seed: int) -> np.ndarray:
    """MinHash signatures, uint32 of shape (num_sets, num_perm); a row of ones' complement zero for an empty set.

    Permutation p is the upper half of a[p] * x + b[p] modulo 2**64, with a odd, over hashes that are already scrambled.
    """
    rng = np.random.default_rng(seed)
    factors = rng.integers(0, 1 << 63, num_perm, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    offsets = rng.integers(0, 1 << 63, num_perm, dtype=np.uint64)
    out = np.full((len(sets), num_perm), 0xFFFFFFFF, dtype=np.uint32)
    lengths = np.array([len(one) for one in sets], dtype=np.int64)
    flat = np.concatenate(sets) if lengths.sum() else np.empty(0, np.uint64)
    bounds = np.r_[0, np.cumsum(lengths)]
    if len(flat) >= _COMPILE_FROM and (kernel := _compiled()) is not None:
        kernel(flat, bounds, factors, offsets, out)
    else:
        for at in np.flatnonzero(lengths):
            products = flat[bounds[at] : bounds[at + 1], None] * factors + offsets
            out[at] = (products.min(axis=0) >> np.uint64(32)).astype(np.uint32)
    return out


@functools.lru_cache(maxsize=1)
def _compiled() -> Callable[..., None] | None:
    """The same loop compiled, or None without numba: it makes equal numbers, only sooner."""
    try:
        import numba
    except ImportError:
        return None

    def kernel(flat: np.ndarray, bounds: np.ndarray, factors: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
        num_perm = factors.shape[0]
        best = np.empty(num_perm, np.uint64)
        for at in range(out.shape[0]):
            low, high = bounds[at], bounds[at + 1]
            if low == high:
                continue
            best[:] = np.uint64(0xFFFFFFFFFFFFFFFF)
            for k in range(low, high):
                for p in range(num_perm):
                    value = flat[k] * factors[p] + offsets[p]
                    best[p] = min(best[p], value)
            for p in range(num_perm):
                out[at, p] = np.uint32(best[p] >> np.uint64(32))

    compiled: Callable[..., None] = numba.njit(nogil=True)(kernel)
    return compiled


def pairs(
    sets: list[np.ndarray], rows: np.ndarray, *, settings: DedupSettings, advance: Advance = silent
) -> list[tuple[int, int, str, float]]:
    """(i, j, method, Jaccard) of the texts whose shingle sets are at least `text_jaccard` alike; sets sorted, `rows`
    their signatures.

    Texts with equal sets are tied to the first of them, and only that one is searched further.
    """
    found: list[tuple[int, int, str, float]] = []
    firsts: dict[bytes, int] = {}
    distinct: list[int] = []
    for at, one in enumerate(sets):
        first = firsts.setdefault(one.tobytes(), at) if len(one) else at
        if first != at:
            found.append((first, at, METHOD, 1.0))
        elif len(one):
            distinct.append(at)
    index = np.array(distinct, dtype=np.int64)
    checked: set[int] = set()
    for i, j in _candidates(rows[index], sets, index, settings=settings):
        code = i * len(sets) + j
        if code not in checked:
            checked.add(code)
            score = jaccard(sets[i], sets[j])
            if score >= settings.text_jaccard:
                found.append((i, j, METHOD, score))
    advance(len(sets))
    return found


def _candidates(
    rows: np.ndarray, sets: list[np.ndarray], index: np.ndarray, *, settings: DedupSettings
) -> Iterator[tuple[int, int]]:
    """Pairs that share a band and may still reach the bound by their signatures and sizes."""
    cut = banding(settings.text_jaccard, settings.text_num_perm, recall=settings.text_lsh_recall)
    sizes = np.array([len(sets[at]) for at in index], dtype=np.int64)
    for band in range(cut.bands):
        part = rows[:, band * cut.rows : (band + 1) * cut.rows]
        keys = np.zeros(len(part), np.uint64)
        for column in range(part.shape[1]):
            keys = mix64(keys * np.uint64(_BASE) + part[:, column])
        for i, j in equal_key_pairs(keys, max_run=_MAX_BUCKET):
            small = np.minimum(sizes[i], sizes[j]) >= settings.text_jaccard * np.maximum(sizes[i], sizes[j])
            i, j = i[small], j[small]
            alike = (rows[i] == rows[j]).mean(axis=1) >= settings.text_jaccard - _SURE_MARGIN
            yield from zip(index[i[alike]].tolist(), index[j[alike]].tolist(), strict=True)
        yield from _pivots(keys, sets, index, settings=settings)


def _pivots(
    keys: np.ndarray, sets: list[np.ndarray], index: np.ndarray, *, settings: DedupSettings
) -> Iterator[tuple[int, int]]:
    """In overfull buckets: the first text against the rest, those that match leave, and again until few are left;
    linear where all are alike."""
    values, counts = np.unique(keys, return_counts=True)
    for key in values[counts > _MAX_BUCKET]:
        run = index[np.flatnonzero(keys == key)]
        while len(run) > _MAX_BUCKET:
            alike = np.array([jaccard(sets[run[0]], sets[at]) >= settings.text_jaccard for at in run[1:]], dtype=bool)
            yield from ((int(run[0]), int(at)) for at in run[1:][alike])
            run = run[1:][~alike]
        yield from combinations(run.tolist(), 2)


def jaccard(left: np.ndarray, right: np.ndarray) -> float:
    """Shared over all distinct hashes of two sorted sets; 0.0 where both are empty."""
    if not len(left) or not len(right):
        return 0.0
    together = np.concatenate((left, right))
    together.sort(kind="stable")
    shared = int(np.count_nonzero(together[1:] == together[:-1]))
    return shared / (len(together) - shared)
