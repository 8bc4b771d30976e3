"""The provenance of a version as a file: every stamp that contributed to it.

Enters: what a manifest was made from. Leaves: one JSON line per table, inputs before what they fed. A published version keeps this file beside its manifest, so that
its history outlives the event log: deleting a run there deletes its events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mmlake.records import Digest, canonical_json, digest_of
from mmlake.store import write_atomically
from mmlake.tables import ALL, Slot, Tables

_SLOT = re.compile(r"(?P<modality>[^/\[]+)/(?P<table>[^/\[]+)(?:\[(?P<shard>.*)\])?", re.DOTALL)
_FORMAT = 1


def chain(inputs: Mapping[str, str], *, tables: Tables) -> list[dict[str, Any]]:
    """One dict per table that contributed, sorted by slot: slot, the stamp's fields, and current.

    inputs: what the version was made from, slot text -> data version, as in a stamp. current: whether the table on disk is still the one that was used; false where it
    was made again since. What is no table (a landing shard, a table that is gone) is a row with only slot, data_version and kind "external".
    """
    rows: dict[str, dict[str, Any]] = {}
    waiting = [(name, version, ALL) for name, version in sorted(inputs.items())]
    while waiting:
        name, version, shard = waiting.pop()
        slots = _slots(name, shard, tables)
        if not slots:
            rows.setdefault(name, {"slot": name, "kind": "external", "data_version": version})
            continue
        current = version in (_version(slots[0], tables), _joint_version(slots, tables))
        for slot in slots:
            if str(slot) in rows:
                rows[str(slot)]["current"] &= current
                continue
            stamp = tables.stamp(slot)
            assert stamp is not None  # `_slots` lists only finished tables
            rows[str(slot)] = {"slot": str(slot), "kind": "table", "current": current, **asdict(stamp)}
            waiting += [(key, value, slot.shard) for key, value in sorted(stamp.inputs.items())]
    return [rows[key] for key in sorted(rows)]


def export_chain(path: Path, *, version: str, inputs: Mapping[str, str], tables: Tables) -> Digest:
    """SHA-256 of the JSON lines that now stand at the path: a head {format, version, inputs, num_rows}, then the rows of `chain`."""
    rows = chain(inputs, tables=tables)
    head = {"format": _FORMAT, "version": version, "inputs": dict(inputs), "num_rows": len(rows)}
    data = "".join(canonical_json(row) + "\n" for row in [head, *rows]).encode()
    write_atomically(Path(path), data)
    return digest_of(data)


def read_chain(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(head, rows) as `export_chain` wrote them."""
    head, *rows = (json.loads(line) for line in Path(path).read_bytes().splitlines())
    return head, rows


def _slots(name: str, shard: str, tables: Tables) -> list[Slot]:
    """The finished tables that a name in `inputs` means: of the reader's own shard, else of the corpus, else of all shards."""
    match = _SLOT.fullmatch(name)
    if match is None:
        return []
    table, modality = match["table"], match["modality"]
    for candidate in [match["shard"]] if match["shard"] is not None else [shard, ALL]:
        if tables.stamp(Slot(table, modality, candidate)) is not None:
            return [Slot(table, modality, candidate)]
    return [Slot(table, modality, each) for each in tables.shards(table, modality)] if match["shard"] is None else []


def _version(slot: Slot, tables: Tables) -> str:
    stamp = tables.stamp(slot)
    return stamp.data_version if stamp else ""


def _joint_version(slots: list[Slot], tables: Tables) -> str:
    """The one version that stands for the tables of all shards: SHA-256 of the lines `shard=data version`."""
    return digest_of("\n".join(f"{slot.shard}={_version(slot, tables)}" for slot in slots).encode())
