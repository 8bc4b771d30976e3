"""The provenance of one item of a lake: its story, with the versions that hold it or leave it out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow.compute as pc

from mmlake import provenance
from mmlake.lake import Lake
from mmlake.provenance import Story
from mmlake.publish import version_names


def story_of(lake: Lake, digest: str) -> Story:
    """The story of the item that the digest or its prefix names. Raises BlobMissing, AmbiguousDigest, SettingsError."""
    return replace(
        provenance.why(digest, tables=lake.tables, manifests=lambda item: memberships(lake, item)),
        landing=lake.origin(),
    )


def memberships(lake: Lake, digest: str) -> list[dict[str, Any]]:
    """One row per version: in how many of its samples it holds the digest, and if in none, the cause."""
    names: dict[str, list[str]] = {}
    tags = lake.versions.tags()
    for name in version_names(lake):
        if name in tags:
            names.setdefault(tags[name], []).append(name)
    rows = []
    for id_, known_as in names.items():
        excluded = lake.versions.excluded(id_)
        left_out = excluded.filter(pc.equal(excluded.column("digest"), digest)).to_pylist()
        num_samples = sum(
            pc.sum(pc.or_(pc.equal(part["digest"], digest), pc.equal(part["parent_digest"], digest))).as_py() or 0
            for part in lake.versions.iter_items(id_)
        )
        cause = (
            f"{left_out[0]['cause']}{': ' + left_out[0]['detail'] if left_out[0]['detail'] else ''}"
            if left_out
            else "was not in the lake when the version was made"
        )
        held = {"held": num_samples > 0, "num_samples": num_samples}
        rows.append({"version": id_, "names": known_as, **held} | ({} if num_samples else {"cause": cause}))
    return rows
