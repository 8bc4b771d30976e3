"""Which eval sets the corpus is kept clean of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mmlake.errors import SettingsError
from mmlake.records import CAPTION, LEADING_ROLES, is_digest

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_KINDS: tuple[Literal["version", "probes"], ...] = ("version", "probes")
_FORM = "NAME=path/to/folder, NAME=version:ID, NAME=probes:pinned or NAME=probes:DIGEST"
PINNED = "pinned"


class EvalSet(NamedTuple):
    """One eval set: a folder of raw files, a version of the lake, or frozen probes of it."""

    name: str
    place: str  # path of the folder; name or id of the version; digest of the probe set, or PINNED
    kind: Literal["folder", "version", "probes"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DecontaminateSettings:
    """What no published version may hold."""

    sets: tuple[str, ...] = ()
    # "name=path/to/folder", read as a landing zone is, or "name=version:ID" of this lake, or the queries of its frozen
    # probes, "name=probes:pinned" and "name=probes:DIGEST". Empty: nothing is compared
    modalities: tuple[str, ...] = ()
    # those that are compared; empty takes all

    def __post_init__(self) -> None:
        """Refuse sets that cannot be understood. Modalities are checked where they are known."""
        names = [one.name for one in self.parsed]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise SettingsError(f"decontaminate.sets names {twice[0]!r} twice; give each set a name of its own")

    @property
    def parsed(self) -> tuple[EvalSet, ...]:
        """The sets, in the order given. Raises SettingsError for one that is not of the form."""
        return tuple(_parsed(text) for text in self.sets)

    def check_modalities(self, known: Iterable[str]) -> None:
        """Raises SettingsError for a modality that there is not."""
        if unknown := sorted(set(self.modalities) - set(known)):
            raise SettingsError(
                f"decontaminate.modalities names {unknown}, which are no modalities; expected some of {sorted(known)}"
            )

    def of(self, modality: str) -> tuple[EvalSet, ...]:
        """The sets that units of the modality are compared with."""
        return self.parsed if not self.modalities or modality in self.modalities else ()

    def roles(self, modality: str) -> tuple[str, ...]:
        """The roles of the units that have fingerprints: captions too, where an eval set may hold their words."""
        return (*LEADING_ROLES, CAPTION) if modality == "text" and self.of(modality) else LEADING_ROLES


def _parsed(text: object) -> EvalSet:
    name, equals, place = text.partition("=") if isinstance(text, str) else ("", "", "")
    place = place.strip()
    kind: Literal["folder", "version", "probes"] = "folder"
    for known in _KINDS:
        if place.startswith(f"{known}:"):
            kind, place = known, place.removeprefix(f"{known}:").strip()
            break
    if not equals or not place:
        raise SettingsError(f"decontaminate.sets holds {text!r}; expected {_FORM}")
    if _NAME.fullmatch(name) is None:
        raise SettingsError(
            f"decontaminate.sets: the name {name!r} is no folder name; expected 1 to 64 letters, digits, '-' and '_'"
        )
    if kind == "probes" and place != PINNED and not is_digest(place):
        raise SettingsError(
            f"decontaminate.sets: {name!r} is to be of the probes {place!r}; expected `pinned`, or the digest that "
            "`mmlake probes` prints"
        )
    return EvalSet(name, place, kind)
