"""Samples of items to samples of units: a film or a recording that was cut to spans leads one sample for each of them.

Enters: SAMPLES, and the spans among UNITS. Leaves: samples whose parts say which unit they are and where it lies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.records import LEADING_ROLES, canonical_json, digest_of
from mmlake.schemas.samples import PART, SAMPLES

SPANNED_ROLES = ("transcript",)  # what is said in time: of a span, only what is said there
_SPAN = [
    pa.field("parent_digest", pa.string()),  # the blob that holds the part; null only where no bytes could be had
    pa.field("start_us", pa.int64()),  # in the item, or in the recording that a transcript is of; null where whole
    pa.field("end_us", pa.int64()),
]
BOUND_PART = pa.struct([*PART, *_SPAN])
BOUND_SAMPLES = pa.schema(
    [pa.field("parts", pa.list_(BOUND_PART)) if field.name == "parts" else field for field in SAMPLES.arrow]
)


def bind_units(samples: pa.Table, spans: pa.Table) -> pa.Table:
    """BOUND_SAMPLES, sorted by name. A sample that a cut item leads is one sample per span, each with all other parts,
    of a transcript what is said there; a cut part among several that lead gives its place to its spans, in order.

    spans: of UNITS, those that are neither whole nor gaps; digest, parent_digest, position, start and end.
    """
    of_items: dict[str, list[dict[str, Any]]] = {}
    names = ["digest", "parent_digest", "position", "start", "end"]
    for span in spans.select(names).sort_by([("parent_digest", "ascending"), ("position", "ascending")]).to_pylist():
        known = of_items.setdefault(span["parent_digest"], [])
        if not known or known[-1]["digest"] != span["digest"]:  # the item may lie in several shards
            known.append(span)
    cut = _has_cut_part(samples, pa.array(sorted(of_items), pa.string()))
    whole = _with_parents(samples.filter(pa.array(~cut)))
    bound = [row for sample in samples.filter(pa.array(cut)).to_pylist() for row in _of_units(sample, of_items)]
    return pa.concat_tables([whole, pa.Table.from_pylist(bound, BOUND_SAMPLES)]).sort_by("sample")


def _has_cut_part(samples: pa.Table, parents: pa.Array) -> np.ndarray:
    lists = samples["parts"].combine_chunks()
    found = pc.is_in(pc.struct_field(pc.list_flatten(lists), "digest"), value_set=parents)
    owners = pc.list_parent_indices(lists).filter(found)
    cut = np.zeros(samples.num_rows, dtype=bool)
    cut[owners.to_numpy(zero_copy_only=False)] = True
    return cut


def _with_parents(samples: pa.Table) -> pa.Table:
    """The samples with whole parts."""
    lists = samples["parts"].combine_chunks()
    flat = pc.list_flatten(lists)
    columns = [pc.struct_field(flat, field.name) for field in PART]
    columns += [pc.struct_field(flat, "digest"), pa.nulls(len(flat), pa.int64()), pa.nulls(len(flat), pa.int64())]
    parts = pa.StructArray.from_arrays(columns, fields=list(BOUND_PART))
    lengths = np.concatenate([[0], np.cumsum(pc.list_value_length(lists).to_numpy(zero_copy_only=False))])
    bound = pa.ListArray.from_arrays(pa.array(lengths, pa.int32()), parts)
    return samples.set_column(samples.column_names.index("parts"), "parts", bound).cast(BOUND_SAMPLES)


def _of_units(sample: Mapping[str, Any], of_items: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The samples of the spans of its only leading part; else one sample with spans in the place of each cut part."""
    parts = [part | {"parent_digest": part["digest"], "start_us": None, "end_us": None} for part in sample["parts"]]
    leads = [part for part in parts if part["role"] in LEADING_ROLES]
    if len(leads) == 1 and leads[0]["digest"] in of_items:
        return [
            _renamed(sample, [cut if part is leads[0] else _other_part(part, cut) for part in parts])
            for cut in _spans_of(leads[0], of_items[leads[0]["digest"]])
        ]
    placed: list[dict[str, Any]] = []
    for part in parts:
        spans = of_items.get(part["digest"], ()) if part["role"] in LEADING_ROLES else ()
        placed += _spans_of(part, spans) if spans else [part]
    return [_renamed(sample, placed)]


def _spans_of(part: Mapping[str, Any], spans: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The part as those spans, which share its size by their lengths, to the byte."""
    ends_us = np.cumsum([span["end"] - span["start"] for span in spans]).tolist()
    ends = [part["size_bytes"] * end_us // ends_us[-1] for end_us in ends_us]
    return [
        {**part, "digest": span["digest"], "start_us": span["start"], "end_us": span["end"], "size_bytes": end - start}
        for span, start, end in zip(spans, [0, *ends], ends, strict=False)
    ]


def _other_part(part: Mapping[str, Any], span: Mapping[str, Any]) -> dict[str, Any]:
    """The part in the sample that the span leads."""
    times = {name: span[name] for name in ("start_us", "end_us")}
    return {**part, **times} if part["role"] in SPANNED_ROLES else dict(part)


def _renamed(sample: Mapping[str, Any], parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The sample with these parts, named as every sample is: by them and by its fields, which are canonical JSON."""
    text = f'{{"fields":{sample["fields_json"] or "{}"},"parts":[{",".join(map(_named, parts))}]}}'
    return {**sample, "sample": digest_of(text.encode()), "parts": parts}


def _named(part: Mapping[str, Any]) -> str:
    own = f",{part['fields_json']}" if part["fields_json"] else ""
    return f"[{canonical_json(part['role'])},{canonical_json(part['digest'])}{own}]"
