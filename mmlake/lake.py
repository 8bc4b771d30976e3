"""One lake directory and what lies in it.

blobs/     the store                 tables/    stage tables          catalog/   the LanceDB table
versions/  manifests and refs        shards/    training shards       evals/     frozen probes
reports/   HTML                      dagster/   runs and events       landing.sqlite, lake.json
"""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path

from mmlake.catalog import Catalog
from mmlake.compute import Executor
from mmlake.errors import SettingsError
from mmlake.landing import Landing, as_landing, is_address
from mmlake.locks import holding
from mmlake.modalities import MODALITIES
from mmlake.registry import Registry
from mmlake.settings import Settings
from mmlake.store import BlobStore, write_atomically
from mmlake.tables import Tables
from mmlake.versions import VersionStore


class Lake:
    """The parts of a lake, opened when first used."""

    def __init__(
        self, root: str | os.PathLike[str], *, landing: Landing | str | os.PathLike[str] | None = None, settings: Settings | None = None, executor: Executor | None = None
    ) -> None:
        self.root = Path(root).absolute()
        self.settings = settings or Settings()
        self.store = BlobStore(self.root / "blobs")
        self.tables = Tables(self.root / "tables")
        self.registry = Registry(self.root / "landing.sqlite")
        self._executor = executor
        self._given = landing or None

    @cached_property
    def catalog(self) -> Catalog:
        """The one table over all modalities."""
        return Catalog(self.root / "catalog")

    @cached_property
    def versions(self) -> VersionStore:
        """Manifests, branches and tags."""
        return VersionStore(self.root / "versions")

    @property
    def executor(self) -> Executor:
        """Runs models: on the GPU where there is one, else on the CPU; one per process, so that models are loaded once."""
        return self._executor or Executor("auto")

    def encoder_of(self, modality: str) -> str:
        """The encoder whose vectors this lake keeps for the modality: the settings' choice, else the modality's default."""
        return self.settings.embed.encoders.get(modality, MODALITIES[modality].encoder)

    @property
    def shards_dir(self) -> Path:
        """Where training shards are written, a directory per manifest."""
        return self.root / "shards"

    @property
    def probes_dir(self) -> Path:
        """Where frozen probe sets lie."""
        return self.root / "evals"

    @cached_property
    def landing(self) -> Landing:
        """The landing zone: as given, or as the lake remembers it. Raises SettingsError where neither says."""
        return _opened(self._given if self._given is not None else self._remembered())

    def _remembered(self) -> str:
        try:
            location = json.loads((self.root / "lake.json").read_bytes())["landing"]
        except FileNotFoundError as error:
            raise SettingsError(f"lake {self.root} has no landing zone yet; name one with --landing DIR or MMLAKE_LANDING") from error
        except (ValueError, KeyError, TypeError):
            location = None
        if not isinstance(location, str):
            raise SettingsError(f"{self.root / 'lake.json'} does not say where the landing zone is; name it with --landing DIR, which writes the file anew")
        return location

    def remember_landing(self) -> None:
        """Write down where the landing zone is, so that later commands need not be told."""
        line = json.dumps({"format": 1, "landing": self.landing.location}, sort_keys=True).encode()
        path = self.root / "lake.json"
        if not path.exists() or path.read_bytes() != line:
            write_atomically(path, line)

    def locked(self, name: str) -> AbstractContextManager[None]:
        """Hold the lake's lock of that name. Raises LakeLocked at once where another process holds it."""
        return holding(self.root / f".{name}.lock", what=f"lake {self.root} (lock '{name}')")


def _opened(landing: Landing | str | os.PathLike[str]) -> Landing:
    if isinstance(landing, (str, os.PathLike)) and not is_address(str(landing)) and not Path(landing).is_dir():
        raise SettingsError(f"landing zone {Path(landing).absolute()} is not a directory; name the directory that holds your shards with --landing DIR")
    return as_landing(landing)
