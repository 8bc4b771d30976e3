"""Drafts: versions that are written, but whose checks have not passed yet. A small file marks each; it is made durable
before the version is, and goes before a branch moves."""

from __future__ import annotations

from pathlib import Path

from mmlake import checked_json
from mmlake.errors import ContractBroken
from mmlake.store import sync_directory, write_atomically


class Drafts:
    """The marks under one directory. Callers hold the writer's lock for every method that changes something."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def mark(self, id_: str) -> None:
        """Make the version a draft."""
        write_atomically(self._path(id_), checked_json.dumps({"version": id_}))

    def has(self, id_: str) -> bool:
        """Whether the version is a draft."""
        return self._path(id_).exists()

    def clear(self, id_: str) -> None:
        """The version is none any more, durable on return."""
        if self.has(id_):
            self._path(id_).unlink()
            sync_directory(self.root)

    def refuse(self, id_: str) -> None:
        """Raises ContractBroken where the version is a draft."""
        if self.has(id_):
            raise ContractBroken(
                f"version {id_[:12]} is a draft: its checks have not passed, and a branch never points at a draft; "
                "finish it with `mmlake run`"
            )

    def _path(self, id_: str) -> Path:
        return self.root / id_
