"""What a lake remembers between commands: `lake.json`, and a copy of it, since nothing else says where the landing zone
and the blobs are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mmlake import __version__, checked_json
from mmlake.errors import SettingsError
from mmlake.store import write_atomically

NAME, COPY = "lake.json", ".lake.json"
# of the directory: counted up when an earlier release would misread it. 2: stamps, refs, logs, results and registries
# carry checksums, and the catalog a list of its files
FORMAT = 2


def read_memory(root: Path) -> dict[str, object]:
    """What lake.json says, or its copy where it is damaged; nothing where it is missing. Raises SettingsError where
    both are damaged."""
    path = root / NAME
    for one in (path, root / COPY):
        try:
            return checked_json.loads(one.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
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


def refuse_newer(root: Path) -> None:
    """Raises SettingsError where a later release made the lake, and this one would misread it. What lake.json says of
    its release is written from format 2 on."""
    memory = read_memory(root)
    if isinstance(found := memory.get("format"), int) and found > FORMAT:
        raise SettingsError(
            f"lake {root} has format {found}, and mmlake {__version__} reads formats up to {FORMAT}; install "
            f"mmlake {memory.get('release', 'of the release that made it')} or newer"
        )


def raise_format(root: Path) -> None:
    """Let earlier releases refuse a lake of theirs, before this one writes to it what they would misread."""
    memory = read_memory(root)
    if isinstance(found := memory.get("format"), int) and found < FORMAT:
        write_memory(root, memory | {"format": FORMAT, "release": __version__})
