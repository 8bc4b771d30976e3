"""Trees and versions: what a version is, in two canonical JSON texts, each named by its SHA-256.

A tree is content alone: the same samples with the same parts and weights have the same tree id, in whatever order and
number of runs they came. A version says where a tree comes from: parents, recipe, settings, run, time and message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from mmlake.errors import SettingsError
from mmlake.recipes import Recipe
from mmlake.records import canonical_json, digest_of
from mmlake.versions.segments import Segment

SCHEMA, TREE_SCHEMA = "mmlake.version/3", "mmlake.tree/1"


@dataclass(frozen=True, kw_only=True, slots=True)
class PinnedRecipe:
    """The recipe of a version, as it was then."""

    name: str
    digest: str  # SHA-256 of the text without name and description: equal digests admit alike
    text: str  # canonical JSON

    @classmethod
    def of(cls, recipe: Recipe) -> PinnedRecipe:
        """The recipe, in words that stay."""
        return cls.of_body(recipe.to_dict())

    @classmethod
    def of_body(cls, body: Mapping[str, Any]) -> PinnedRecipe:
        """The recipe of these fields, which may be of an older release."""
        rules = {name: value for name, value in body.items() if name not in ("name", "description")}
        digest = digest_of(canonical_json(rules).encode())
        return cls(name=str(body["name"]), digest=digest, text=canonical_json(dict(body)))

    @property
    def body(self) -> dict[str, Any]:
        """What the text says."""
        return dict(json.loads(self.text))

    @property
    def description(self) -> str:
        """One sentence for the dataset card."""
        return str(self.body.get("description", ""))


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """The samples of a version, by segments."""

    segments: tuple[Segment, ...]

    def to_json(self) -> str:
        """The canonical text."""
        return canonical_json({"schema": TREE_SCHEMA, "segments": [asdict(one) for one in self.segments]})

    @property
    def id(self) -> str:
        """SHA-256 of the canonical text."""
        return digest_of(self.to_json().encode())

    @classmethod
    def from_json(cls, text: str) -> Tree:
        """The tree that `to_json` wrote. Raises SettingsError for another schema."""
        body: dict[str, Any] = json.loads(text)
        if body.get("schema") != TREE_SCHEMA:
            raise SettingsError(f"the tree is not of schema {TREE_SCHEMA}; read it with the release that wrote it")
        return cls(segments=tuple(Segment(**segment) for segment in body["segments"]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """One immutable version. Items are the distinct digests of kept parts, bytes those of their blobs."""

    tree: str  # id
    recipe: PinnedRecipe
    settings_digest: str
    encoders: Mapping[str, Any]  # encoder name -> revision, or a block of facts
    made_with: Mapping[str, Any]  # what judged and chose: settings, rules, scorers, code; a diff finds causes by it
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
    excluded_segments: tuple[Segment, ...]
    run: str  # id of the run that made it, empty without one
    created_at: str | None  # ISO 8601, UTC; null where a version of an older release did not say
    message: str

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
    def content(self) -> tuple[str, str, tuple[Segment, ...]]:
        """What makes a version another one: its tree, its recipe and what it leaves out."""
        return self.tree, self.recipe.digest, self.excluded_segments

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
    def schema_of(data: bytes) -> str:
        """The schema that the text of a version names; that of this release where it is damaged, which reading it
        says."""
        try:
            return str(json.loads(data).get("schema", SCHEMA))
        except (ValueError, AttributeError):
            return SCHEMA

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """The version that `to_json` wrote. Raises SettingsError for another schema."""
        body: dict[str, Any] = json.loads(text)
        if (found := body.pop("schema", None)) != SCHEMA:
            raise SettingsError(
                f"the version is of schema {str(found)[:40]}, expected {SCHEMA}; run `mmlake migrate` once, or take "
                "the release that wrote it"
            )
        body["recipe"] = PinnedRecipe(**body["recipe"])
        body["parents"] = tuple(body["parents"])
        body["excluded_segments"] = tuple(Segment(**segment) for segment in body["excluded_segments"])
        return cls(**body)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return asdict(value) if isinstance(value, (Segment, PinnedRecipe)) else value
