"""The manifest: everything that a version is, in one canonical JSON text whose SHA-256 is its id. No times, run ids
or machine facts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import pyarrow as pa

from mmlake.errors import SettingsError
from mmlake.records import canonical_json, digest_of
from mmlake.versions.recipe import Recipe
from mmlake.versions.segments import Segment

SCHEMA = "mmlake.manifest/1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """One immutable version. Counts are of distinct digests, bytes of their blobs."""

    recipe: Recipe
    settings_digest: str
    encoders: Mapping[str, Any]  # encoder name -> revision, or a block of facts
    diversity: Mapping[str, Any] | None
    parents: tuple[str, ...]
    totals: Mapping[str, Mapping[str, int]]  # modality -> num_items, size_bytes
    # SPDX id -> num_items, size_bytes; an item with two licences counts under both
    licences: Mapping[str, Mapping[str, int]]
    sources: Mapping[str, Mapping[str, int]]  # source -> num_items, size_bytes; likewise
    excluded: Mapping[str, Mapping[str, int]]  # modality -> cause -> num_items
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
    def num_items(self) -> int:
        """Distinct digests in the version."""
        return sum(total["num_items"] for total in self.totals.values())

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """The manifest that `to_json` wrote. Raises SettingsError for another schema."""
        body: dict[str, Any] = json.loads(text)
        if body.pop("schema", None) != SCHEMA:
            raise SettingsError(f"the manifest is not of schema {SCHEMA}; read it with the release that wrote it")
        recipe: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in body["recipe"].items()
        }
        body["recipe"] = Recipe(**recipe)
        body["parents"] = tuple(body["parents"])
        for name in ("segments", "excluded_segments"):
            body[name] = tuple(Segment(**segment) for segment in body[name])
        return cls(**body)


def totals_by(items: pa.Table, column: str) -> dict[str, dict[str, int]]:
    """Per value of the column: num_items and size_bytes. A list column counts its row under each of its values."""
    sums: dict[str, dict[str, int]] = {}
    for value, size in zip(items[column].to_pylist(), items["size_bytes"].to_pylist(), strict=True):
        for name in value if isinstance(value, list) else [value]:
            total = sums.setdefault(name, {"num_items": 0, "size_bytes": 0})
            total["num_items"] += 1
            total["size_bytes"] += size
    return dict(sorted(sums.items()))


def causes(excluded: pa.Table) -> dict[str, dict[str, int]]:
    """Per modality and cause: the number of rows."""
    counts: dict[str, dict[str, int]] = {}
    pairs: Iterable[tuple[str, str]] = zip(excluded["modality"].to_pylist(), excluded["cause"].to_pylist(), strict=True)
    for modality, cause in sorted(pairs):
        by_cause = counts.setdefault(modality, {})
        by_cause[cause] = by_cause.get(cause, 0) + 1
    return counts


def _plain(value: Any) -> Any:
    if isinstance(value, Recipe):
        return asdict(value)
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return asdict(value) if isinstance(value, Segment) else value
