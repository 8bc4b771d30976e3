"""Where the lake and its landing zone are."""

from pathlib import Path

import dagster as dg
from pydantic import Field

from mmlake.compute import Executor
from mmlake.lake import Lake
from mmlake.settings import Settings


class LakeResource(dg.ConfigurableResource):
    """The lake that the assets read and write."""

    root: str = Field(description="Directory of the lake: blobs, stage tables, catalog, versions, training shards.")
    landing: str | None = Field(default=None, description="Directory of the landing zone. Left out: the one that the lake remembers.")
    settings_file: str | None = Field(default=None, description="TOML file with one table per stage ([quality], [dedup], ...). Left out: the defaults.")

    settle_s: float = Field(default=10.0, description="Seconds that a landed file must rest before the sensor takes it, unless a `_SUCCESS` marker vouches for it.")

    def open(self, executor: Executor | None = None) -> Lake:
        """The lake, with the executor that its model steps shall use."""
        settings = Settings.load(Path(self.settings_file) if self.settings_file else None)
        return Lake(self.root, landing=self.landing, settings=settings, executor=executor)
