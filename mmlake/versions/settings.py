"""Settings of publishing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishSettings:
    """What is published without being asked for."""

    follow: tuple[str, ...] = ()
    # recipes that get a version, and a moved branch, whenever the catalog has changed and no run is under way; in this
    # order, since a version is compared with what was published before it. Empty: versions are published by hand
