"""The current files of an Iceberg table.

Source: the Iceberg table specification, format versions 1 to 3: `metadata/<number>-<uuid>.metadata.json`, or
`v<number>` with `version-hint.text`, the highest number being the latest, names snapshots; a snapshot its manifest
list, and that its manifests, both Avro; a manifest the data files, or those that delete single rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any

from mmlake.errors import UnreadableItem
from mmlake.formats.avro import avro_records
from mmlake.formats.compression import compression_of, expanded
from mmlake.landing import Entry, Landing, native, portable
from mmlake.sources.companions import places
from mmlake.sources.companions.delta_log import ADVICE, Table
from mmlake.sources.settings import SourceSettings

LOG = "metadata"
_METADATA = re.compile(r"(v)?(\d+)(?(1)|-[0-9a-f-]{36})(?:\.gz)?\.metadata\.json(?:\.gz)?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/*|/+")
_MAX_BYTES = 64 << 20  # of one file of metadata; writers begin a new manifest at 8 MiB
_DELETED = 2  # the status of an entry that the commit takes out


def log_of(root: str, landing: Landing) -> list[Entry]:
    """The metadata files of the table there; none where it is no table."""
    files = landing.files(places.join(root, LOG))
    has_hint = any(entry.name == "version-hint.text" for entry in files)
    found = ((entry, _METADATA.fullmatch(entry.name)) for entry in files)
    return [entry for entry, named in found if named and (has_hint or not named[1])]


def replayed(root: str, log: list[Entry], landing: Landing, settings: SourceSettings) -> Table:
    """The table as its latest metadata file has it. No catalog is asked which that is."""
    last, latest = -1, list[Entry]()
    for entry in log:
        number = int(_METADATA.sub(r"\2", entry.name))
        latest = [entry, *latest] if number == last else [entry] if number > last else latest
        last = max(last, number)
    if len(latest) > 1:
        return Table({}, f"of an Iceberg table with {len(latest)} metadata files of version {last}; {ADVICE}")
    try:
        return Table(_current(_whole(landing, latest[0].path), native(root), landing))
    except (UnreadableItem, ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return Table({}, f"of an Iceberg table whose version {last} cannot be read whole; {ADVICE}")


def _current(data: bytes, root: str, landing: Landing) -> dict[str, str | None]:
    """What `Table.added` is. Single rows may be deleted of all files that are no younger than the youngest delete file:
    which of them, only the delete files say."""
    table = json.loads(data)
    if (current := table.get("current-snapshot-id")) in (None, -1):
        return {}

    def inside(address: str) -> str | None:
        """Where a file of the table lies now, wherever the table was when it was written; None of others."""
        path, base = (_SCHEME.sub("", one, count=1).rstrip("/") for one in (address, table["location"]))
        return portable(places.join(root, path[len(base) + 1 :])) if path.startswith(f"{base}/") else None

    def records(address: str) -> Iterator[dict[str, Any]]:
        return avro_records(_whole(landing, inside(address) or ""), limit_bytes=_MAX_BYTES)

    (snapshot,) = (one for one in table["snapshots"] if one["snapshot-id"] == current)
    sequence_of, deleted = dict[str, int](), -1  # path -> sequence number of its data
    for manifest in records(snapshot["manifest-list"]):
        for entry in records(manifest["manifest_path"]):
            file, sequence = entry["data_file"], entry.get("sequence_number")
            if sequence is None:
                sequence = manifest.get("sequence_number") or 0
            if entry["status"] == _DELETED:
                continue
            if file.get("content"):
                deleted = max(deleted, sequence)
            elif path := inside(file["file_path"]):
                sequence_of[path] = sequence
    reason = f"of an Iceberg table that deletes single rows of it (delete files); {ADVICE}"
    return {path: reason if sequence <= deleted else None for path, sequence in sequence_of.items()}


def _whole(landing: Landing, path: str) -> bytes:
    data = landing.head(path, _MAX_BYTES + 1)
    if compression := compression_of(data):
        data = expanded(BytesIO(data), compression, limit_bytes=_MAX_BYTES).read()
    if len(data) > _MAX_BYTES:
        raise UnreadableItem(1008, f"{path} has more than {_MAX_BYTES} bytes")
    return data
