"""From what a person writes to a landing zone: a directory, or an address with a scheme."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mmlake.errors import SettingsError
from mmlake.landing.hub import HubLanding
from mmlake.landing.local import LocalLanding
from mmlake.landing.s3 import S3Landing
from mmlake.landing.zone import Landing
from mmlake.remote.settings import RemoteSettings

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)


_OPENERS: dict[str, Callable[..., Landing]] = {"hf": HubLanding, "s3": S3Landing}  # scheme -> what opens an address of it: (address, remote=RemoteSettings | None)


def is_address(text: str) -> bool:
    """Whether the text is an address with a scheme and not a directory."""
    return _SCHEME.match(text) is not None


def absolute(landing: str) -> str:
    """The address as it is, or the absolute path of the directory: what means the same from every working directory."""
    return landing if is_address(landing) else str(Path(landing).absolute())


def as_landing(landing: Landing | str | os.PathLike[str], *, remote: RemoteSettings | None = None, s3_client: Any = None) -> Landing:
    """The landing zone itself, or the one in that directory or at that address. Raises SettingsError for an unknown scheme.

    s3_client: a boto3 client for an address of S3; None makes one from the environment.
    """
    if isinstance(landing, Landing):
        return landing
    scheme = _SCHEME.match(landing) if isinstance(landing, str) else None
    if scheme is None or not isinstance(landing, str):
        return LocalLanding(landing)
    opener = _OPENERS.get(scheme[1].lower())
    if opener is None:
        raise SettingsError(f"landing zone with the scheme {scheme[1]!r}: expected a directory or one of {sorted(_OPENERS)}")
    return S3Landing(landing, client=s3_client, remote=remote) if opener is S3Landing else opener(landing, remote=remote)
