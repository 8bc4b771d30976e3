"""From samples and catalog rows to the samples of a version, and for everything else the cause that kept it out.

    P parts of all samples, S distinct samples by name, C catalog rows
A part is kept or masked by what the catalog says of its digest; a sample stays while one of its leading parts does.
Everything runs over whole columns, by number where it can, a bounded number of source shards at a time: a version may
hold millions of samples. Only who repeats whom, and quotas, are decided over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.engine.digest_index import piece
from mmlake.recipes import Recipe
from mmlake.records import INTERLEAVED
from mmlake.versions.grouped_samples import first_of, taken
from mmlake.versions.masked_fields import MaskedTexts
from mmlake.versions.outs import Outs, Verdicts
from mmlake.versions.sample_batches import SampleBatches, Scan
from mmlake.versions.sample_schemas import CATALOG_COLUMNS, EXCLUDED, PART, VERSION_SAMPLES


@dataclass(frozen=True, slots=True)
class Selection:
    """The samples of a version, and the parts left out; together every part of every sample, once."""

    samples: pa.Table  # VERSION_SAMPLES, sorted by shard, then sample
    # EXCLUDED, likewise, in order of the parts; cause is rule:<name>, status:<name>, licence:<id>, role:<name>,
    # source:<name>, size, language, contaminated:<eval set>, where, caption_score, tier:<name>, carried:<component>,
    # required:<role>, quota:<group>, part:missing, part:other_modality, part:repeated or sample:no_lead
    excluded: pa.Table


def select(
    catalog_rows: pa.Table,
    samples: pa.Table | Scan,
    recipe: Recipe,
    *,
    priority: Callable[[str], int] = lambda source: 0,
    caption_scores: pa.Table | None = None,
) -> Selection:
    """What the recipe admits of the samples, and what it leaves out with its first cause, in the order missing,
    repeated, other modality, status, licence, role, source, size, language, where, tier, carried, required role, exact
    duplicate, quota. samples: `samples.bind_units` of all source shards, each with its `shard`, in one table or as what
    reads the tables of the source shards anew whenever it is called, in order of their names. catalog_rows:
    CATALOG_COLUMNS and those of the recipe. caption_scores: digest, caption, cosine of the pairs that have one; needed
    where the recipe has a `min_caption_score`.

    Samples whose kept leading parts are the same are exact duplicates: one stays, by source priority (smallest first),
    then the number of kept parts, then its name. Raises ContractBroken where a digest is in the catalog twice, or a
    part's is not in it.
    """
    batches = SampleBatches((lambda: (samples,)) if isinstance(samples, pa.Table) else samples)
    catalog = catalog_rows.select(list(CATALOG_COLUMNS)).combine_chunks()
    verdicts = Verdicts.of(catalog, recipe, catalog_rows, caption_scores)
    repeats = _repeats(verdicts, batches, priority) if "exact" in recipe.drop_tiers else None
    licences = _Licences(catalog["licences"])
    kept, excluded = [], [EXCLUDED.empty_table()]
    for outs in _decided(verdicts, batches, repeats):
        kept.append(_samples_of(outs, licences))
        if not recipe.quotas:
            excluded.append(_excluded_of(outs))
    made = pa.concat_tables([VERSION_SAMPLES.empty_table(), *kept])
    if recipe.quotas:
        cut = recipe.cut(made)
        ends = np.cumsum([part.num_rows for part in kept])[:-1]
        for outs, of_batch in zip(_decided(verdicts, batches, repeats), np.split(cut, ends), strict=True):
            outs.cut(of_batch)
            excluded.append(_excluded_of(outs))
        made = made.filter(pa.array(cut == None))  # noqa: E711 - of each element
    return Selection(made, pa.concat_tables(excluded))


def _decided(verdicts: Verdicts, batches: SampleBatches, repeats: list[_Repeats] | None) -> Iterator[Outs]:
    """Who is out of each batch, and why, but for quotas."""
    for number, batch in enumerate(batches):
        outs = Outs(batch, verdicts)
        if repeats is not None:
            outs.repeat(*repeats[number])
        yield outs


_Repeats = tuple[np.ndarray, pa.Array]  # numbers of the samples of a batch, the names of those that they repeat


def _repeats(verdicts: Verdicts, batches: SampleBatches, priority: Callable[[str], int]) -> list[_Repeats]:
    """Of each batch the samples that have the leading parts of another one, which stays."""
    found, names = [], []
    for batch in batches:
        outs = Outs(batch, verdicts)
        leading = np.flatnonzero(outs.parts.leads_P & outs.kept_P)
        num_leads = np.bincount(outs.parts.owner_P[leading], minlength=batch.count)
        ranks = batch.priorities(priority), -outs.count(outs.kept_P)
        found.append((outs.at_P[leading], num_leads, outs.in_S, *ranks))
        names.append(batch.names)
    rows, num_leads, in_S, priorities, fewer = (np.concatenate(columns) for columns in zip(*found, strict=True))
    every = pa.concat_arrays(names)
    place_S = np.arange(len(every)) if len(names) == 1 else pc.rank(every, tiebreaker="dense").to_numpy()
    key_S = _keys(rows, num_leads)
    able = np.flatnonzero(in_S)
    order = able[np.lexsort((place_S[able], fewer[able], priorities[able], key_S[able]))]
    is_best = np.ones(len(order), bool)
    is_best[1:] = key_S[order][1:] != key_S[order][:-1]
    best_S = np.full(len(every), -1)
    best_S[order] = order[is_best][np.cumsum(is_best) - 1]
    best_S[order[is_best]] = -1
    starts = np.cumsum([len(one) for one in names])[:-1]
    return [(np.flatnonzero(best >= 0), every.take(pa.array(best[best >= 0]))) for best in np.split(best_S, starts)]


def _keys(values: np.ndarray, counts_S: np.ndarray) -> np.ndarray:
    """A number for each list of values, equal for equal lists; values: joined, counts_S of each list."""
    ends = np.concatenate(([0], np.cumsum(counts_S))) * 8
    buffers = [None, pa.py_buffer(ends.astype("<i8").tobytes()), pa.py_buffer(values.astype("<i8").tobytes())]
    lists = pa.Array.from_buffers(pa.large_binary(), len(counts_S), buffers)
    codes: np.ndarray = lists.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return codes


def _samples_of(outs: Outs, licences: _Licences) -> pa.Table:
    """VERSION_SAMPLES of those that stay."""
    samples, parts, at_P = outs.samples, outs.parts, outs.at_P
    recipe = outs.verdicts.recipe
    stays_P = outs.kept_P & outs.in_S[parts.owner_P]
    rows = samples.by_shard(np.flatnonzero(outs.in_S))
    counts_S = outs.count(stays_P)
    chosen, counts = taken(np.flatnonzero(stays_P), counts_S, rows)
    masked = MaskedTexts(parts, outs.kept_P, outs.in_S)
    of_parts = {field.name: _cast(parts.take(field.name, chosen), field.type) for field in PART}
    of_parts["fields_json"] = masked.without(of_parts["fields_json"], parts.owner_P[chosen])
    kept = pa.ListArray.from_arrays(_offsets(counts), pa.StructArray.from_arrays(of_parts.values(), fields=list(PART)))
    del of_parts
    lead_P = stays_P & parts.leads_P
    first = first_of(parts.owner_P, np.flatnonzero(lead_P), samples.count)[rows]
    num_leads = outs.count(lead_P)[rows]
    weights = np.full(samples.count, np.inf)
    if recipe.weighted:
        np.minimum.at(weights, parts.owner_P[lead_P], outs.verdicts.weight_C[at_P[lead_P]])
    columns: dict[str, Any] = {
        "lead": parts.take("digest", first),
        "modality": pc.if_else(pa.array(num_leads > 1), INTERLEAVED, parts.take("modality", first)),
        "weight": weights[rows] if recipe.weighted else np.ones(len(rows)),
        "licences": licences.of(at_P[chosen], counts),
        "fields_json": masked.without(samples.take("fields_json", rows), rows),
        "parts": kept,
    }
    columns |= {name: samples.take(name, rows) for name in VERSION_SAMPLES.names if name not in columns}
    columns = {field.name: _cast(columns.pop(field.name), field.type) for field in VERSION_SAMPLES}
    return pa.table(columns, schema=VERSION_SAMPLES)


class _Licences:
    """The licences of the rows of the catalog, by number."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        lists = piece(column)
        encoded = pc.list_flatten(lists).dictionary_encode()
        ids = encoded.dictionary.to_pylist()
        self._ids = pa.array(sorted(ids), pa.string())
        rank = np.argsort(np.argsort(ids)) if ids else np.empty(0, np.int64)
        self._ranks = rank[encoded.indices.to_numpy(zero_copy_only=False)].astype(np.int32)
        self._sizes_C = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
        self._starts_C = np.cumsum(self._sizes_C) - self._sizes_C

    def of(self, at: np.ndarray, counts: np.ndarray) -> pa.Array:
        """The distinct licences of each sample, sorted; at: catalog rows of its parts, counts: how many it has."""
        sizes, num_ids = self._sizes_C[at], max(1, len(self._ids))
        owner = np.repeat(np.repeat(np.arange(len(counts)), counts), sizes)
        places = np.repeat(self._starts_C[at] - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
        pairs = np.unique(owner * num_ids + self._ranks[places])
        found = self._ids.take(pa.array(pairs % num_ids))
        return pa.ListArray.from_arrays(_offsets(np.bincount(pairs // num_ids, minlength=len(counts))), found)


def _excluded_of(outs: Outs) -> pa.Table:
    """EXCLUDED: the masked parts of samples that stay, and every part of the others."""
    samples, parts = outs.samples, outs.parts
    listed_P = ~outs.kept_P | ~outs.in_S[parts.owner_P]
    counts_S = outs.count(listed_P)
    rows = samples.by_shard(np.flatnonzero(counts_S))
    chosen, _ = taken(np.flatnonzero(listed_P), counts_S, rows)
    owners = parts.owner_P[chosen]
    is_whole = ~outs.in_S[owners]
    of_part, of_sample = outs.causes_P.text(chosen), outs.causes_S.text(owners)
    cause, detail = (
        pc.if_else(pa.array(is_whole), whole, alone) for whole, alone in zip(of_sample, of_part, strict=True)
    )
    columns: dict[str, Any] = {
        "sample": samples.names.take(pa.array(owners)),
        "is_whole": is_whole,
        "cause": cause,
        "detail": detail,
        "shard": samples.take("shard", owners),
    }
    columns |= {name: parts.take(name, chosen) for name in ("digest", "modality", "role", "size_bytes")}
    return pa.table({field.name: _cast(columns[field.name], field.type) for field in EXCLUDED}, schema=EXCLUDED)


def _offsets(counts: np.ndarray) -> pa.Array:
    return pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())


def _cast(values: Any, kind: pa.DataType) -> pa.Array:
    array = piece(values) if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    return array if array.type == kind else array.cast(kind)
