"""The provenance of one item of a lake: its story, with the versions that hold it or leave it out."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from mmlake import provenance
from mmlake.errors import BlobMissing, SettingsError
from mmlake.lake import Lake
from mmlake.provenance import Story
from mmlake.publish import version_names
from mmlake.records import is_digest


def story_of(lake: Lake, name: str) -> Story:
    """The story of the item that a person names: by its digest or a prefix of it, by a file of the store, or by a file
    that landed, whose path begins where the person is or where the landing zone does. Raises BlobMissing,
    AmbiguousDigest, SettingsError."""
    stem = Path(name).name.partition(".")[0]
    path = None if is_digest(stem) else _file_named(lake, name)
    if path is None:
        return _story(lake, stem if is_digest(stem) else name)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        return _story(lake, digest)
    except BlobMissing as error:
        raise SettingsError(
            f"the bytes of {path} are no item of lake {lake.root}: it did not land, it changed since, or its rows are "
            "those of what is packed in it, a record or a member each; `mmlake search` finds these, and "
            "`mmlake failed` lists what could not be read"
        ) from error


def _story(lake: Lake, digest: str) -> Story:
    return replace(
        provenance.why(digest, tables=lake.tables, manifests=lambda item: memberships(lake, item)),
        landing=lake.origin(),
    )


def _file_named(lake: Lake, name: str) -> Path | None:
    location = lake.origin().get("location")
    roots = [Path(), *([Path(location)] if isinstance(location, str) else [])]
    return next((root / name for root in roots if os.path.isfile(root / name)), None)


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
