"""Where the lake and its landing zone are."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field, PrivateAttr, field_validator

from mmlake.compute import ComputeSettings, Executor
from mmlake.lake import Lake
from mmlake.parts import Parts, parts_of
from mmlake.quality import CheckSettings
from mmlake.recent_files import RecentReads
from mmlake.remote.connections import RemoteConnections
from mmlake.remote.credentials import split_login
from mmlake.settings import Settings
from mmlake.workers import WorkerPool
from mmlake_resources.s3 import new_s3_client


class LakeResource(dg.ConfigurableResource):
    """The lake that the assets read and write.

    The code location alone says where it is. A run whose configuration names any of these fields is refused: whoever
    launches it could read and write where they choose.
    """

    root: str = Field(description="Directory of the lake: blobs, stage tables, catalog, versions, training shards.")
    landing: str | None = Field(
        default=None,
        description="Landing zone: a directory, s3://bucket/prefix, hf://datasets/org/name, "
        "http(s)://host/directory/ or another storage of docs/remote.md. A login in an address is used and not kept. "
        "Left out: the one "
        "that the lake remembers.",
    )
    landings: dict[str, str] = Field(
        default_factory=dict,
        description="Several landing zones by name, in place of `landing` and next to those that the lake remembers; "
        "an empty address takes one away.",
    )
    limit: int | None = Field(
        default=None,
        description="Samples taken from the landing zone, from each of several, in the order of shard keys; "
        "0 takes all. Left out: as many as the lake remembers.",
    )
    settings_file: str | None = Field(
        default=None,
        description="TOML file with one table per stage ([quality], [dedup], ...). Left out: the defaults.",
    )

    workers: int | None = Field(
        default=None,
        description="Processes that decode; 0 for as many as there are cores. Left out: what the settings file says.",
    )

    s3_endpoint: str | None = Field(
        default=None,
        description="http(s)://host[:port] of an S3-compatible store. Left out, as the next two: what AWS_* and "
        "MMLAKE_S3_ENDPOINT say.",
    )
    s3_region: str | None = Field(default=None, description="Region of the buckets.")
    s3_profile: str | None = Field(default=None, description="Profile of ~/.aws/config whose credentials are used.")
    settle_s: float = Field(
        default=10.0,
        description="Seconds that a landed file must rest before the sensor takes it, unless a `_SUCCESS` "
        "marker stands next to "
        "it.",
    )
    _connections: RemoteConnections = PrivateAttr(default_factory=RemoteConnections)
    # logins, connections and cached blocks of all lakes that this resource opens, in one run after another
    _recent: RecentReads = PrivateAttr(default_factory=RecentReads)  # what those read of small files

    _pool: WorkerPool | None = PrivateAttr(default=None)  # of the run of Dagster that this was set up for
    _definition: dg.ResourceDefinition | None = PrivateAttr(default=None)  # Dagster expects the same one each time

    @field_validator("landing", "landings")
    @classmethod
    def _without_logins(cls, value: str | dict[str, str] | None) -> str | dict[str, str] | None:
        """The addresses without their logins, which the connections keeps: Dagster writes the configuration of
        resources into its database."""
        if isinstance(value, dict):
            return {name: split_login(place)[0] for name, place in value.items()}
        return split_login(value)[0] if value else value

    def __init__(self, **data: Any) -> None:
        super().__init__(**data)
        for place in (data.get("landing"), *(data.get("landings") or {}).values()):
            if place:
                self._connections.logins.take_from(place)

    def get_resource_definition(self) -> dg.ResourceDefinition:  # type: ignore[override]  # not Dagster's own class of it
        """The resource as runs have it: without configuration, which Dagster's own would take from whoever launches."""
        if self._definition is None:
            self._definition = dg.ResourceDefinition(
                self._of_run, config_schema={}, description="The lake of the code location; runs cannot change it."
            )
        return self._definition

    @contextmanager
    def _of_run(self, context: dg.InitResourceContext) -> Iterator["LakeResource"]:
        """The resource of one run of Dagster, with a pool of workers of its own and the connections of this one."""
        with self.model_copy().yield_for_execution(context) as own:
            yield own

    @classmethod
    def at(
        cls,
        root: str,
        landing: str | dict[str, str] | None,
        *,
        settings_file: str | None = None,
        limit: int | None = None,
        workers: int | None = None,
    ) -> "LakeResource":
        """The lake in that directory, on one landing zone or on several by name."""
        one, several = (None, landing) if isinstance(landing, dict) else (landing, {})
        return cls(root=root, landing=one, landings=several, settings_file=settings_file, limit=limit, workers=workers)

    def open(self, executor: Callable[[ComputeSettings], Executor] | None = None) -> Lake:
        """The lake. executor: makes what its model steps use, from the settings. Within a run of Dagster all lakes
        that are opened share one pool of workers, which ends with the run."""
        settings = self._settings()
        return Lake(
            self.root,
            landing=self.landings or self.landing,
            settings=settings,
            executor=executor(settings.compute) if executor else None,
            runner=self._pool,
            limit=self.limit,
            s3_client=self._s3_client(),
            connections=self._connections,
            recent=self._recent,
        )

    def parts(self) -> Parts:
        """The tables of parts for the settings, which the graph is made from; the lake itself is not opened."""
        return parts_of(self._settings())

    def check_settings(self) -> CheckSettings:
        """The bounds of the checks, which are part of the graph."""
        return self._settings().checks

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Begin a run."""
        self._pool = self._settings().compute.pool()

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """End a run, and its workers with it."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _settings(self) -> Settings:
        settings = Settings.load(Path(self.settings_file) if self.settings_file else None)
        if self.workers is None:
            return settings
        return dataclasses.replace(settings, compute=dataclasses.replace(settings.compute, workers=self.workers))

    def _s3_client(self) -> Callable[[], Any] | None:
        named = (self.s3_endpoint, self.s3_region, self.s3_profile)
        return (lambda: self._connections.client(named, lambda: new_s3_client(*named))) if any(named) else None
