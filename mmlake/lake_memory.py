"""What a lake remembers between commands: `lake.json`, and a copy of it, since nothing else says where the landing zone
and the blobs are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mmlake import checked_json
from mmlake.errors import SettingsError
from mmlake.store import write_atomically

NAME, COPY = "lake.json", ".lake.json"


def read_memory(root: Path) -> dict[str, object]:
    """What lake.json says, or its copy where it is damaged; nothing where it is missing. Raises SettingsError where
    both are damaged."""
    path = root / NAME
    for one in (path, root / COPY):
        try:
            return checked_json.loads(one.read_bytes())
        except FileNotFoundError:
            if one == path:
                return {}
        except ValueError:
            continue
    raise SettingsError(
        f"{path} does not say where the landing zone is: the file is damaged, and so is its copy; delete both and "
        "name it with --landing DIR (and give store.location, where the blobs are not in the lake)"
    )


def write_memory(root: Path, memory: Mapping[str, object]) -> None:
    """Write both files, where they are not the same already."""
    data = checked_json.dumps(dict(memory))
    for name in (NAME, COPY):
        path = root / name
        if not path.exists() or path.read_bytes() != data:
            write_atomically(path, data)
