"""What index.json says of a set of shards."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmlake import checked_json
from mmlake.errors import ShardCorrupt

_SCHEMAS = ("mmlake.shards/2", "mmlake.shards/3")
_FORMATS = ("tar", "parquet")
_TEXTS = ("name", "modality", "sha256", "idx_sha256")
_NUMBERS = ("size_bytes", "num_samples", "num_members", "idx_bytes")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """The facts of one shard in index.json that the loader relies on."""

    name: str
    modality: str
    size_bytes: int
    sha256: str
    num_samples: int
    num_members: int
    idx_bytes: int
    idx_sha256: str
    format: str = "tar"  # or parquet, which has no .idx


def entries(index: str | Path) -> tuple[Path, str, list[Entry]]:
    """(folder, manifest id, shards) of a folder of shards or of its index.json. Raises ShardCorrupt where there is
    no finished index, or it is not what was written."""
    path = Path(index)
    path = path if path.name == "index.json" else path / "index.json"
    try:
        body = checked_json.loads(path.read_bytes())
        shards = [_entry(shard) for shard in body["shards"]]
        sound = body["schema"] in _SCHEMAS and all(Path(shard.name).name == shard.name for shard in shards)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ShardCorrupt(
            f"there is no {path}: the shards were never finished; materialize `training_shards` of the version, "
            "or run `mmlake run`"
        ) from error
    except (ValueError, TypeError, KeyError):
        sound = False
    if not sound:
        raise ShardCorrupt(f"{path} is not an index of shards ({_SCHEMAS[-1]}); write the shards again")
    return path.parent, str(body["manifest"]), shards


def file_state(directory: Path, entry: Entry) -> tuple[int, int] | None:
    """What differs once somebody has written to the shard's file, or put another in its place; None where there is
    none."""
    try:
        found = os.stat(directory / f"{entry.name}.{entry.format}")
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns


def _entry(shard: dict[str, Any]) -> Entry:
    fields: dict[str, Any] = {name: str(shard[name]) for name in _TEXTS} | {name: int(shard[name]) for name in _NUMBERS}
    form = shard.get("format", "tar")
    if form not in _FORMATS:
        raise ValueError(form)
    return Entry(format=form, **fields)
