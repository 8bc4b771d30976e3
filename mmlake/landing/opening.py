"""From what a person writes to a landing zone: a directory, or an address with a scheme."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from mmlake.errors import SettingsError
from mmlake.landing.local import LocalLanding
from mmlake.landing.zone import Landing

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)


_OPENERS: dict[str, Callable[[str], Landing]] = {}  # scheme -> what opens an address of it


def is_address(text: str) -> bool:
    """Whether the text is an address with a scheme and not a directory."""
    return _SCHEME.match(text) is not None


def as_landing(landing: Landing | str | os.PathLike[str]) -> Landing:
    """The landing zone itself, or the one in that directory or at that address. Raises SettingsError for an unknown scheme."""
    if isinstance(landing, Landing):
        return landing
    scheme = _SCHEME.match(landing) if isinstance(landing, str) else None
    if scheme is None or not isinstance(landing, str):
        return LocalLanding(landing)
    opener = _OPENERS.get(scheme[1].lower())
    if opener is None:
        raise SettingsError(f"landing zone with the scheme {scheme[1]!r}: expected a directory or one of {sorted(_OPENERS)}")
    return opener(landing)
