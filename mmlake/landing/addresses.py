"""Opens a landing zone from what a person writes: a directory, an address with a scheme, or several of these by
name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mmlake.errors import SettingsError
from mmlake.landing.filesystem import FilesystemLanding
from mmlake.landing.hub import HubLanding
from mmlake.landing.local import LocalLanding
from mmlake.landing.mounts import Mounts
from mmlake.landing.s3 import S3Landing
from mmlake.landing.website import WebsiteLanding
from mmlake.landing.zone import Landing
from mmlake.remote.connections import RemoteConnections
from mmlake.remote.settings import RemoteSettings

Place = str | os.PathLike[str]  # a directory or an address

# fsspec's chains (simplecache::http://) are addresses too, and refused as such
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)(?:::.*)?://", re.IGNORECASE)

_MAYBE_LOGIN = re.compile(r":.*@", re.DOTALL)

# scheme -> the class for its addresses, called as (address, remote=, connections=); FilesystemLanding decides about all
# other schemes
_OPENERS: dict[str, Callable[..., Landing]] = {
    "hf": HubLanding,
    "s3": S3Landing,
    "http": WebsiteLanding,
    "https": WebsiteLanding,
}


def is_address(text: str) -> bool:
    """Whether the text is an address with a scheme and not a directory."""
    return _SCHEME.match(text) is not None


def absolute(landing: str) -> str:
    """What means the same from every working directory: the address, or the directory's absolute path."""
    return landing if is_address(landing) else str(Path(landing).absolute())


def as_landing(
    landing: Landing | Place | Mapping[str, Landing | Place],
    *,
    remote: RemoteSettings | None = None,
    s3_client: Any = None,
    connections: RemoteConnections | None = None,
) -> Landing:
    """The landing zone itself, the one in that directory or at that address, or one that has each of several below its
    name.

    s3_client: a boto3 client for an address of S3; None makes one from the environment. connections: shared with
    other readers of remote storage; None makes one for these landing zones. Raises SettingsError for an unknown
    scheme, and where there is no such directory.
    """
    if isinstance(landing, Landing):
        return landing
    if isinstance(landing, Mapping):
        connections = connections or RemoteConnections()
        return Mounts.of(
            landing, lambda one: as_landing(one, remote=remote, s3_client=s3_client, connections=connections)
        )
    scheme = _SCHEME.match(landing) if isinstance(landing, str) else None
    if scheme is None or not isinstance(landing, str):
        if not Path(landing).is_dir():
            raise _no_directory(landing)
        return LocalLanding(landing)
    opener = _OPENERS.get(scheme[1].lower(), FilesystemLanding)
    if opener is S3Landing:
        return S3Landing(landing, client=s3_client, remote=remote, connections=connections)
    return opener(landing, remote=remote, connections=connections)


def _no_directory(place: Place) -> SettingsError:
    """The error for a directory that is not there. The place may be a mistyped address with a password, so nothing
    between a colon and an @ is repeated."""
    shown = _MAYBE_LOGIN.sub(":...@", str(Path(place).absolute()))
    hint = (
        "; a name before '=' has letters, digits, '.', '_' and '-' alone, and begins with a letter or digit"
        if "=" in str(place)
        else ""
    )
    return SettingsError(
        f"landing zone {shown} is not a directory; name the directory that holds your shards with --landing "
        f"DIR, or an address such as https://host/directory/{hint}"
    )
