"""Where the lake and its landing zone are."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field, field_validator

from mmlake.compute import Executor
from mmlake.lake import Lake
from mmlake.remote.credentials import without_login
from mmlake.settings import Settings
from mmlake_resources.s3 import s3_client


class LakeResource(dg.ConfigurableResource):
    """The lake that the assets read and write."""

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

    @field_validator("landing", "landings")
    @classmethod
    def _without_logins(cls, value: str | dict[str, str] | None) -> str | dict[str, str] | None:
        """The addresses without their logins, which the process remembers: Dagster writes the configuration of
        resources into its database."""
        if isinstance(value, dict):
            return {name: without_login(place) for name, place in value.items()}
        return without_login(value) if value else value

    @classmethod
    def at(
        cls,
        root: str,
        landing: str | dict[str, str] | None,
        *,
        settings_file: str | None = None,
        limit: int | None = None,
    ) -> "LakeResource":
        """The lake in that directory, on one landing zone or on several by name."""
        one, several = (None, landing) if isinstance(landing, dict) else (landing, {})
        return cls(root=root, landing=one, landings=several, settings_file=settings_file, limit=limit)

    def open(self, executor: Executor | None = None) -> Lake:
        """The lake, with the executor that its model steps shall use."""
        settings = Settings.load(Path(self.settings_file) if self.settings_file else None)
        return Lake(
            self.root,
            landing=self.landings or self.landing,
            settings=settings,
            executor=executor,
            limit=self.limit,
            s3_client=self._s3_client(),
        )

    def _s3_client(self) -> Callable[[], Any] | None:
        named = (self.s3_endpoint, self.s3_region, self.s3_profile)
        return partial(s3_client, *named) if any(named) else None
