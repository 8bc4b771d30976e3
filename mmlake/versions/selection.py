"""From samples and catalog rows to the samples of a version, and for everything else the cause that kept it out.

    P parts of all samples, S distinct samples by name, C catalog rows
A part is kept or masked by what the catalog says of its digest; a sample stays while one of its leading parts does.
Everything runs over whole columns, by number where it can: a version may hold a million samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import ContractBroken
from mmlake.recipes import Recipe
from mmlake.records import INTERLEAVED
from mmlake.versions.grouped_samples import Parts, Samples, first_of, taken
from mmlake.versions.sample_schemas import CATALOG_COLUMNS, EXCLUDED, PART, VERSION_SAMPLES, piece

# a finding of sound and film that says nothing of them, but of the transcript next to them
WRONG_TRANSCRIPT = "wrong_transcript"
MISSING, NO_LEAD, EXACT = "part:missing", "sample:no_lead", "tier:exact"


@dataclass(frozen=True, slots=True)
class Selection:
    """The samples of a version, and the parts left out; together every part of every sample, once."""

    samples: pa.Table  # VERSION_SAMPLES, sorted by shard, then sample
    # EXCLUDED, likewise, in order of the parts; cause is rule:<name>, status:<name>, licence:<id>, role:<name>,
    # source:<name>, size, language, contaminated:<eval set>, where, tier:<name>,
    # required:<role>, quota:<group>, part:missing or sample:no_lead
    excluded: pa.Table


def select(
    catalog_rows: pa.Table, samples: pa.Table, recipe: Recipe, *, priority: Callable[[str], int] = lambda source: 0
) -> Selection:
    """What the recipe admits of the samples, and what it leaves out with its first cause, in the order missing, status,
    licence, role, source, size, language, where, tier, required role, exact duplicate, quota. samples:
    `samples.bind_units` of all source shards, each with its `shard`. catalog_rows: CATALOG_COLUMNS and those of the
    recipe.

    Samples whose kept leading parts are the same are exact duplicates: one stays, by source priority (smallest first),
    then the number of kept parts, then its name. Raises ContractBroken where a digest is in the catalog twice, or a
    part's is not in it.
    """
    distinct = Samples.of(samples)
    parts = distinct.parts()
    catalog = _checked(catalog_rows)
    at_P = _places(catalog, parts)
    leads = recipe.lead_causes(catalog_rows)
    outs = _Outs(distinct, parts, _Causes.of(parts, at_P, catalog, recipe, leads), at_P)
    if recipe.judges:
        outs.doubt_transcripts(catalog)
    outs.without_lead()
    for role in recipe.required_roles:
        outs.without_role(role)
    if "exact" in recipe.drop_tiers:
        outs.repeated(priority)
    made = _samples_of(outs, catalog, recipe)
    if recipe.quotas:
        cut = recipe.cut(made)
        outs.cut(cut)
        made = made.filter(pa.array(cut == None))  # noqa: E711 - of each element
    return Selection(made, _excluded_of(outs))


def _checked(rows: pa.Table) -> pa.Table:
    """The columns of the catalog that are read. Raises ContractBroken where a digest is there twice."""
    rows = rows.select(list(CATALOG_COLUMNS)).combine_chunks()
    if pc.count_distinct(rows["digest"]).as_py() != rows.num_rows:
        counts = rows.group_by("digest").aggregate([([], "count_all")])
        twice = pc.min(counts["digest"].filter(pc.greater(counts["count_all"], 1))).as_py()
        raise ContractBroken(f"catalog rows name {twice} twice; run `Catalog.verify_unique`")
    return rows


def _places(catalog: pa.Table, parts: Parts) -> np.ndarray:
    """The catalog row of each part; -1 where the part has no digest."""
    digests = parts.flat["digest"]
    found = pc.index_in(digests, value_set=piece(catalog["digest"]))
    lost = pc.and_(pc.is_null(found), pc.is_valid(digests)).to_numpy(zero_copy_only=False)[parts.at_P]
    if lost.any():
        first = parts.take("digest", np.flatnonzero(lost)[:1])[0].as_py()
        raise ContractBroken(
            f"samples -> catalog: {int(lost.sum())} parts have a digest that the catalog does not, such as "
            f"{first}; materialize the catalog again"
        )
    places: np.ndarray = pc.fill_null(found, -1).to_numpy(zero_copy_only=False)[parts.at_P]
    return places


@dataclass(slots=True)
class _Causes:
    """Why parts, or samples, stay out: numbers of texts, so that millions of rows cost four bytes each."""

    texts: list[str]
    code: np.ndarray  # number of the text; -1 where nothing keeps the row out
    # number of the text that says more, in the column that `source` numbers; -1 where there is none
    detail: np.ndarray
    source: np.ndarray
    columns: list[pa.Array]  # of details: of the catalog, and names of samples

    @classmethod
    def of(cls, parts: Parts, at_P: np.ndarray, catalog: pa.Table, recipe: Recipe, leads: pa.Array) -> _Causes:
        """The cause of each part that does not stay by itself. leads: what keeps a row out where it leads."""
        texts: list[str] = []
        own = recipe.causes(catalog)
        own_C = _coded(own, texts)
        role_P = parts.role_codes(lambda role: None if role in recipe.roles else f"role:{role}", texts)
        tiers = piece(catalog["tier"])
        is_dropped = pc.is_in(tiers, value_set=pa.array(recipe.drop_tiers, pa.string()))
        dropped = pc.if_else(is_dropped, tiers, pa.scalar(None, pa.string()))
        leads = piece(leads)
        lead_C = _coded(pc.coalesce(leads, pc.binary_join_element_wise("tier", dropped, ":")), texts)
        is_tier_C = pc.is_null(leads).to_numpy(zero_copy_only=False)
        texts.append(MISSING)
        there = at_P >= 0
        own_P, lead_P = (np.where(there, np.append(codes, -1)[at_P], -1) for codes in (own_C, lead_C))
        lead_P = np.where(parts.leads_P, lead_P, -1)
        of_lead_P = np.where(np.append(is_tier_C, False)[at_P], 1, -1)
        chosen = [~there, own_P >= 0, role_P >= 0, lead_P >= 0]
        code = np.select(chosen, [np.full(len(at_P), len(texts) - 1), own_P, role_P, lead_P], -1)
        source = np.select(chosen, [np.full(len(at_P), -1), np.zeros(len(at_P)), np.full(len(at_P), -1), of_lead_P], -1)
        details = [_details(catalog, own), piece(catalog["survivor"]), piece(catalog["reason"])]
        return cls(texts, code.astype(np.int32), np.where(source >= 0, at_P, -1), source.astype(np.int8), details)

    @classmethod
    def none(cls, count: int, like: _Causes) -> _Causes:
        """No cause for any of so many rows; texts and columns are shared."""
        rows = np.full(count, -1)
        return cls(like.texts, rows.astype(np.int32), rows, rows.astype(np.int8), like.columns)

    def set(self, rows: np.ndarray, cause: str, *, detail: np.ndarray | int = -1, source: int = -1) -> None:
        """Give these rows the cause."""
        if cause not in self.texts:
            self.texts.append(cause)
        self.code[rows], self.detail[rows], self.source[rows] = self.texts.index(cause), detail, source

    def copy(self, rows: np.ndarray, other: _Causes, theirs: np.ndarray) -> None:
        """Give these rows the causes of other rows."""
        for name in ("code", "detail", "source"):
            getattr(self, name)[rows] = getattr(other, name)[theirs]

    def text(self, rows: np.ndarray) -> tuple[pa.Array, pa.Array]:
        """(cause, detail) of these rows."""
        codes = self.code[rows]
        causes = pa.array(self.texts, pa.string()).take(pa.array(codes, mask=codes < 0))
        details = pa.nulls(len(rows), pa.string())
        for number, column in enumerate(self.columns):
            mine = self.source[rows] == number
            if mine.any():
                values = column.cast(pa.string()).take(pa.array(self.detail[rows][mine]))
                details = pc.replace_with_mask(details, pa.array(mine), values)
        return causes, details


def _details(rows: pa.Table, causes: pa.Array) -> pa.Array:
    """What says more of the cause of each row: of a licence the sources that state it, of others the reason."""
    by_licence = pc.fill_null(pc.starts_with(causes, "licence:"), False)
    reasons = piece(rows["reason"])
    if not pc.any(by_licence, min_count=0).as_py():
        return reasons
    return pc.if_else(by_licence, pc.fill_null(pc.binary_join(piece(rows["sources"]), ", "), ""), reasons)


def _coded(causes: pa.Array | pa.ChunkedArray, texts: list[str]) -> np.ndarray:
    """The number of each cause among the texts, to which they are added; -1 where null."""
    causes = piece(causes)
    encoded = causes.dictionary_encode()
    codes: np.ndarray = pc.fill_null(encoded.indices, -1 - len(texts)).to_numpy(zero_copy_only=False) + len(texts)
    texts += encoded.dictionary.to_pylist()
    return codes.astype(np.int32)


class _Outs:
    """Which samples are out, and why."""

    def __init__(self, samples: Samples, parts: Parts, causes_P: _Causes, at_P: np.ndarray) -> None:
        self.samples, self.parts, self.causes_P, self.at_P = samples, parts, causes_P, at_P
        self.causes_S = _Causes.none(samples.count, causes_P)

    @property
    def kept_P(self) -> np.ndarray:
        """Whether nothing keeps the part out, bool."""
        kept: np.ndarray = self.causes_P.code < 0
        return kept

    @property
    def in_S(self) -> np.ndarray:
        """Whether nothing keeps the sample out, bool."""
        stays: np.ndarray = self.causes_S.code < 0
        return stays

    def count(self, chosen_P: np.ndarray) -> np.ndarray:
        """How many of these parts each sample has."""
        return np.bincount(self.parts.owner_P[chosen_P], minlength=self.samples.count)

    def doubt_transcripts(self, catalog: pa.Table) -> None:
        """Give transcripts whose medium was found to say something else that finding as their cause."""
        wrong_C = pc.fill_null(pc.equal(catalog["rule"], WRONG_TRANSCRIPT), False).to_numpy()
        doubting = self.parts.leads_P & (self.at_P >= 0)
        doubting[doubting] = wrong_C[self.at_P[doubting]]
        if not doubting.any():
            return
        row_S = np.full(self.samples.count, -1)
        row_S[self.parts.owner_P[doubting]] = self.at_P[doubting]
        lead_P = row_S[self.parts.owner_P]
        doubted = np.flatnonzero(self.parts.is_role("transcript") & self.kept_P & (lead_P >= 0))
        self.causes_P.set(doubted, f"rule:{WRONG_TRANSCRIPT}", detail=lead_P[doubted], source=2)

    def without_lead(self) -> None:
        """Samples of which no leading part stays are out, by the cause of the first."""
        kept_P, leads_P = self.kept_P, self.parts.leads_P
        lost_S = self.count(leads_P & kept_P) == 0
        self.causes_S.set(np.flatnonzero(lost_S), NO_LEAD)
        first_S = first_of(self.parts.owner_P, np.flatnonzero(leads_P & ~kept_P), self.samples.count)
        with_lead = np.flatnonzero(lost_S & (first_S >= 0))
        self.causes_S.copy(with_lead, self.causes_P, first_S[with_lead])

    def without_role(self, role: str) -> None:
        """Samples of which no part of the role stays are out."""
        has_S = self.count(self.kept_P & self.parts.is_role(role))
        self.causes_S.set(np.flatnonzero((has_S == 0) & self.in_S), f"required:{role}")

    def repeated(self, priority: Callable[[str], int]) -> None:
        """Of the samples with the same kept leading parts all but one are out."""
        leading = np.flatnonzero(self.parts.leads_P & self.kept_P)
        owners = self.parts.owner_P[leading]
        key_S = _keys(self.at_P[leading], np.bincount(owners, minlength=self.samples.count))
        able = np.flatnonzero(self.in_S)
        ranks = (able, -self.count(self.kept_P)[able], self.samples.priorities(priority)[able], key_S[able])
        order = able[np.lexsort(ranks)]
        is_best = np.ones(len(order), bool)
        is_best[1:] = key_S[order][1:] != key_S[order][:-1]
        best = order[is_best][np.cumsum(is_best) - 1]
        columns = self.causes_S.columns
        columns.append(self.samples.names)
        self.causes_S.set(order[~is_best], EXACT, detail=best[~is_best], source=len(columns) - 1)

    def cut(self, causes: np.ndarray) -> None:
        """Those of the samples that stay, by shard and name, which have a cause are out."""
        rows = self.samples.by_shard(np.flatnonzero(self.in_S))
        for cause in sorted({cause for cause in causes.tolist() if cause is not None}):
            self.causes_S.set(rows[causes == cause], cause)


def _keys(values: np.ndarray, counts_S: np.ndarray) -> np.ndarray:
    """A number for each list of values, equal for equal lists; values: joined, counts_S of each list."""
    ends = np.concatenate(([0], np.cumsum(counts_S))) * 8
    buffers = [None, pa.py_buffer(ends.astype("<i8").tobytes()), pa.py_buffer(values.astype("<i8").tobytes())]
    lists = pa.Array.from_buffers(pa.large_binary(), len(counts_S), buffers)
    codes: np.ndarray = lists.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return codes


def _samples_of(outs: _Outs, catalog: pa.Table, recipe: Recipe) -> pa.Table:
    """VERSION_SAMPLES of those that stay."""
    samples, parts, at_P = outs.samples, outs.parts, outs.at_P
    stays_P = outs.kept_P & outs.in_S[parts.owner_P]
    rows = samples.by_shard(np.flatnonzero(outs.in_S))
    counts_S = outs.count(stays_P)
    chosen, counts = taken(np.flatnonzero(stays_P), counts_S, rows)
    fields = [_cast(parts.take(field.name, chosen), field.type) for field in PART]
    kept = pa.ListArray.from_arrays(_offsets(counts), pa.StructArray.from_arrays(fields, fields=list(PART)))
    del fields
    lead_P = stays_P & parts.leads_P
    first = first_of(parts.owner_P, np.flatnonzero(lead_P), samples.count)[rows]
    num_leads = outs.count(lead_P)[rows]
    weights = np.full(samples.count, np.inf)
    if recipe.weighted:
        weight_C = np.round(pc.fill_null(piece(catalog["weight"]), 0.0).to_numpy().astype(float), 6)
        np.minimum.at(weights, parts.owner_P[lead_P], weight_C[at_P[lead_P]])
    columns: dict[str, Any] = {
        "lead": parts.take("digest", first),
        "modality": pc.if_else(pa.array(num_leads > 1), INTERLEAVED, parts.take("modality", first)),
        "weight": weights[rows] if recipe.weighted else np.ones(len(rows)),
        "licences": _licences(catalog, at_P[chosen], counts),
        "parts": kept,
    }
    columns |= {name: samples.take(name, rows) for name in VERSION_SAMPLES.names if name not in columns}
    columns = {field.name: _cast(columns.pop(field.name), field.type) for field in VERSION_SAMPLES}
    return pa.table(columns, schema=VERSION_SAMPLES)


def _licences(catalog: pa.Table, at: np.ndarray, counts: np.ndarray) -> pa.Array:
    """The distinct licences of the parts of each sample, sorted."""
    lists = piece(catalog["licences"])
    encoded = pc.list_flatten(lists).dictionary_encode()
    ids = encoded.dictionary.to_pylist()
    rank = np.argsort(np.argsort(ids)) if ids else np.empty(0, np.int64)
    sizes_C = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    starts_C = np.cumsum(sizes_C) - sizes_C
    sizes = sizes_C[at]
    owner = np.repeat(np.repeat(np.arange(len(counts)), counts), sizes)
    places = np.repeat(starts_C[at] - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
    ranks = rank[encoded.indices.to_numpy(zero_copy_only=False)[places]]
    pairs = np.unique(owner * max(1, len(ids)) + ranks)
    found = pa.array(sorted(ids), pa.string()).take(pa.array(pairs % max(1, len(ids))))
    return pa.ListArray.from_arrays(_offsets(np.bincount(pairs // max(1, len(ids)), minlength=len(counts))), found)


def _excluded_of(outs: _Outs) -> pa.Table:
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
