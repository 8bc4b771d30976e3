"""From what a person writes to a store: nothing for the lake's own directory, or an address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mmlake.errors import SettingsError
from mmlake.remote.connections import RemoteConnections
from mmlake.remote.settings import RemoteSettings
from mmlake.store.blobs import Blobs
from mmlake.store.local import BlobStore
from mmlake.store.s3 import S3Store


def open_store(
    location: str,
    directory: Path,
    *,
    remote: RemoteSettings | None = None,
    s3_client: Any = None,
    connections: RemoteConnections | None = None,
) -> Blobs:
    """The store at the location; "" is the directory. s3_client: a boto3 client for an address of S3; None makes one
    from the environment. connections: shared with whoever else reads remote storage. Raises SettingsError for anything
    else."""
    if not location:
        return BlobStore(directory)
    if location.partition("://")[0].lower() == "s3":
        return S3Store(location, remote=remote, client=s3_client, connections=connections)
    raise SettingsError(
        "store.location is no address of S3, expected s3://bucket/prefix, or nothing for the lake's own "
        "directory; correct the settings"
    )
