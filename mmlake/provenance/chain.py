"""The provenance of a version as a file: every stamp that contributed to it.

Enters: what a manifest was made from. Leaves: one JSON line per table, inputs before what they fed. A published version
keeps this file next to its manifest, so that its history outlives the event log: deleting a run there deletes its
events.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mmlake.errors import SettingsError
from mmlake.records import Digest, canonical_json, digest_of
from mmlake.store import write_atomically
from mmlake.tables import ALL, Slot, Stamp, Tables, joint_version

_FORMAT = 1


def chain(inputs: Mapping[str, str], *, tables: Tables) -> list[dict[str, Any]]:
    """One dict per table that contributed, sorted by slot: slot, the stamp's fields, and current.

    inputs: what the version was made from, slot text -> data version, as in a stamp. current: whether the table on disk
    is still the one that was used; false where it was made again since. What is no table (a landing shard, a table that
    is gone) is a row with only slot, data_version and kind "external".
    """
    rows: dict[str, dict[str, Any]] = {}
    waiting = [(name, version, ALL) for name, version in sorted(inputs.items())]
    while waiting:
        name, version, shard = waiting.pop()
        stamps = _named(name, shard, tables)
        if not stamps:
            rows.setdefault(name, {"slot": name, "kind": "external", "data_version": version})
            continue
        current = version in (next(iter(stamps.values())).data_version, joint_version(stamps))
        for slot, stamp in stamps.items():
            if str(slot) in rows:
                rows[str(slot)]["current"] &= current
                continue
            rows[str(slot)] = {"slot": str(slot), "kind": "table", "current": current, **asdict(stamp)}
            waiting += [(key, value, slot.shard) for key, value in sorted(stamp.inputs.items())]
    return [rows[key] for key in sorted(rows)]


def export_chain(path: Path, *, version: str, inputs: Mapping[str, str], tables: Tables) -> Digest:
    """SHA-256 of the JSON lines that now stand at the path: a head {format, version, inputs, num_rows}, then the
    rows of `chain`."""
    rows = chain(inputs, tables=tables)
    head = {"format": _FORMAT, "version": version, "inputs": dict(inputs), "num_rows": len(rows)}
    data = "".join(canonical_json(row) + "\n" for row in [head, *rows]).encode()
    write_atomically(Path(path), data)
    return digest_of(data)


def read_chain(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(head, rows) as `export_chain` wrote them."""
    head, *rows = (json.loads(line) for line in Path(path).read_bytes().splitlines())
    return head, rows


def _named(name: str, shard: str, tables: Tables) -> dict[Slot, Stamp]:
    """The finished tables that a name in `inputs` means: of the reader's own shard, else of the corpus, else of all
    shards."""
    try:
        named = Slot.parse(name)
    except SettingsError:
        return {}  # inputs may name what is no table
    names_shard = "[" in name
    for candidate in [named.shard] if names_shard else [shard, ALL]:
        slot = Slot(named.table, named.modality, candidate)
        if (stamp := tables.stamp(slot)) is not None:
            return {slot: stamp}
    return {} if names_shard else tables.stamps(named.table, named.modality)
