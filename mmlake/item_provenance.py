"""The provenance of one item of a lake: its story, with the versions that hold it or leave it out."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from mmlake import provenance
from mmlake.errors import BlobMissing, SettingsError
from mmlake.lake import Lake
from mmlake.provenance import Story
from mmlake.publish import version_names
from mmlake.records import is_digest
from mmlake.version_provenance import Search, VersionAnswer, answer_of, units_in

_Answer = TypeVar("_Answer")


def story_of(lake: Lake, name: str) -> Story:
    """The story of the item that a person names: by its digest or a prefix of it, by a file of the store, or by a file
    that landed, whose path begins where the person is or where the landing zone does. Raises BlobMissing,
    AmbiguousDigest, SettingsError."""
    return _asked(lake, name, lambda digest: _story(lake, digest))


def version_answer(lake: Lake, name: str, version: str) -> VersionAnswer:
    """Why that version holds the item that a person names as for `story_of`, or leaves it out. Raises RefMissing, and
    what `story_of` raises."""
    return _asked(lake, name, lambda digest: answer_of(lake, digest, version))


def _asked(lake: Lake, name: str, answer: Callable[[str], _Answer]) -> _Answer:
    """What there is to say of the digest, or its first characters, that the name stands for."""
    stem = Path(name).name.partition(".")[0]
    path = None if is_digest(stem) else _file_named(lake, name)
    if path is None:
        return answer(stem if is_digest(stem) else name)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        return answer(digest)
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
    """One row per version: how often its samples hold the digest, and if none does, the cause."""
    names: dict[str, list[str]] = {}
    tags = lake.versions.tags()
    for name in version_names(lake):
        if name in tags:
            names.setdefault(tags[name], []).append(name)
    rows, search = [], Search(lake, digest, units_in(lake, digest))
    for id_, known_as in names.items():
        found = search.mentions(id_)
        held = {"held": found.num_held > 0, "num_samples": found.num_held}
        rows.append({"version": id_, "names": known_as, **held} | ({} if found.num_held else {"cause": found.cause}))
    return rows
