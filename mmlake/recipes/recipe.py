"""Recipes: which samples and which of their parts a version admits, how many of each group, and how often each is
trained on.

A recipe is frozen and has one canonical form, whose SHA-256 is its digest: comments, the order of keys and its name
change nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from mmlake.errors import SettingsError
from mmlake.recipes.clauses import CONTAMINATED, EVAL_SETS, LeadClauses, causes
from mmlake.recipes.licences import Policy
from mmlake.recipes.mixture import Mixture
from mmlake.recipes.quotas import Quota, cut
from mmlake.recipes.sql import Condition, canonical
from mmlake.records import ADMITTED, ROLES, STATUSES, canonical_json, digest_of
from mmlake.schemas.cross import COMPONENTS

TIERS = ("exact", "near", "semantic")
CARRIED_BY = "carried_by"  # column: the films and recordings that carry the unit, and as what
# what recipes have had from the beginning: these always stand in the canonical form, the others where they are set
_ALWAYS = frozenset(
    ("name", "description", "statuses", "drop_tiers", "allow_licences", "deny_licences", "roles", "required_roles")
) | {"weighted"}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a version admits. A clause on statuses, licences and roles is asked of every part; sources, size, languages
    and the condition are asked of leading parts, and a sample stays while one of these does."""

    name: str
    # short and stable; it is what `mmlake versions` lists
    description: str
    # one sentence for the dataset card
    where: str = ""
    # SQL over columns of the catalog, measures and `metadata.FIELD`; empty takes everything
    sources: tuple[str, ...] = ()
    # items of one of these; empty takes all
    size: tuple[tuple[str, float | None, float | None], ...] = ()
    # (column, smallest, largest), None where open; a part without that measure is not asked
    min_caption_score: float | None = None
    # captions whose cosine with what they stand next to is smaller are masked; one without a cosine stays
    languages: tuple[str, ...] = ()
    # codes as the sources state them; a part of which nobody says the language stays
    statuses: tuple[str, ...] = ADMITTED
    # item statuses that enter; unreadable may never be among them, and of quarantined ones P0 never enters either, but
    # where no verdict is read at all
    drop_tiers: tuple[str, ...] = TIERS
    # duplicates tied to their survivor by these tiers stay out. exact: of samples with the same leading parts one stays
    drop_carried: tuple[str, ...] = ()
    # pictures, recordings and texts that are this component of a film or recording of the version stay out
    allow_licences: tuple[str, ...] = ()
    # SPDX ids and expressions; empty admits every licence that is not denied
    deny_licences: tuple[str, ...] = ()
    # likewise; wins over allow_licences
    roles: tuple[str, ...] = ROLES
    # roles whose parts enter
    required_roles: tuple[str, ...] = ()
    # a sample without a part of each of these roles stays out: ("caption",) for pictures with words alone
    weighted: bool = True
    # samples have the weight that their verdict gives; else 1, and no verdict changes the version
    needs_decision: bool = False
    # a version that answers the probes worse than the one before it stays a draft
    quotas: tuple[Quota, ...] = ()
    # how many samples of a group stay, one quota after the other
    mixture: Mixture | None = None
    # how often the loader gives the samples of a group out; None: each once per epoch
    seed: int = 0
    # which samples quotas take, and the order of the loader where it is given no other
    origin: str = field(default="", compare=False, repr=False)
    # what the recipe was read from, for messages
    text: str = field(default="", compare=False, repr=False)
    # the document that it was read from

    def __post_init__(self) -> None:
        for name, known in (
            ("statuses", STATUSES[:-1]),
            ("drop_tiers", TIERS),
            ("drop_carried", COMPONENTS),
            ("roles", ROLES),
            ("required_roles", ROLES),
        ):
            if strangers := [value for value in getattr(self, name) if value not in known]:
                raise SettingsError(f"recipe '{self.name}': {name} holds {strangers}, expected some of {list(known)}")
            # in one order: what is equal has one canonical form
            object.__setattr__(self, name, tuple(one for one in known if one in getattr(self, name)))
        for name in ("sources", "languages", "allow_licences", "deny_licences"):
            object.__setattr__(self, name, tuple(sorted(set(getattr(self, name)))))
        object.__setattr__(self, "size", tuple(sorted(self.size, key=lambda bound: bound[0])))
        if self.condition is not None:
            object.__setattr__(self, "where", canonical(self.where))

    @cached_property
    def condition(self) -> Condition | None:
        """The condition, parsed; None where there is none. Raises SettingsError."""
        return Condition(self.where, where=f"{self.place}: where") if self.where else None

    @property
    def place(self) -> str:
        """What messages call it."""
        return self.origin or f"recipe '{self.name}'"

    @property
    def judges(self) -> bool:
        """Whether verdicts change what the version holds."""
        return self.weighted or set(self.statuses) != set(STATUSES[:-1])

    @property
    def sections(self) -> tuple[str, ...]:
        """Sections of the settings that verdicts and duplicates depend on, where the recipe reads them."""
        # what aligning finds of a transcript is judged as well
        judged = ("align", "quality") if self.judges else ()
        scored = ("embed",) if self.min_caption_score is not None else ()
        compared = {"near", "semantic"} & set(self.drop_tiers) or self.drop_carried
        return judged + scored + (("dedup",) if compared else ())

    @property
    def columns(self) -> tuple[str, ...]:
        """The catalog's columns that the recipe reads beyond those of every recipe, in lower case, sorted."""
        found = set(self.condition.columns) if self.condition is not None else set()
        found |= {column for column, _, _ in self.size}
        found |= {EVAL_SETS} if CONTAMINATED in found else set()  # the cause names the set
        found |= {CARRIED_BY} if self.drop_carried else set()
        return tuple(sorted(found | ({"metadata"} if self.languages else set())))

    @cached_property
    def _lead_clauses(self) -> LeadClauses:
        return LeadClauses(
            place=self.place,
            sources=self.sources,
            size=self.size,
            languages=self.languages,
            condition=self.condition,
        )

    @cached_property
    def policy(self) -> Policy:
        """The licences that are admitted."""
        return Policy(self.allow_licences, self.deny_licences)

    def denied_licence(self, licences: Sequence[str]) -> str | None:
        """The first licence, by name, that keeps an item out; None where all are admitted."""
        return self.policy.denied(licences)

    def check(self, columns: Sequence[str], fields: Sequence[str] | None) -> None:
        """Raises SettingsError, with near names, where the recipe names a column or source field that there is not.
        columns: of the catalog. fields: of the sources; None where they are not known yet."""
        self._lead_clauses.check(columns, fields)

    def causes(self, rows: pa.Table) -> pa.Array:
        """What keeps each digest out wherever it stands: rule:<name>, status:<name> or licence:<id>; null where nothing
        does. rows: of the catalog."""
        return causes(rows, self.statuses, self.denied_licence, judges=self.judges)

    def lead_causes(self, rows: pa.Table) -> pa.Array:
        """What keeps each digest out where it leads a sample: source:<name>, size, language,
        contaminated:<eval set> or where; null where nothing does. Raises SettingsError."""
        return self._lead_clauses.causes(rows)

    def contaminated_causes(self, rows: pa.Table) -> pa.Array:
        """What keeps each digest out where it leads nothing, as the caption of a picture: contaminated:<eval set>, of
        what `where` asks of eval sets alone; null where nothing does. Raises SettingsError."""
        return self._lead_clauses.contaminated(rows)

    def cut(self, samples: pa.Table) -> np.ndarray:
        """quota:<group> for each of these samples of a version that a quota keeps out, else None; an array of objects.
        Raises SettingsError where a quota cannot be met."""
        return cut(samples, self.quotas, seed=self.seed, where=self.place)

    def to_dict(self) -> dict[str, Any]:
        """The canonical form as plain values: what is not set is not there, so that it is what earlier releases
        wrote of the same recipe."""
        found: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.compare and (one.name in _ALWAYS or value != one.default):
                found[one.name] = _plain(value)
        return found

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        """The recipe of a canonical form."""
        plain = {name: _tuples(value) for name, value in values.items()}
        if "quotas" in plain:
            plain["quotas"] = tuple(Quota.from_dict(one) for one in values["quotas"])
        if values.get("mixture") is not None:
            plain["mixture"] = Mixture.from_dict(values["mixture"])
        return cls(**plain)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical form without name and description: equal digests admit and mix alike."""
        rules = {name: value for name, value in self.to_dict().items() if name not in ("name", "description")}
        return digest_of(canonical_json(rules).encode())


def _plain(value: Any) -> Any:
    if isinstance(value, (Quota, Mixture)):
        return value.to_dict()
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _tuples(value: Any) -> Any:
    return tuple(_tuples(one) for one in value) if isinstance(value, (list, tuple)) else value
