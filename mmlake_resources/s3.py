"""S3 by Dagster's own resource: what a deployment configures there, the library is handed as a client."""

from typing import Any

from mmlake.optional import need
from mmlake.remote.s3 import TRIES


def new_s3_client(endpoint: str | None, region: str | None, profile: str | None) -> Any:
    """A client of dagster-aws's S3Resource. Raises MissingExtra."""
    resource = need("dagster_aws.s3", extra="s3", purpose="S3 storage named in the lake resource").S3Resource
    return resource(
        endpoint_url=endpoint, region_name=region, profile_name=profile, max_attempts=TRIES - 1
    ).get_client()
