"""The manifest: everything that a version is, in one canonical JSON text whose SHA-256 is its id. No times, run ids
or machine facts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import SettingsError
from mmlake.recipes import Recipe
from mmlake.records import LEADING_ROLES, canonical_json, digest_of
from mmlake.versions.segments import Segment

SCHEMA = "mmlake.manifest/2"


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """One immutable version. Items are the distinct digests of kept parts, bytes those of their blobs."""

    recipe: Recipe
    settings_digest: str
    encoders: Mapping[str, Any]  # encoder name -> revision, or a block of facts
    diversity: Mapping[str, Any] | None
    parents: tuple[str, ...]
    totals: Mapping[str, Mapping[str, int]]  # modality of items -> num_items, size_bytes
    samples: Mapping[str, Mapping[str, int]]  # modality of samples -> num_samples, num_parts
    # SPDX id -> num_samples, size_bytes; a sample with two licences counts under both
    licences: Mapping[str, Mapping[str, int]]
    sources: Mapping[str, Mapping[str, int]]  # source -> num_samples, size_bytes; likewise
    excluded: Mapping[str, Mapping[str, int]]  # modality of the lead -> cause -> samples that are out
    masked: Mapping[str, Mapping[str, int]]  # modality -> cause -> parts left out of samples that stay
    # role of what is said of a lead -> num_pairs of such parts with a lead that stays, num_kept of these
    pairs: Mapping[str, Mapping[str, int]]
    segments: tuple[Segment, ...]
    excluded_segments: tuple[Segment, ...]

    def to_json(self) -> str:
        """The canonical text. Raises SettingsError where a block holds what JSON cannot."""
        try:
            return canonical_json(
                {"schema": SCHEMA} | {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
            )
        except (TypeError, ValueError) as error:
            raise SettingsError(
                "encoders or diversity hold a value that is no finite number, text, list or mapping; convert it "
                "before building"
            ) from error

    @property
    def id(self) -> str:
        """SHA-256 of the canonical text."""
        return digest_of(self.to_json().encode())

    @property
    def content_digest(self) -> str:
        """SHA-256 of the canonical text without the parents: what was made from it before does not change a version."""
        return digest_of(replace(self, parents=()).to_json().encode())

    @property
    def num_items(self) -> int:
        """Distinct digests in the version."""
        return sum(total["num_items"] for total in self.totals.values())

    @property
    def num_samples(self) -> int:
        """Samples in the version."""
        return sum(total["num_samples"] for total in self.samples.values())

    @property
    def num_excluded(self) -> int:
        """Samples that the version left out."""
        return sum(sum(causes.values()) for causes in self.excluded.values())

    @property
    def num_masked(self) -> int:
        """Parts that were left out of samples that stay."""
        return sum(sum(causes.values()) for causes in self.masked.values())

    @staticmethod
    def is_current(data: bytes) -> bool:
        """Whether the text of a manifest is of the schema that this release reads; also where it is damaged, which
        reading it says."""
        try:
            return bool(json.loads(data).get("schema", SCHEMA) == SCHEMA)
        except (ValueError, AttributeError):
            return True

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """The manifest that `to_json` wrote. Raises SettingsError for another schema."""
        body: dict[str, Any] = json.loads(text)
        if body.pop("schema", None) != SCHEMA:
            raise SettingsError(
                f"the manifest is not of schema {SCHEMA}: it lists items, not samples; run `mmlake migrate` once"
            )
        body["recipe"] = Recipe.from_dict(body["recipe"])
        body["parents"] = tuple(body["parents"])
        for name in ("segments", "excluded_segments"):
            body[name] = tuple(Segment(**segment) for segment in body[name])
        return cls(**body)


def counted(samples: pa.Table, excluded: pa.Table) -> dict[str, dict[str, dict[str, int]]]:
    """The counts of a manifest by their names, from VERSION_SAMPLES and EXCLUDED."""
    lists = samples["parts"].combine_chunks()
    flat = pc.list_flatten(lists)
    owner = pc.list_parent_indices(lists)
    parts = pa.table({name: pc.struct_field(flat, name) for name in ("digest", "modality", "size_bytes")})
    sizes = pa.table({"owner": owner, "size_bytes": parts["size_bytes"]}).group_by("owner").aggregate(
        [("size_bytes", "sum")]
    ).sort_by("owner")["size_bytes_sum"]  # fmt: skip
    items = parts.group_by(["modality", "digest"]).aggregate([("size_bytes", "min")])
    num_parts = pc.list_value_length(lists)
    whole = excluded.filter(excluded["is_whole"])
    whole = whole.append_column("rank", pc.index_in(whole["role"], value_set=pa.array(LEADING_ROLES)))
    whole = whole.sort_by([("sample", "ascending"), ("rank", "ascending")])  # what leads comes first, nulls last
    out = whole.group_by("sample", use_threads=False).aggregate([("cause", "first"), ("modality", "first")])
    masked = excluded.filter(pc.invert(excluded["is_whole"]))
    kept_roles, masked_roles = (_said(one) for one in (pc.struct_field(flat, "role"), masked["role"]))
    return {
        "totals": _sums(items["modality"], {"num_items": None, "size_bytes": items["size_bytes_min"]}),
        "samples": _sums(samples["modality"], {"num_samples": None, "num_parts": num_parts}),
        "licences": _sums(samples["licences"], {"num_samples": None, "size_bytes": sizes}),
        "sources": _sums(samples["sources"], {"num_samples": None, "size_bytes": sizes}),
        "excluded": _causes(out["modality_first"], out["cause_first"]),
        "masked": _causes(masked["modality"], masked["cause"]),
        "pairs": {
            role: {
                "num_pairs": kept_roles.get(role, 0) + masked_roles.get(role, 0),
                "num_kept": kept_roles.get(role, 0),
            }
            for role in sorted(kept_roles.keys() | masked_roles.keys())
        },
    }


def _said(roles: pa.Array | pa.ChunkedArray) -> dict[str, int]:
    """How many parts say something of a lead, per role."""
    counts = {count["values"]: count["counts"] for count in pc.value_counts(roles).to_pylist()}
    return {role: number for role, number in counts.items() if role not in LEADING_ROLES}


def _sums(names: pa.ChunkedArray, values: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Per name the sums of the values; None counts rows. A list of names counts its row under each of them."""
    names = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    columns = {key: pa.array(np.ones(len(names), np.int64)) if one is None else one for key, one in values.items()}
    if pa.types.is_list(names.type):
        rows = pc.list_parent_indices(names)
        columns, names = {key: one.take(rows) for key, one in columns.items()}, pc.list_flatten(names)
    grouped = pa.table({"name": names, **columns}).group_by("name").aggregate([(key, "sum") for key in columns])
    rows = sorted(grouped.to_pylist(), key=lambda row: row["name"])
    return {row["name"]: {key: int(row[f"{key}_sum"]) for key in columns} for row in rows}


def _causes(modalities: pa.ChunkedArray, causes: pa.ChunkedArray) -> dict[str, dict[str, int]]:
    table = (
        pa.table({"modality": modalities, "cause": causes})
        .group_by(["modality", "cause"])
        .aggregate([([], "count_all")])
    )
    counts: dict[str, dict[str, int]] = {}
    for row in sorted(table.to_pylist(), key=lambda row: (row["modality"], row["cause"])):
        counts.setdefault(row["modality"], {})[row["cause"]] = row["count_all"]
    return counts


def _plain(value: Any) -> Any:
    if isinstance(value, Recipe):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return asdict(value) if isinstance(value, Segment) else value
