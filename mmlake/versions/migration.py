"""Versions of schema `mmlake.manifest/2`, in which tree and version were one, made to versions of today. Media, tables
and catalog are not touched; ids change, and `migrated.json` says which became which.

Order of writing: segments, tree, version, the table of ids, logs and refs, and last the old file is put aside. Killed
at any step, it is ended by running it again: equal old versions give equal new ones.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from mmlake import checked_json
from mmlake.errors import BlobCorrupt, BlobMissing
from mmlake.records import digest_of
from mmlake.store import write_atomically
from mmlake.versions.counts import Tally
from mmlake.versions.manifest import Manifest, PinnedRecipe, Tree
from mmlake.versions.sample_schemas import EXCLUDED, VERSION_SAMPLES
from mmlake.versions.segments import Segment

OLD_SCHEMA = "mmlake.manifest/2"
MIGRATED = re.compile(r"migrated from (?P<id>[0-9a-f]{64})")  # the message of a version that was converted
Write = Callable[[pa.Table, Callable[[pa.Table], None]], tuple[Segment, ...]]


def converted(
    root: Path, old: dict[str, dict[str, Any]], write: Write, *, known: dict[str, str]
) -> Iterator[tuple[str, Tree, Manifest]]:
    """(old id, tree, version) of each old version that is whole, parents first; their segments are written. Those of
    which a segment is lost or damaged are left out. old: id -> what its file says. known: what was converted before."""
    made = dict(known)
    for id_ in _parents_first(old):
        body = old[id_]
        try:
            samples = _table(root, body["segments"], VERSION_SAMPLES)
            excluded = _table(root, body["excluded_segments"], EXCLUDED)
        except (BlobMissing, BlobCorrupt):
            continue
        tally = Tally()
        tree = Tree(segments=write(samples, tally.add_samples))
        manifest = Manifest(
            tree=tree.id,
            recipe=PinnedRecipe.of_body(body["recipe"]),
            settings_digest=body["settings_digest"],
            encoders=body["encoders"],
            made_with={},
            diversity=body["diversity"],
            parents=tuple(made.get(parent, parent) for parent in body["parents"]),
            excluded_segments=write(excluded, tally.add_excluded),
            run="",
            created_at=None,
            message=f"migrated from {id_}",
            **tally.counts(),
        )
        made[id_] = manifest.id
        yield id_, tree, manifest


def read_table(root: Path) -> dict[str, str]:
    """Old id -> new id of every version that was converted."""
    try:
        return checked_json.loads((root / "migrated.json").read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise BlobCorrupt(
            f"{root / 'migrated.json'} is not what was written; nobody knows which version became which: copy it back, "
            "or delete it to give up the ids of the release before"
        ) from error


def rename_refs(root: Path, ids: dict[str, str]) -> list[str]:
    """The names of the branches and tags that named old ids and name new ones now; logs follow."""
    names = []
    for path in sorted((root / "logs").glob("*.jsonl")):
        _rewrite(path, ids)
    for path in sorted((root / "refs").glob("*/*.json")):
        if _rewrite(path, ids):
            names.append(path.stem)
    return names


def _rewrite(path: Path, ids: dict[str, str]) -> bool:
    """Put the new ids for the old ones; whether there was one."""
    before = path.read_bytes()
    lines = [_renamed(line, ids) for line in before.split(b"\n")]
    after = b"\n".join(lines)
    if after != before:
        write_atomically(path, after)
    return after != before


def _renamed(line: bytes, ids: dict[str, str]) -> bytes:
    try:
        body = checked_json.loads(line)
    except ValueError:
        return line  # an empty line, or the torn one of a writer that died
    names = {name: ids[body[name]] for name in ("id", "before", "after") if body.get(name) in ids}
    return checked_json.dumps(body | names) if names else line


def _parents_first(old: dict[str, dict[str, Any]]) -> list[str]:
    order: dict[str, None] = {}
    waiting = sorted(old)
    while waiting:
        id_ = waiting[-1]
        missing = [one for one in old[id_]["parents"] if one in old and one not in order and one not in waiting[-1:]]
        if missing:
            waiting += missing
        else:
            order[waiting.pop()] = None
    return list(order)


def _table(root: Path, segments: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """The rows of old segments. Raises BlobMissing, BlobCorrupt."""
    parts = [schema.empty_table()]
    for segment in segments:
        lines = _lines(root, segment["digest"], segment["size_bytes"]).splitlines()
        parts.append(pa.Table.from_pylist([_row(json.loads(line)) for line in lines], schema=schema))
    return pa.concat_tables(parts).combine_chunks()


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """The row; parts that are whole items were written without their place in one."""
    for part in row.get("parts", ()):
        part.setdefault("parent_digest", part["digest"])
    return row


def _lines(root: Path, digest: str, size_bytes: int) -> bytes:
    try:
        packed = (root / "segments" / digest[:2] / f"{digest}.jsonl.z").read_bytes()
    except FileNotFoundError as error:
        raise BlobMissing(f"segment {digest} of an older release is absent from {root}") from error
    try:
        lines = zlib.decompressobj().decompress(packed, size_bytes + 1)
    except zlib.error:
        lines = b""
    if len(lines) != size_bytes or digest_of(lines) != digest:
        raise BlobCorrupt(f"segment {digest} of an older release in {root} does not hash to its name")
    return lines
