"""How well a version answers the probes: exact search, one row per probe.

Enters: probes, their query vectors, and the vectors of one version in the same space. Leaves: recall, reciprocal rank
and nDCG per probe, and means.
Exact on purpose: an approximate index would mix its own misses into the judgement of the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mmlake.errors import SettingsError
from mmlake.evaluate.probes import Probe
from mmlake.records import Digest

_BLOCK_SCORES = 1 << 24  # similarities held at once: 64 MiB of float32
# similarities closer than this are ties and go by digest; float32 products of unit vectors differ by about 1e-7 between
# blockings
_DECIMALS = 6


def score_schema(ks: Sequence[int]) -> pa.Schema:
    """The columns of a score table with these cut-offs."""
    head = [
        pa.field("probe_id", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("modality", pa.string(), nullable=False),
    ]
    head += [
        pa.field("num_relevant", pa.int32(), nullable=False),
        pa.field("rank", pa.int64()),
        pa.field("reciprocal_rank", pa.float64(), nullable=False),
    ]
    at_k = [pa.field(f"{name}_at_{k}", pa.float64(), nullable=False) for name in ("recall", "ndcg") for k in ks]
    return pa.schema(
        [
            *head,
            *at_k,
            pa.field("num_hard_negatives_above", pa.int32(), nullable=False),
            pa.field("top", pa.list_(pa.string()), nullable=False),
        ]
    )


# Q probes, N corpus items, D embedding
def score_probes(
    probes: Iterable[Probe],
    query_vectors: Mapping[str, np.ndarray],
    corpus_digests: Sequence[Digest],
    corpus_vectors: np.ndarray,
    cluster_of: Mapping[Digest, Digest],
    *,
    ks: Sequence[int] = (1, 5, 10),
) -> pa.Table:
    """One row per probe, sorted by probe_id. All vectors are of unit norm and of one space: call it once per searched
    modality.

    cluster_of: digest -> survivor of its duplicate cluster; absent means itself. A cluster is one answer: its first
    member in the list has the gain, further members take places and have none. rank: place of the first right answer in
    the whole corpus; null where the version does not hold it (all its scores are then 0).
    num_hard_negatives_above: hard negatives that stand above the first right answer. Raises SettingsError on a missing,
    misshapen or non-finite query vector.
    """
    asked = sorted(probes, key=lambda probe: probe.id)
    order = sorted(range(len(corpus_digests)), key=lambda index: corpus_digests[index])
    digests = [corpus_digests[index] for index in order]
    vectors_ND = np.asarray(corpus_vectors, dtype=np.float32) if order else np.empty((0, 0), dtype=np.float32)
    if order != list(range(len(order))):  # those that are in order may lie in a file, and stay there
        vectors_ND = vectors_ND[order]
    owners = [cluster_of.get(digest, digest) for digest in digests]
    place_of = {digest: place for place, digest in enumerate(digests)}
    places_of: dict[Digest, list[int]] = {}  # owner -> where its members stand
    for place, owner in enumerate(owners):
        places_of.setdefault(owner, []).append(place)
    rows = []
    for probe, similarities in _search(asked, query_vectors, vectors_ND):
        right = {cluster_of.get(digest, digest) for digest in probe.relevant}
        is_right = _mask([place for owner in right for place in places_of.get(owner, [])], len(digests))
        is_wrong = _mask([place_of[digest] for digest in probe.hard_negatives if digest in place_of], len(digests))
        rows.append(
            _score(
                probe,
                similarities,
                is_right=is_right,
                is_wrong=is_wrong,
                digests=digests,
                owners=owners,
                num_right=len(right),
                ks=ks,
            )
        )
    return pa.Table.from_pylist(rows, schema=score_schema(ks))


def summarize(scores: pa.Table) -> pa.Table:
    """Mean of every measure per searched modality and kind of query, and over all ("all", "all"); num_probes and the
    share of probes that a hard negative beats."""
    measures = [
        name for name in scores.column_names if name.startswith(("recall_at_", "ndcg_at_")) or name == "reciprocal_rank"
    ]
    values = {name: scores.column(name).to_numpy() for name in [*measures, "num_hard_negatives_above"]}
    pairs = list(zip(scores.column("modality").to_pylist(), scores.column("kind").to_pylist(), strict=True))
    groups = [*sorted(set(pairs)), ("all", "all")]
    rows: list[dict[str, Any]] = []
    for group in groups:
        mask = np.array([group == ("all", "all") or pair == group for pair in pairs], dtype=bool)
        means = {name: round(float(values[name][mask].mean()), 6) if mask.any() else 0.0 for name in measures}
        beaten = round(float((values["num_hard_negatives_above"][mask] > 0).mean()), 6) if mask.any() else 0.0
        rows.append(
            {
                "modality": group[0],
                "kind": group[1],
                "num_probes": int(mask.sum()),
                **means,
                "hard_negative_fraction": beaten,
            }
        )
    return pa.Table.from_pylist(rows)


def _mask(places: list[int], length: int) -> np.ndarray:
    mask = np.zeros(length, dtype=bool)
    mask[places] = True
    return mask


def _search(
    probes: Sequence[Probe], query_vectors: Mapping[str, np.ndarray], vectors_ND: np.ndarray
) -> Iterator[tuple[Probe, np.ndarray]]:
    block = max(1, _BLOCK_SCORES // max(len(vectors_ND), 1))
    for start in range(0, len(probes), block):
        part = probes[start : start + block]
        queries_QD = np.stack(
            [_query(probe, query_vectors, dimension=vectors_ND.shape[1] if len(vectors_ND) else None) for probe in part]
        )
        similarities_QN = (
            np.round(queries_QD @ vectors_ND.T, _DECIMALS)
            if len(vectors_ND)
            else np.empty((len(part), 0), dtype=np.float32)
        )
        yield from zip(part, similarities_QN, strict=True)


def _query(probe: Probe, query_vectors: Mapping[str, np.ndarray], *, dimension: int | None) -> np.ndarray:
    if probe.id not in query_vectors:
        raise SettingsError(
            f"probe {probe.id!r} has no query vector; encode its query, or leave the probe out of both versions"
        )
    vector = np.asarray(query_vectors[probe.id], dtype=np.float32)
    if vector.ndim != 1 or (dimension is not None and len(vector) != dimension) or not np.isfinite(vector).all():
        raise SettingsError(
            f"probe {probe.id!r}: its query vector of shape {vector.shape} must be finite and of dimension "
            f"{dimension}; encode it with the corpus's own encoder"
        )
    return vector


def _score(
    probe: Probe,
    similarities: np.ndarray,
    *,
    is_right: np.ndarray,
    is_wrong: np.ndarray,
    digests: Sequence[Digest],
    owners: Sequence[Digest],
    num_right: int,
    ks: Sequence[int],
) -> dict[str, Any]:
    top = _top(similarities, max(ks))
    gains, credited = [], set()
    for index in top:
        gains.append(bool(is_right[index]) and owners[index] not in credited)
        if is_right[index]:
            credited.add(owners[index])
    first = _best(similarities, is_right)
    above = _above(similarities, first) if first is not None else np.ones(len(similarities), dtype=bool)
    rank = int(above.sum()) + 1 if first is not None else None
    row: dict[str, Any] = {
        "probe_id": probe.id,
        "kind": probe.kind,
        "modality": probe.modality,
        "num_relevant": num_right,
        "rank": rank,
    }
    row["reciprocal_rank"] = 1.0 / rank if rank else 0.0
    for k in ks:
        ideal = math.fsum(1 / math.log2(place + 2) for place in range(min(k, num_right)))
        row[f"recall_at_{k}"] = sum(gains[:k]) / num_right
        row[f"ndcg_at_{k}"] = (
            math.fsum(1 / math.log2(place + 2) for place, gain in enumerate(gains[:k]) if gain) / ideal
        )
    return {**row, "num_hard_negatives_above": int((above & is_wrong).sum()), "top": [digests[index] for index in top]}


def _top(similarities: np.ndarray, count: int) -> np.ndarray:
    """Indexes of the largest, largest first; ties by index, that is by digest."""
    count = min(count, len(similarities))
    if count == 0:
        return np.empty(0, dtype=np.int64)
    bound = np.partition(similarities, len(similarities) - count)[len(similarities) - count]
    candidates = np.flatnonzero(similarities >= bound)
    return candidates[np.argsort(-similarities[candidates], kind="stable")][:count]


def _best(similarities: np.ndarray, mask: np.ndarray) -> int | None:
    places = np.flatnonzero(mask)
    return int(places[np.argmax(similarities[places])]) if len(places) else None


def _above(similarities: np.ndarray, index: int) -> np.ndarray:
    above: np.ndarray = similarities > similarities[index]
    above[:index] |= similarities[:index] == similarities[index]
    return above
