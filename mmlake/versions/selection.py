"""From samples and catalog rows to the samples of a version, and for everything else the cause that kept it out.

    P parts of all samples, S samples, C catalog rows
A part is kept or masked by what the catalog says of its digest; a sample stays while one of its leading parts does.
Everything runs over whole columns: a version may hold a million samples.
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
from mmlake.records import INTERLEAVED, LEADING_ROLES

_STRINGS = pa.list_(pa.string())
PART = pa.struct(
    [
        ("position", pa.int32()),
        ("role", pa.string()),
        ("modality", pa.string()),
        ("digest", pa.string()),
        ("content_type", pa.string()),
        ("size_bytes", pa.int64()),
        ("fields_json", pa.string()),
        ("parent_digest", pa.string()),  # the blob that holds it: the digest itself where the part is whole
        ("start_us", pa.int64()),  # in the item, of a transcript in its recording; null where whole
        ("end_us", pa.int64()),
    ]
)
VERSION_SAMPLES = pa.schema(
    [
        ("sample", pa.string()),
        ("lead", pa.string()),  # digest of its first leading part
        ("modality", pa.string()),  # of the leading part; INTERLEAVED where several parts lead
        ("weight", pa.float64()),
        ("sources", _STRINGS),
        ("licences", _STRINGS),
        ("sample_ids", _STRINGS),
        ("num_occurrences", pa.int32()),
        ("shard", pa.string()),  # key of its source shard; of several, the first by name. Null in older versions
        ("fields_json", pa.string()),
        ("parts", pa.list_(PART)),  # those that are kept, in order
    ]
)
EXCLUDED = pa.schema(
    [
        ("sample", pa.string()),
        ("digest", pa.string()),  # null where no bytes could be had
        ("modality", pa.string()),  # of the part
        ("role", pa.string()),
        ("size_bytes", pa.int64()),
        ("is_whole", pa.bool_()),  # the sample is out with all of its parts; else this part alone is masked
        ("cause", pa.string()),
        ("detail", pa.string()),
    ]
)
CATALOG_COLUMNS = (
    "digest", "modality", "status", "rule", "reason", "weight", "licences", "sources", "tier", "survivor",
)  # fmt: skip
# a finding of sound and film that says nothing of them, but of the transcript next to them
WRONG_TRANSCRIPT = "wrong_transcript"
MISSING, NO_LEAD, EXACT = "part:missing", "sample:no_lead", "tier:exact"


@dataclass(frozen=True, slots=True)
class Selection:
    """The samples of a version, and the parts left out; together every part of every sample, once."""

    samples: pa.Table  # VERSION_SAMPLES, sorted by sample
    # EXCLUDED, sorted by sample, in order of the parts; cause is rule:<name>, status:<name>, licence:<id>, role:<name>,
    # source:<name>, size, language, where, tier:<name>, required:<role>, quota:<group>, part:missing or sample:no_lead
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
    samples = _merged(samples)
    parts = _flat_parts(samples)
    known = _Known.of(catalog_rows, recipe)
    at_P = known.places(parts)
    causes_P, details_P = _causes(parts, at_P, known, recipe)
    leads_P = _is_in(parts["role"], LEADING_ROLES)
    if recipe.judges:
        _mask_wrong_transcripts(parts, leads_P, at_P, known, causes_P, details_P)
    kept_P = np.array([cause is None for cause in causes_P], dtype=bool)
    outs = _Outs(samples, parts, leads_P, kept_P, causes_P, details_P)
    outs.without_lead()
    for role in recipe.required_roles:
        outs.without_role(role)
    if "exact" in recipe.drop_tiers:
        outs.repeated(priority)
    made = _samples_of(samples, parts, outs, at_P, known, recipe)
    cut = recipe.cut(made)
    made = made.filter(pa.array([cause is None for cause in cut], pa.bool_()))
    outs.cut(cut)
    return Selection(made, _excluded_of(samples, parts, outs))


@dataclass(slots=True)
class _Parts:
    """The parts of all samples as columns."""

    columns: dict[str, pa.Array]
    owner_P: np.ndarray  # number of the sample

    def __getitem__(self, name: str) -> pa.Array:
        return self.columns[name]


def _flat_parts(samples: pa.Table) -> _Parts:
    lists = samples["parts"].combine_chunks()
    flat = pc.list_flatten(lists)
    owner_P = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    return _Parts({field.name: pc.struct_field(flat, field.name) for field in flat.type}, owner_P)


def _merged(samples: pa.Table) -> pa.Table:
    """One row per sample, sorted: the same one in several source shards adds up."""
    samples = samples.append_column(
        "sources", _listed(samples["source"].combine_chunks())
    ).sort_by([("sample", "ascending"), ("shard", "ascending")])  # fmt: skip
    names = samples["sample"].to_numpy(zero_copy_only=False)
    fresh = np.ones(len(names), dtype=bool)
    fresh[1:] = names[1:] != names[:-1]
    if fresh.all():
        return samples
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], len(names))
    repeated = {int(start): int(end) for start, end in zip(first, last, strict=True) if end - start > 1}
    merged = samples.take(pa.array(first))
    for name in ("sample_ids", "sources", "licences", "num_occurrences"):
        values, column = merged[name].to_pylist(), samples[name]
        for row, start in enumerate(first.tolist()):
            if start in repeated:
                together = column.slice(start, repeated[start] - start).to_pylist()
                values[row] = sum(together) if name == "num_occurrences" else sorted({x for xs in together for x in xs})
        merged = merged.set_column(merged.column_names.index(name), name, pa.array(values, column.type))
    return merged


def _listed(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1), pa.int32()), values)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the catalog says of each digest."""

    rows: pa.Table
    causes_C: list[str | None]  # status and licence: what keeps a digest out wherever it stands
    leads_C: list[str | None]  # source, size, language, condition and tier: what keeps it out where it leads

    @classmethod
    def of(cls, rows: pa.Table, recipe: Recipe) -> _Known:
        all_rows, rows = rows, rows.select(list(CATALOG_COLUMNS)).combine_chunks()
        digests = rows["digest"]
        if pc.count_distinct(digests).as_py() != rows.num_rows:
            counts = pc.value_counts(digests.combine_chunks()).to_pylist()
            twice = min(count["values"] for count in counts if count["counts"] > 1)
            raise ContractBroken(f"catalog rows name {twice} twice; run `Catalog.verify_unique`")
        tiers = pc.if_else(
            pc.is_in(rows["tier"], value_set=pa.array(list(recipe.drop_tiers), pa.string())),
            pc.binary_join_element_wise("tier", rows["tier"], ":"),
            pa.scalar(None, pa.string()),
        )
        leads = pc.coalesce(recipe.lead_causes(all_rows), tiers)
        return cls(rows, recipe.causes(rows).to_pylist(), leads.to_pylist())

    def places(self, parts: _Parts) -> np.ndarray:
        """The catalog row of each part; -1 where the part has no digest."""
        found = pc.index_in(parts["digest"], value_set=self.rows["digest"].combine_chunks())
        lost = pc.and_(pc.is_null(found), pc.is_valid(parts["digest"]))
        if pc.any(lost, min_count=0).as_py():
            first = parts["digest"].filter(lost)[0].as_py()
            raise ContractBroken(
                f"samples -> catalog: {pc.sum(lost).as_py()} parts have a digest that the catalog does not, such as "
                f"{first}; materialize the catalog again"
            )
        places: np.ndarray = pc.fill_null(found, -1).to_numpy(zero_copy_only=False)
        return places


def _causes(
    parts: _Parts, at_P: np.ndarray, known: _Known, recipe: Recipe
) -> tuple[list[str | None], list[str | None]]:
    """(cause, detail) of each part that does not stay by itself; None where it does."""
    leads = _is_in(parts["role"], LEADING_ROLES).tolist()
    reasons, sources, survivors = (known.rows[name].to_pylist() for name in ("reason", "sources", "survivor"))
    causes: list[str | None] = []
    details: list[str | None] = []
    for at, role, leading in zip(at_P.tolist(), parts["role"].to_pylist(), leads, strict=True):
        cause, detail = None, None
        if at < 0:
            cause = MISSING
        elif (cause := known.causes_C[at]) is not None:
            detail = ", ".join(sources[at] or []) if cause.startswith("licence:") else reasons[at]
        elif role not in recipe.roles:
            cause = f"role:{role}"
        elif leading and (cause := known.leads_C[at]) is not None:
            detail = survivors[at] if cause.startswith("tier:") else None
        causes.append(cause)
        details.append(detail)
    return causes, details


def _mask_wrong_transcripts(
    parts: _Parts,
    leads_P: np.ndarray,
    at_P: np.ndarray,
    known: _Known,
    causes_P: list[str | None],
    details_P: list[str | None],
) -> None:
    """Give transcripts whose medium was found to say something else that finding as their cause."""
    rules, reasons = known.rows["rule"], known.rows["reason"]
    wrong_C = pc.fill_null(pc.equal(rules, WRONG_TRANSCRIPT), False).to_numpy()
    doubting_P = leads_P & (at_P >= 0)
    doubting_P[doubting_P] = wrong_C[at_P[doubting_P]]
    doubts = {int(parts.owner_P[at]): int(at_P[at]) for at in np.flatnonzero(doubting_P)}
    if doubts:
        for at in np.flatnonzero(_is_in(parts["role"], ("transcript",))).tolist():
            if causes_P[at] is None and (lead := doubts.get(int(parts.owner_P[at]))) is not None:
                causes_P[at], details_P[at] = f"rule:{WRONG_TRANSCRIPT}", reasons[lead].as_py()


class _Outs:
    """Which samples are out, and why."""

    def __init__(
        self,
        samples: pa.Table,
        parts: _Parts,
        leads_P: np.ndarray,
        kept_P: np.ndarray,
        causes_P: list[str | None],
        details_P: list[str | None],
    ) -> None:
        self._samples, self._parts = samples, parts
        self.leads_P, self.kept_P, self.causes_P, self.details_P = leads_P, kept_P, causes_P, details_P
        self.causes: dict[int, tuple[str, str | None]] = {}  # number of a sample -> (cause, detail)

    def count(self, chosen_P: np.ndarray) -> np.ndarray:
        """How many of these parts each sample has."""
        return np.bincount(self._parts.owner_P[chosen_P], minlength=self._samples.num_rows)

    def without_lead(self) -> None:
        """Samples of which no leading part stays are out, by the cause of the first."""
        for number in np.flatnonzero(self.count(self.leads_P & self.kept_P) == 0).tolist():
            self.causes[number] = NO_LEAD, None
        owners = self._parts.owner_P
        for at in np.flatnonzero(self.leads_P & ~self.kept_P).tolist():
            if self.causes.get(number := int(owners[at]), ("", None))[0] == NO_LEAD:
                self.causes[number] = str(self.causes_P[at]), self.details_P[at]

    def without_role(self, role: str) -> None:
        """Samples of which no part of the role stays are out."""
        has = self.count(self.kept_P & _is_in(self._parts["role"], (role,)))
        for number in np.flatnonzero(has == 0).tolist():
            self.causes.setdefault(number, (f"required:{role}", None))

    def repeated(self, priority: Callable[[str], int]) -> None:
        """Of the samples with the same kept leading parts all but one are out."""
        names = self._samples["sample"].to_pylist()
        sources = self._samples["sources"].to_pylist()
        num_kept = self.count(self.kept_P).tolist()
        best: dict[str, tuple[int, int, str, int]] = {}
        ranked: list[tuple[int, str]] = []
        for number, key in self._leading().items():
            if number not in self.causes:
                rank = (min(map(priority, sources[number])), -num_kept[number], names[number], number)
                ranked.append((number, key))
                if key not in best or rank < best[key]:
                    best[key] = rank
        for number, key in ranked:
            if best[key][3] != number:
                self.causes[number] = EXACT, best[key][2]

    def cut(self, causes: np.ndarray) -> None:
        """Those of the samples that stay which have a cause are out."""
        for number, cause in zip(np.flatnonzero(~self.is_out_S()).tolist(), causes.tolist(), strict=True):
            if cause is not None:
                self.causes[number] = cause, None

    def _leading(self) -> dict[int, str]:
        """Number of a sample -> the digests of its kept leading parts, joined."""
        found: dict[int, str] = {}
        chosen = np.flatnonzero(self.leads_P & self.kept_P)
        digests = self._parts["digest"].take(pa.array(chosen)).to_pylist()
        for number, digest in zip(self._parts.owner_P[chosen].tolist(), digests, strict=True):
            found[number] = found[number] + digest if number in found else digest
        return found

    def is_out_S(self) -> np.ndarray:
        """Whether each sample is out."""
        out = np.zeros(self._samples.num_rows, dtype=bool)
        out[list(self.causes)] = True
        return out


def _samples_of(
    samples: pa.Table, parts: _Parts, outs: _Outs, at_P: np.ndarray, known: _Known, recipe: Recipe
) -> pa.Table:
    """VERSION_SAMPLES of those that stay."""
    in_S = ~outs.is_out_S()
    stays_P = outs.kept_P & in_S[parts.owner_P]
    chosen, owners = pa.array(np.flatnonzero(stays_P)), parts.owner_P[stays_P]
    counts = np.bincount(owners, minlength=samples.num_rows)[in_S]
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())
    fields = [parts[field.name].cast(field.type).take(chosen) for field in PART]
    kept = pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(fields, fields=list(PART)))
    lead_P = stays_P & outs.leads_P
    first = np.full(samples.num_rows, -1)
    places = np.flatnonzero(lead_P)[::-1]
    first[parts.owner_P[places]] = places  # the smallest is written last
    first = first[in_S]
    num_leads = np.bincount(parts.owner_P[lead_P], minlength=samples.num_rows)[in_S]
    of_lead = parts["modality"].take(pa.array(first))
    weights = np.full(samples.num_rows, np.inf)
    if recipe.weighted:
        weight_C = np.round(pc.fill_null(known.rows["weight"].combine_chunks(), 0.0).to_numpy().astype(float), 6)
        np.minimum.at(weights, parts.owner_P[lead_P], weight_C[at_P[lead_P]])
    columns: dict[str, Any] = {name: samples[name].filter(pa.array(in_S)) for name in samples.column_names}
    columns |= {
        "lead": parts["digest"].take(pa.array(first)),
        "modality": pc.if_else(pa.array(num_leads > 1), INTERLEAVED, of_lead),
        "weight": weights[in_S] if recipe.weighted else np.ones(int(in_S.sum())),
        "licences": _unions(known.rows["licences"].to_pylist(), at_P[stays_P], counts),
        "parts": kept,
    }
    return pa.table({field.name: _cast(columns[field.name], field.type) for field in VERSION_SAMPLES})


def _unions(lists_C: list[list[str] | None], at: np.ndarray, counts: np.ndarray) -> pa.Array:
    """The distinct licences of the parts of each sample, sorted."""
    found, start, places = [], 0, at.tolist()
    for count in counts.tolist():
        found.append(sorted({one for place in places[start : start + count] for one in lists_C[place] or ()}))
        start += count
    return pa.array(found, _STRINGS)


def _excluded_of(samples: pa.Table, parts: _Parts, outs: _Outs) -> pa.Table:
    """EXCLUDED: the masked parts of samples that stay, and every part of the others."""
    out_P = outs.is_out_S()[parts.owner_P]
    places = np.flatnonzero(out_P | ~outs.kept_P)
    owners = parts.owner_P[places].tolist()
    whole = [outs.causes[owner] if is_out else None for owner, is_out in zip(owners, out_P[places], strict=True)]
    alone = [(outs.causes_P[at], outs.details_P[at]) for at in places.tolist()]
    reasons = [one if one is not None else other for one, other in zip(whole, alone, strict=True)]
    columns: dict[str, Any] = {
        "sample": samples["sample"].take(pa.array(owners, pa.int64())),
        "is_whole": out_P[places],
        "cause": pa.array([cause for cause, _ in reasons], pa.string()),
        "detail": pa.array([detail for _, detail in reasons], pa.string()),
    }
    columns |= {name: parts[name].take(pa.array(places)) for name in ("digest", "modality", "role", "size_bytes")}
    return pa.table({field.name: _cast(columns[field.name], field.type) for field in EXCLUDED})


def _cast(values: Any, kind: pa.DataType) -> pa.Array:
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else pa.array(values)
    return array if array.type == kind else array.cast(kind)


def _is_in(column: pa.Array, values: tuple[str, ...]) -> np.ndarray:
    found: np.ndarray = pc.is_in(column, value_set=pa.array(values)).to_numpy(zero_copy_only=False)
    return found
