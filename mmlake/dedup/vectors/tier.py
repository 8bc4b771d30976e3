"""The semantic tier: PAIRS of units whose vectors lie within the encoder's bound, each from what stays to what goes."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mmlake import contracts, schemas
from mmlake.dedup.criteria import Criterion
from mmlake.dedup.greedy import Edge
from mmlake.dedup.matching import SAME
from mmlake.dedup.prints import Positions
from mmlake.dedup.recall import estimates
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.stars.leaders import stars
from mmlake.dedup.stars.pair_rows import table_of
from mmlake.dedup.stars.standings import by_digest, rows_of, standing_of
from mmlake.dedup.stars.star_edges import Stars
from mmlake.dedup.vectors.matcher import Apart, VectorMatcher, Vectors, duplicates_of_sample, never_apart
from mmlake.dedup.vectors.vector_columns import by_encoder
from mmlake.dedup.vectors.vector_columns import rows_of as rows_of_vectors
from mmlake.engine import Engine
from mmlake.errors import SettingsError
from mmlake.progress import Advance, silent

_FOLLOWERS_AT_ONCE = 4_096
_SAMPLE_UNITS = estimates.SAMPLE_UNITS


def semantic_pairs(
    embeddings: pa.Table | Iterable[pa.Table],
    bounds: Mapping[str, float],
    *,
    nodes: pa.Table | None = None,
    criteria: Sequence[Criterion] = (),
    near: pa.Table | None = None,
    apart: Callable[[pa.Array], Apart] | None = None,
    settings: DedupSettings,
    engine: Engine | None = None,
    advance: Advance = silent,
) -> pa.Table:
    """PAIRS of tier "semantic": cosine at or above the encoder's bound, within each encoder. Digests without a
    vector have no pairs.

    embeddings: rows of EMBEDDINGS, or parts of them, which are read once; of a key that comes again the first counts.
    bounds: encoder -> smallest cosine that counts, as their rows say; `settings.semantic_bounds` goes before.
    nodes: what decides who stays. near: the clusters of the near tier: only its survivors are compared, and where one
    of them goes, its duplicates are compared with what it goes for. The table's metadata has the recall of the search,
    counted on a seeded sample (`estimates.recall_counts`).
    apart: of the digests, in their order, which pairs are no duplicates whatever their cosine. engine: in whose files
    vectors lie that are large; None: in memory. Raises SettingsError for an encoder without a bound.
    """
    with ExitStack() as stack:
        if engine is not None:
            stack.enter_context(engine.used())
        found = by_encoder(map(contracts.made, [embeddings] if isinstance(embeddings, pa.Table) else embeddings))
        return _pairs_of(found, bounds, nodes, criteria, near, apart, settings, advance)


def _pairs_of(
    found_vectors: dict[str, tuple[pa.Array, Vectors]],
    bounds: Mapping[str, float],
    nodes: pa.Table | None,
    criteria: Sequence[Criterion],
    near: pa.Table | None,
    apart: Callable[[pa.Array], Apart] | None,
    settings: DedupSettings,
    advance: Advance,
) -> pa.Table:
    parts, recalls, curves = [], [(0, 0)], []
    for encoder, bound in bounds_of(list(found_vectors), bounds, settings).items():
        digests, vectors = found_vectors.pop(encoder)
        survivor = _survivors(digests, near)
        leads = np.flatnonzero(survivor == np.arange(len(digests)))
        led = rows_of_vectors(vectors, leads)
        among = digests.take(pa.array(leads))
        standing = by_digest(among) if nodes is None else standing_of(rows_of(nodes, among), criteria)
        kept_apart = never_apart if apart is None else apart(digests)
        apart_leads = partial(_among, kept_apart, leads)
        matcher = VectorMatcher(led, standing.order(), bound=bound, apart=apart_leads, settings=settings)
        found = stars(matcher, standing, equal=equal_vectors(led), advance=advance)
        sampled = duplicates_of_sample(
            led, _goes_for(found, len(led)), bound=bound, apart=apart_leads, seed=settings.seed, sample=_SAMPLE_UNITS
        )
        recalls.append((len(sampled.units), sampled.num_found))
        curves.append(matcher.cells.curve(sampled.units, sampled.others) if matcher.cells else {})
        found.left, found.right = (array("q", leads[side].tobytes()) for side in (found.left, found.right))
        _add_followers(found, survivor, vectors, bound, kept_apart)
        parts.append(table_of(found, digests, [f"cosine:{encoder}"], tier="semantic", bound=bound))
    pairs = schemas.conform(schemas.PAIRS, pa.concat_tables(parts)) if parts else schemas.empty(schemas.PAIRS)
    return estimates.with_curve(estimates.with_recall(pairs, recalls), curves, over="cells")


def _goes_for(found: Stars, num: int) -> NDArray[np.int64]:
    """What each unit goes for, -1 where it stays: a miss, which people judge a bound by, is none."""
    goes_for = np.full(num, -1, np.int64)
    goes = np.array(found.relation, np.int8) == SAME
    goes_for[np.array(found.right, np.int64)[goes]] = np.array(found.left, np.int64)[goes]
    return goes_for


def bounds_of(encoders: Sequence[str], bounds: Mapping[str, float], settings: DedupSettings) -> dict[str, float]:
    """The bound of each of the encoders. Raises SettingsError for one without a bound."""
    bounds = {**bounds, **settings.semantic_bounds}
    if unknown := [encoder for encoder in encoders if encoder not in bounds]:
        raise SettingsError(
            f"dedup: vectors of {unknown[0]!r} have no bound; expected one of {', '.join(sorted(bounds))}: name the "
            f"plugin that brings the encoder in [plugins], or set dedup.semantic_bounds"
        )
    return {encoder: float(bounds[encoder]) for encoder in encoders}


def _among(apart: Apart, leads: Positions, left: Positions, right: Positions) -> NDArray[np.bool_]:
    """Of positions among the leads, as `apart` says of positions among all."""
    return apart(leads[left], leads[right])


def _survivors(digests: pa.Array, near: pa.Table | None) -> np.ndarray:
    """The position of each unit's survivor in the near tier; its own where that has no vector."""
    own = np.arange(len(digests))
    if near is None:
        return own
    rows = pc.index_in(digests, value_set=pa.chunked_array(near["digest"]).combine_chunks())
    at = pc.index_in(near["survivor"].take(rows), value_set=digests)
    return np.where(pc.is_valid(at).to_numpy(zero_copy_only=False), pc.fill_null(at, 0).to_numpy(), own)


def equal_vectors(vectors: Vectors) -> np.ndarray:
    """128 bits that equal vectors have in common."""
    factors = np.random.default_rng(1).integers(1, 1 << 63, (vectors.shape[1], 2), dtype=np.uint64) | np.uint64(1)
    sums = [np.zeros((0, 2), np.uint64)]
    for low in range(0, len(vectors), _FOLLOWERS_AT_ONCE):
        block = np.ascontiguousarray(vectors[low : low + _FOLLOWERS_AT_ONCE]).view(np.uint32).astype(np.uint64)
        sums.append(np.stack([(block * factors[:, side]).sum(axis=1, dtype=np.uint64) for side in range(2)], axis=1))
    return np.concatenate(sums)


def _add_followers(found: Stars, survivor: np.ndarray, vectors: Vectors, bound: float, apart: Apart) -> None:
    """Where the near survivor of a unit goes, the unit goes for the same one, if its own vector says so."""
    goes_for = _goes_for(found, len(survivor))
    followers = np.flatnonzero((survivor != np.arange(len(survivor))) & (goes_for[survivor] >= 0))
    for low in range(0, len(followers), _FOLLOWERS_AT_ONCE):
        units = followers[low : low + _FOLLOWERS_AT_ONCE]
        keepers = goes_for[survivor[units]]
        cosine = np.einsum("nd,nd->n", vectors[units].astype(np.float64), vectors[keepers].astype(np.float64))
        cosine = np.minimum(cosine.round(6), 1.0)
        good = cosine >= bound
        good[good] = ~apart(units[good], keepers[good])
        for unit, keeper, score in zip(units[good], keepers[good], cosine[good], strict=True):
            found.add(int(keeper), int(unit), Edge(SAME, float(score), 0, None), SAME)
