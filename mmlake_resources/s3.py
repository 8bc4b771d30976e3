"""S3 by Dagster's own resource: what a deployment configures there, the library is handed as a client."""

import os
from functools import lru_cache
from typing import Any

from mmlake.optional import need
from mmlake.remote.s3 import TRIES


def s3_client(endpoint: str | None, region: str | None, profile: str | None) -> Any:
    """The process's client of dagster-aws's S3Resource. Raises MissingExtra."""
    return _client(endpoint, region, profile, os.getpid())


@lru_cache(maxsize=4)
def _client(endpoint: str | None, region: str | None, profile: str | None, process: int) -> Any:
    resource = need("dagster_aws.s3", extra="s3", purpose="S3 storage named in the lake resource").S3Resource
    return resource(
        endpoint_url=endpoint, region_name=region, profile_name=profile, max_attempts=TRIES - 1
    ).get_client()
