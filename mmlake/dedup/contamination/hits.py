"""Which units of the corpus are in an eval set: the same tiers as between duplicates, across two tables.

Enters: prints or vectors of the corpus and of an eval set. Leaves: for each unit of the corpus the eval units that it
is the same as, lies inside, holds or overlaps. Candidates are eval units alone (`cross.join`), so units of the corpus
are never compared with each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts, schemas
from mmlake.dedup.contamination import phrases
from mmlake.dedup.cross.components import component_prints
from mmlake.dedup.cross.join import MET, MOST_CANDIDATES, near_meetings
from mmlake.dedup.greedy import Edge
from mmlake.dedup.matching import OVERLAPS, SAME
from mmlake.dedup.print_columns import prints_of
from mmlake.dedup.prints import Positions, PrintTable, joined
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.tiers import Tier, prints_of_tier
from mmlake.dedup.vectors.matcher import Apart, Vectors
from mmlake.dedup.vectors.tier import bounds_of
from mmlake.dedup.vectors.vector_columns import by_encoder
from mmlake.dedup.vectors.witness import VETO_PRINTS, veto
from mmlake.progress import Advance, silent
from mmlake.records import signed

_ROWS = 2_048  # of a product
_SLACK = 1e-4  # products of float32 err by 1e-6; what lies this far below the bound is checked in float64
_SPANS = ("start_s", "end_s", "eval_start_s", "eval_end_s")


@dataclass(slots=True)
class _Hits:
    """What was found, by positions: lists of one length."""

    unit: list[int] = field(default_factory=list)
    eval_unit: list[int] = field(default_factory=list)
    edge: list[Edge] = field(default_factory=list)

    def add(self, units: Iterable[int], eval_units: Iterable[int], edge: Edge) -> None:
        """Every one of the units with every one of the eval units."""
        others = list(eval_units)
        for unit in units:
            for other in others:
                self.unit.append(unit)
                self.eval_unit.append(other)
                self.edge.append(edge)


def exact_hits(digests: pa.Array, eval_digests: pa.Array) -> pa.Table:
    """Units of the corpus that an eval set holds byte for byte. Both distinct."""
    both = digests.filter(pc.is_in(digests, value_set=eval_digests))
    columns = {
        "digest": both,
        "eval_digest": both,
        "tier": ["exact"] * len(both),
        "method": ["sha256"] * len(both),
        "relation": ["same"] * len(both),
        "score": [1.0] * len(both),
    }
    return _rows(columns)


def near_hits(
    fingerprints: pa.Table,
    eval_fingerprints: pa.Table,
    tiers: Sequence[Tier],
    *,
    settings: DedupSettings,
    advance: Advance = silent,
) -> pa.Table:
    """CONTAMINATION without names of eval sets and samples, by every near tier. Both: FINGERPRINTS, each digest once;
    a digest may be on both sides."""
    corpus, evals = contracts.made(fingerprints), contracts.made(eval_fingerprints)
    parts = [_rows({})]
    for tier in tiers:
        digests, prints = prints_of_tier(tier, [corpus])
        eval_digests, eval_prints = prints_of_tier(tier, [evals])
        if not len(digests) or not len(eval_digests):
            continue
        found = _Hits()
        for units, held, edge, _ in near_meetings(tier, eval_prints, prints, settings, advance=advance):
            found.add(units.tolist(), held[:MOST_CANDIDATES].tolist(), edge)
        _add_passages(found, tier, eval_prints, prints)
        parts.append(_table(found, digests, eval_digests, tier="near", methods=_methods_of(tier)))
    return pa.concat_tables(parts)


def _add_passages(found: _Hits, tier: Tier, evals: PrintTable, prints: PrintTable) -> None:
    """Units that hold most of a short eval text in passages, where nothing else says that they meet."""
    if not tier.words_by:
        return
    met = set(zip(found.unit, found.eval_unit, strict=True))
    num_of: Counter[int] = Counter(found.unit)
    for units, held, fraction in phrases.passages(evals, prints, tier.words_by):
        edge = Edge(OVERLAPS, fraction, len(tier.all_pair_methods), None)
        for unit in units.tolist():
            others = [other for other in held.tolist() if (unit, other) not in met]
            others = others[: max(0, MOST_CANDIDATES - num_of[unit])]
            num_of[unit] += len(others)
            found.add([unit], others, edge)


def _methods_of(tier: Tier) -> list[str]:
    """What the edges of a tier name, by position: its own methods, and that of `phrases` behind them."""
    return [*(signed(method, tier.plugin) for method in tier.all_pair_methods), phrases.METHOD]


def component_hits(
    components: pa.Table,
    eval_fingerprints: pa.Table,
    tiers: Sequence[Tier],
    *,
    settings: DedupSettings,
    advance: Advance = silent,
) -> pa.Table:
    """CONTAMINATION without names of eval sets and samples, of units that carry what an eval set holds: a film with a
    picture of it.

    components: as of `cross_pairs`. eval_fingerprints: of the components' own modality, as tiers are. Of equal
    components of a unit the first counts.
    """
    evals, parts = contracts.made(eval_fingerprints), [_rows({})]
    for tier in tiers:
        eval_digests, eval_prints = prints_of_tier(tier, [evals])
        carried, prints = component_prints(tier, components)
        if not len(eval_digests) or not carried.num_rows:
            continue
        found, carriers = _Hits(), carried["digest"].to_pylist()
        for units, held, edge, _ in near_meetings(tier, eval_prints, prints, settings, advance=advance):
            firsts = {carriers[unit]: unit for unit in reversed(units.tolist())}
            found.add(sorted(firsts.values()), held[:MOST_CANDIDATES].tolist(), edge)
        _add_passages(found, tier, eval_prints, prints)
        hits = _table(found, carried["digest"].combine_chunks(), eval_digests, tier="near", methods=_methods_of(tier))
        said = carried.select(["component", "time_s"]).take(pa.array(found.unit, pa.int64()))
        for name in said.column_names:
            hits = hits.set_column(hits.column_names.index(name), name, said[name])
        parts.append(hits)
    return pa.concat_tables(parts)


def semantic_hits(
    embeddings: pa.Table,
    eval_embeddings: pa.Table,
    bounds: Mapping[str, float],
    *,
    fingerprints: pa.Table,
    eval_fingerprints: pa.Table,
    settings: DedupSettings,
    advance: Advance = silent,
) -> pa.Table:
    """CONTAMINATION without names of eval sets and samples: cosine at or above the encoder's bound.

    fingerprints, eval_fingerprints: of the same units, for the veto of texts of one template and of drawings. Raises
    SettingsError for an encoder without a bound.
    """
    corpus, evals = (by_encoder([contracts.made(table)]) for table in (embeddings, eval_embeddings))
    parts = [_rows({})]
    for encoder, bound in bounds_of(list(evals), bounds, settings).items():
        if encoder not in corpus:
            continue
        (digests, vectors), (eval_digests, eval_vectors) = corpus[encoder], evals[encoder]
        prints = [
            prints_of(table, VETO_PRINTS, names)
            for table, names in ((eval_fingerprints, eval_digests), (fingerprints, digests))
        ]
        joint = {name: joined([one[name] for one in prints]) for name in VETO_PRINTS}
        is_apart = veto(joint, settings=settings, contrasts=False)  # a question with another answer has leaked, too
        found = _semantic(vectors, eval_vectors, bound, is_apart, advance)
        parts.append(_table(found, digests, eval_digests, tier="semantic", methods=[f"cosine:{encoder}"]))
    return pa.concat_tables(parts)


def _semantic(vectors: Vectors, evals: Vectors, bound: float, apart: Apart, advance: Advance) -> _Hits:
    found = _Hits()
    for low in range(0, len(vectors), _ROWS):
        block = vectors[low : low + _ROWS]
        rows, others = _above(block, evals, bound - _SLACK)
        cosine = np.einsum("nd,nd->n", block[rows].astype(np.float64), evals[others].astype(np.float64))
        cosine = np.minimum(cosine.round(6), 1.0)
        order = np.lexsort((others, -cosine, rows))
        rows, others, cosine = rows[order], others[order], cosine[order]
        is_near = cosine >= bound
        is_near[is_near] = ~apart(others[is_near], rows[is_near] + low + len(evals))
        rows, others, cosine = rows[is_near], others[is_near], cosine[is_near]
        rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
        for at in np.flatnonzero(rank < MOST_CANDIDATES).tolist():
            found.add([int(rows[at]) + low], [int(others[at])], Edge(SAME, float(cosine[at]), 0, None))
        advance(len(block))
    return found


def _above(block: Vectors, evals: Vectors, bound: float) -> tuple[Positions, Positions]:
    """(row of the block, eval unit) whose product reaches the bound: in memory, a tile of either at a time."""
    rows, others = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for low in range(0, len(evals), _ROWS):
        one, other = np.nonzero(block @ evals[low : low + _ROWS].T >= bound)
        rows.append(one)
        others.append(other + low)
    return np.concatenate(rows), np.concatenate(others)


def _table(found: _Hits, digests: pa.Array, evals: pa.Array, *, tier: str, methods: Sequence[str]) -> pa.Table:
    num = len(found.unit)
    spans = {
        name: [None if edge.spans_s is None else edge.spans_s[at] for edge in found.edge]
        for at, name in enumerate(_SPANS)
    }
    columns = {
        "digest": digests.take(pa.array(found.unit, pa.int64())),
        "eval_digest": evals.take(pa.array(found.eval_unit, pa.int64())),
        "tier": [tier] * num,
        "method": [methods[edge.method] for edge in found.edge],
        "relation": [MET[edge.relation] for edge in found.edge],
        "score": [round(edge.score, 6) for edge in found.edge],
    }
    return _rows(columns | spans)


def _rows(columns: Mapping[str, object]) -> pa.Table:
    """CONTAMINATION without the columns that name eval set and sample."""
    fields = [one for one in schemas.CONTAMINATION.arrow if one.name not in ("eval_set", "eval_key")]
    num = len(columns["digest"]) if columns else 0  # type: ignore[arg-type]
    arrays = [
        pa.array(columns[one.name], one.type) if one.name in columns else pa.nulls(num, one.type) for one in fields
    ]
    return pa.table(dict(zip([one.name for one in fields], arrays, strict=True)))
