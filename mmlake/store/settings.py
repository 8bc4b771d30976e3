"""Where blobs lie."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreSettings:
    """Where blobs lie. Not part of any stamp: a blob is its digest wherever it is."""

    location: str = ""
    # "s3://bucket/prefix", or "" for `blobs/` in the lake's own directory. A lake remembers it; to move a store, copy
    # all that is below it
