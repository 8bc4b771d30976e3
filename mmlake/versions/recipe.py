"""Recipes: which samples and which of their parts a version admits. A recipe is part of the manifest, so equal ids mean
equal rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmlake.errors import SettingsError
from mmlake.records import ADMITTED, ROLES, STATUSES

_TIERS = ("exact", "near", "semantic")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a version admits. Licences are compared per occurrence: an item needs every licence that any of its
    sources states to be admitted."""

    name: str
    # short and stable; it is what `mmlake versions` lists
    description: str
    # one sentence for the dataset card
    statuses: tuple[str, ...] = ADMITTED
    # item statuses that enter; unreadable may never be among them
    drop_tiers: tuple[str, ...] = _TIERS
    # duplicates tied to their survivor by these tiers stay out. exact: of samples with the same leading parts one stays
    allow_licences: tuple[str, ...] = ()
    # SPDX ids; empty admits every licence that is not denied
    deny_licences: tuple[str, ...] = ()
    # SPDX ids; wins over allow_licences
    roles: tuple[str, ...] = ROLES
    # roles whose parts enter
    required_roles: tuple[str, ...] = ()
    # a sample without a part of each of these roles stays out: ("caption",) for pictures with words alone
    weighted: bool = True
    # samples have the weight that their verdict gives; else 1, and no verdict changes the version
    needs_decision: bool = False
    # a version that answers the probes worse than the one before it stays a draft

    def __post_init__(self) -> None:
        for field, known in (
            ("statuses", STATUSES[:-1]),
            ("drop_tiers", _TIERS),
            ("roles", ROLES),
            ("required_roles", ROLES),
        ):
            if strangers := [value for value in getattr(self, field) if value not in known]:
                raise SettingsError(f"recipe '{self.name}': {field} holds {strangers}, expected some of {list(known)}")

    @property
    def judges(self) -> bool:
        """Whether verdicts change what the version holds."""
        return self.weighted or set(self.statuses) != set(STATUSES[:-1])

    @property
    def sections(self) -> tuple[str, ...]:
        """Sections of the settings that verdicts and duplicates depend on, where the recipe reads them."""
        # what aligning finds of a transcript is judged as well
        judged = ("align", "quality") if self.judges else ()
        return judged + (("dedup",) if {"near", "semantic"} & set(self.drop_tiers) else ())

    def denied_licence(self, licences: Sequence[str]) -> str | None:
        """The first licence, by name, that keeps an item out; None where all are admitted. An item without any
        licence is denied by an allow list."""
        for licence in sorted(licences):
            if licence in self.deny_licences or (self.allow_licences and licence not in self.allow_licences):
                return licence
        return "none stated" if self.allow_licences and not licences else None


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="everything",
            description="Every distinct sample that can be read, quarantined ones included: the baseline that curation "
            "is measured against.",
            statuses=STATUSES[:-1],
            drop_tiers=("exact",),
            weighted=False,
        ),
        Recipe(
            name="curated",
            description="Samples without grave findings, one per cluster of near or semantic duplicates.",
        ),
    )
}
