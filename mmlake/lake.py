"""One lake directory and what lies in it.

blobs/     the store                 tables/    stage tables          catalog/   the LanceDB table
versions/  manifests and refs        shards/    training shards       evals/     frozen probes
cuts/      clips and segments        kept/      joins of near duplicates, versions of rows
reports/   HTML                      dagster/   runs and events       landing.sqlite, lake.json
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from mmlake import __version__
from mmlake.border import Runner
from mmlake.catalog import Catalog
from mmlake.compute import Executor
from mmlake.cuts import CutCache
from mmlake.engine.hashing import row_hashes
from mmlake.errors import RemoteUnavailable, SettingsError
from mmlake.lake_memory import FORMAT as FORMAT
from mmlake.lake_memory import raise_format, read_memory, refuse_newer, write_memory
from mmlake.landing import Landing, Mounts, Place, UnreachableLanding, as_landing, is_address, refuse_around
from mmlake.locks import exclusive_lock, shared_lock, waiting_lock
from mmlake.parts import BUILT_IN, Parts, parts_of
from mmlake.recent_files import RecentReads
from mmlake.registry import Registry
from mmlake.remote.connections import RemoteConnections
from mmlake.retries import Retries
from mmlake.settings import Settings
from mmlake.sound_cleaning import cleaner_of
from mmlake.sources import JournalledDownloads
from mmlake.sources.parsed_files import ParsedFiles
from mmlake.store import Blobs, S3Store, open_store
from mmlake.tables import Tables
from mmlake.versions import VersionStore
from mmlake.workers import WorkerPool


class Lake:
    """The parts of a lake, opened when first used."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        landing: Landing | Place | Mapping[str, Landing | Place] | None = None,
        settings: Settings | None = None,
        executor: Executor | None = None,
        runner: Runner | None = None,
        limit: int | None = None,
        parts: Parts = BUILT_IN,
        s3_client: Callable[[], Any] | None = None,
        connections: RemoteConnections | None = None,
        recent: RecentReads | None = None,
    ) -> None:
        """landing: one landing zone, or several by name, next to those that the lake remembers; an empty address takes
        the one of that name away.

        limit: samples taken from the landing zone, from each of several; 0 takes all, None as many as the lake
        remembers.
        parts: tables to which the rows of the settings' plugins are added. Raises SettingsError where one cannot be.
        runner: where items are decoded; worker processes of this lake's own, as its settings say, where none is given.
        s3_client: makes the client for addresses of S3, where the environment shall not. connections: logins, cached
        blocks and connections that outlive this object; None makes them for it alone. recent: so with small files."""
        if limit is not None and limit < 0:
            raise SettingsError(f"limit {limit} is no number of samples; give 1 or more, or 0 to take everything")
        self.root = Path(root).absolute()
        refuse_newer(self.root)
        self.settings = settings or Settings()
        self.parts = parts_of(self.settings, base=parts)
        self.recent = recent or RecentReads()
        self.tables = Tables(self.root / "tables", recent=self.recent)
        self.registry = Registry(self.root / "landing.sqlite", recent=self.recent)
        self.retries = Retries(self.root / "retries")
        self.row_hashes = row_hashes()  # by which rows are compared with what they were
        self._executor, self._runner = executor, runner
        self.connections = connections or RemoteConnections()
        self._given = landing.zones if isinstance(landing, Mounts) else self._without_logins(landing or None)
        self._given_limit = limit
        self._s3_client = s3_client
        self._seen: set[str] = set()  # names of landing zones that were listed
        # what was parsed of files that describe many shards, annotations of COCO above all: bounded, and gone with the
        # lake
        self.parsed_files = ParsedFiles()

    @cached_property
    def store(self) -> Blobs:
        """The blobs: in the lake's directory, or where the settings or the lake's memory say. Raises SettingsError
        where these two differ, since blobs would seem lost."""
        given, remembered = self.settings.store.location, self._memory().get("store")
        location = given or (remembered if isinstance(remembered, str) else "")
        store = open_store(
            location,
            self.root / "blobs",
            remote=self.settings.remote,
            s3_client=self._client_for(location),
            connections=self.connections,
        )
        if given and store.location != remembered and (isinstance(remembered, str) or (self.root / "blobs").exists()):
            raise SettingsError(
                f"store.location is {store.location}, but the blobs of lake {self.root} lie in "
                f"{remembered or self.root / 'blobs'}; copy them and correct lake.json"
            )
        return store

    def _client_for(self, location: object) -> Any:
        return (
            self._s3_client()
            if self._s3_client is not None and isinstance(location, str) and location.startswith("s3://")
            else None
        )

    @cached_property
    def downloads(self) -> JournalledDownloads:
        """Fetches what lists of URLs name, each address once."""
        return JournalledDownloads(self.root / "downloads.sqlite", store=self.store, settings=self.settings.web)

    @cached_property
    def catalog(self) -> Catalog:
        """The one table over all modalities."""
        return Catalog(self.root / "catalog", modalities=tuple(self.parts.modalities))

    @cached_property
    def cuts(self) -> CutCache:
        """Clips of films and segments of recordings, cut when they are needed."""
        said = self.settings.preprocess
        cleaner = cleaner_of(self.settings.cuts, voice_detector=said.voice_detector, environments=said.environments)
        return CutCache(self.root / "cuts", self.settings.cuts, cleaner)

    @cached_property
    def versions(self) -> VersionStore:
        """Manifests, branches and tags."""
        return VersionStore(self.root / "versions")

    @cached_property
    def executor(self) -> Executor:
        """Runs models: on the GPU where there is one, else on the CPU. Loaded models are shared by all of a process."""
        return self._executor or Executor(settings=self.settings.compute)

    @cached_property
    def runner(self) -> Runner:
        """Where items are decoded: processes that start when there is work, and end with the lake."""
        return self._runner or self.settings.compute.pool()

    def close(self) -> None:
        """End what this lake has started. A lake that nobody holds any more is closed by itself."""
        found = self.__dict__.pop("runner", None)
        if self._runner is None and isinstance(found, WorkerPool):
            found.close()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def encoder_of(self, modality: str) -> str:
        """The encoder whose vectors this lake keeps for the modality: the settings' choice, else the modality's
        default."""
        return self.settings.embed.encoders.get(modality, self.parts.modality(modality).encoder)

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
        """The landing zone: as given, or as the lake remembers it. Raises SettingsError where neither says.

        An address whose revision the lake has pinned before is opened at that revision, so that every process of a
        deployment reads the same bytes.
        Of several by name, one that does not open raises when it is used, so that the others can be read.
        """
        if (places := self._places()) is not None:
            return Mounts({name: self._zone(name, place) for name, place in places.items()})
        if self._given is None or isinstance(self._given, Mapping):
            return self._opened(self._remembered())
        pinned = self._memory().get("landing") if self._given == self._memory().get("asked") else None
        return self._opened(pinned if isinstance(pinned, str) else self._given)

    def _places(self) -> dict[str, Landing | Place] | None:
        """The landing zones by name, as given or else as the lake remembers them; None where it has one without a
        name. Raises SettingsError where the lake has the other kind."""
        remembered, given = self._memory().get("landing"), self._given
        before = (
            remembered
            if isinstance(remembered, dict) and all(isinstance(place, str) for place in remembered.values())
            else {}
        )
        if not isinstance(given, Mapping):
            if given is not None and before:
                raise SettingsError(
                    f"lake {self.root} has the landing zones {sorted(before)} by name; give this one a name too, "
                    "with --landing NAME=ADDRESS"
                )
            return dict(before) or None
        if isinstance(remembered, str):
            raise SettingsError(
                f"lake {self.root} has one landing zone without a name, {remembered}, and the keys of its "
                "shards begin without one; "
                f"make another lake with --lake, and give it --landing NAME={remembered} next to "
                f"{' and '.join(f'{name}=...' for name in given)}"
            )
        places = {name: place for name, place in {**before, **given}.items() if place}
        if not places:
            raise SettingsError(
                f"lake {self.root} would have no landing zone left; give one with --landing NAME=ADDRESS"
            )
        return places

    def _zone(self, name: str, place: Landing | Place) -> Landing:
        """The landing zone of that name, at the revision that is pinned for its address."""
        try:
            return self._opened(self._pinned(name, place) or place)
        except (SettingsError, RemoteUnavailable) as error:
            return UnreachableLanding(error)

    def _pinned(self, name: str, place: object) -> str | None:
        """Where the address of that name led when it was last looked up; None where another was asked for."""
        asked, landing = self._memory().get("asked"), self._memory().get("landing")
        is_asked = isinstance(asked, dict) and isinstance(place, str) and asked.get(name) == place
        return landing.get(name) if is_asked and isinstance(landing, dict) else None

    def origin(self) -> dict[str, object]:
        """Where the rows come from, for the record: location, pinned revision and limit as far as there are any;
        empty where the landing zone cannot state it."""
        try:
            found: dict[str, object] = dict(self.landing.provenance())
        except SettingsError:
            return {}
        return found if self.limit is None else found | {"limit": self.limit}

    def pin_landing(self) -> None:
        """Look up what the given address means now, whatever the lake has pinned before, and remember that: how a lake
        moves to a newer revision.

        Of several by name, those that are given are looked up. One that does not answer stays where it was pinned; one
        that cannot be right raises SettingsError.
        """
        if isinstance(self._given, Mapping):
            self._refuse_unknown(self._given)
            self.landing = Mounts.of(
                {name: (name, place) for name, place in (self._places() or {}).items()}, self._looked_up
            )
            if self.is_pinned:
                self.remember_landing()
        elif isinstance(self._given, str) and is_address(self._given):
            self.landing = self._opened(self._given)
            if self.is_pinned:
                self.remember_landing()

    def _refuse_unknown(self, given: Mapping[str, Landing | Place]) -> None:
        """Raises SettingsError where a landing zone is to be taken away that the lake does not have."""
        remembered = self._memory().get("landing")
        names = sorted(remembered) if isinstance(remembered, dict) else []
        if unknown := [name for name, place in given.items() if not place and name not in names]:
            has = f", but {names}; write --landing NAME= with one of these names" if names else ": none has a name"
            raise SettingsError(f"lake {self.root} has no landing zone {unknown[0]!r} to take away{has}")

    def saw(self, landing: Landing) -> None:
        """Take note that the landing zone, or each of several by name, was listed: from now on `remember_landing`
        writes down its address."""
        if isinstance(landing, Mounts):
            self._seen.update(landing.zones)

    def _looked_up(self, zone: tuple[str, Landing | Place]) -> Landing:
        name, place = zone
        if isinstance(self._given, Mapping) and name in self._given:
            with suppress(RemoteUnavailable):
                return self._opened(place)
        return self._zone(name, place)

    @property
    def is_pinned(self) -> bool:
        """Whether the landing zone, or one of several, is read at a revision that was looked up."""
        zone_facts = self.landing.provenance()
        zones = zone_facts.get("zones")
        return any("revision" in one for one in (zones.values() if isinstance(zones, Mapping) else [zone_facts]))

    @property
    def limit(self) -> int | None:
        """How many samples are taken from the landing zone: as given, or as the lake remembers; None takes all."""
        limit = self._memory().get("limit") if self._given_limit is None else self._given_limit
        return limit if isinstance(limit, int) and limit > 0 else None

    @property
    def is_limit_new(self) -> bool:
        """Whether a limit was given, or lifted, and the lake remembers another."""
        return self._given_limit is not None and self._memory().get("limit") != self.limit

    def _memory(self) -> dict[str, object]:
        """What lake.json says; nothing where it is missing."""
        return read_memory(self.root)

    def _remembered(self) -> str:
        if not (self.root / "lake.json").exists():
            raise SettingsError(
                f"lake {self.root} has no landing zone yet; name one with --landing DIR or MMLAKE_LANDING"
            )
        location = self._memory().get("landing")
        if not isinstance(location, str):
            raise SettingsError(
                f"{self.root / 'lake.json'} does not say where the landing zone is; name it with --landing DIR, "
                "which writes the file anew"
            )
        return location

    def remember_landing(self) -> None:
        """Write down where the landing zone is and how much of it is taken, so that later commands need no options for
        it."""
        landing, asked = self._addresses()
        memory: dict[str, object] = {"format": FORMAT, "release": __version__, "landing": landing}
        if self.limit is not None:
            memory["limit"] = self.limit
        if isinstance(self.store, S3Store):
            memory["store"] = self.store.location
        if asked:
            memory["asked"] = asked  # the address before its revision was pinned
        write_memory(self.root, memory)

    def _addresses(self) -> tuple[object, object]:
        """(where the landing zone is, what was asked for where that is another address), each by name where there are
        several.

        One that has not answered yet keeps its remembered address: an address that leads nowhere would fail
        every later run.
        """
        before, asked_before = self._memory().get("landing"), self._memory().get("asked")
        if not isinstance(self.landing, Mounts):
            return self.landing.location, _unpinned(
                self._given if self._given is not None else asked_before, self.landing
            )
        found, asked = dict[str, object](), dict[str, object]()
        given = self._given if isinstance(self._given, Mapping) else {}
        for name, zone in self.landing.zones.items():
            place = asked_before.get(name) if isinstance(asked_before, dict) else None
            if name in self._seen or "revision" in zone.provenance() or zone.local_path(".") is not None:
                found[name], asked[name] = zone.location, _unpinned(given.get(name, place), zone)
            elif isinstance(before, dict) and name in before:
                found[name], asked[name] = before[name], place
        return found, {name: place for name, place in asked.items() if place}

    def naming_blobs(self) -> AbstractContextManager[None]:
        """Held while blobs are put and until the table that names them is stamped: garbage is not collected
        meanwhile. Any number of steps hold it at once."""
        raise_format(self.root)
        return shared_lock(self.root / ".blobs.lock")

    def collecting_blobs(self) -> AbstractContextManager[None]:
        """Held while unnamed blobs are searched for. Raises LakeLocked at once while a step is running."""
        raise_format(self.root)
        return exclusive_lock(self.root / ".blobs.lock", what=f"lake {self.root} (a step that puts blobs)")

    def locked(self, name: str) -> AbstractContextManager[None]:
        """Hold the lake's lock of that name. Raises LakeLocked at once where another process holds it."""
        raise_format(self.root)
        return exclusive_lock(self.root / f".{name}.lock", what=f"lake {self.root} (lock '{name}')")

    def turn(self, name: str) -> AbstractContextManager[None]:
        """Held by who writes what is one for the whole lake; waits for who holds it. `mmlake run` and the runs of a UI
        come to the same step at any time, and the later one goes on from what the earlier one left.

        name: of the lock, as a path below the lake.
        """
        raise_format(self.root)
        return waiting_lock(self.root / f"{name}.lock")

    def _opened(self, landing: Landing | Place) -> Landing:
        client = self._client_for(landing)
        opened = as_landing(landing, remote=self.settings.remote, s3_client=client, connections=self.connections)
        return refuse_around(self.root, opened)

    def _without_logins(self, landing: Any) -> Any:
        """The landing zones as they were given, without the logins of addresses: what is remembered has none."""
        if isinstance(landing, Mapping):
            return {name: self._without_logins(one) for name, one in landing.items()}
        return self.connections.logins.take_from(landing) if isinstance(landing, str) else landing


def _unpinned(place: object, landing: Landing) -> str | None:
    """The address that was asked for, where the landing zone has another since its revision was looked up."""
    return (
        place
        if isinstance(place, str)
        and is_address(place)
        and "revision" in landing.provenance()
        and place != landing.location
        else None
    )
