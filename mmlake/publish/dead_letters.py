"""The dead letters: every item that failed in a step, with what is known about it, in one table per modality."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts, quality, schemas
from mmlake.cuts import Uncut, version_of
from mmlake.error_codes import CODES, ErrorCode
from mmlake.lake import Lake
from mmlake.progress import Advance, silent
from mmlake.publish.selected import UNCUT
from mmlake.sources import URL_LIST
from mmlake.tables import Slot, Stamp, Stopwatch, joint_version

CODE_VERSION = "3"
NAME = schemas.DEAD_LETTERS.name
FORMER = Slot(NAME, "all")  # the one table of earlier releases, over all modalities
# table -> the stage whose failures it holds, in data order
STAGES = {
    "items": "sources",
    "blobs": "store",
    "tracks": "preprocess",
    "alignments": "preprocess",
    "speakers": "preprocess",
    "units": "preprocess",
    "captions": "captions",
    "measures": "quality",
    "fingerprints": "dedup",
    "embeddings": "embed",
    UNCUT: "shards",
}
_FAILED = "unreadable"  # the status of a failed row, and what a stamp counts of them
# nothing follows from their failures
_LAST = ("alignments", "speakers", "captions", "fingerprints", "embeddings", UNCUT)


_Origin = tuple[str | None, str | None]  # source, source_ref


def dead_letters_slot(modality: str) -> Slot:
    """The place of the modality's dead letters."""
    return Slot(NAME, modality)


def _inputs(lake: Lake, modality: str) -> dict[str, str]:
    """Data versions of every table that failures are read from, and of the retries: one that fails in the same way
    changes no table."""
    tables = (table for table in STAGES if table != UNCUT)
    versions = {f"{modality}/{table}": joint_version(lake.tables.stamps(table, modality)) for table in tables}
    versions |= {UNCUT: uncut} if (uncut := version_of(lake.cuts.uncut.held(modality))) else {}
    return versions | ({"lake/retries": tried} if (tried := lake.retries.version(modality)) else {})


def dead_letters_are_current(lake: Lake, modality: str | None = None) -> bool:
    """Whether the dead letters, of the modality or of all, were made from the tables as they are now."""
    return all(
        (stamp := lake.tables.stamp(dead_letters_slot(one))) is not None
        and stamp.code_version == CODE_VERSION
        and stamp.inputs == _inputs(lake, one)
        for one in ([modality] if modality else lake.parts.modalities)
    )


def update_dead_letters(lake: Lake, *modalities: str, advance: Advance = silent, run_id: str = "") -> dict[str, Stamp]:
    """Modality -> the stamp of its dead letters, made anew from its tables; of all modalities where none is named.
    First failures and numbers of attempts are carried over from those before."""
    wanted = modalities or tuple(lake.parts.modalities)
    stamps = {modality: _update(lake, modality, advance, run_id) for modality in wanted}
    if all(lake.tables.stamp(dead_letters_slot(modality)) is not None for modality in lake.parts.modalities):
        lake.tables.remove(FORMER)
    return stamps


def _update(lake: Lake, modality: str, advance: Advance, run_id: str) -> Stamp:
    started, inputs = Stopwatch(), _inputs(lake, modality)
    before = {row["letter"]: row for row in read_dead_letters(lake, modality).to_pylist()}
    rows, tries = [], _Tries(lake, before)
    for letter in _failures(lake, modality, advance):
        known = before.get(letter["letter"])
        letter["first_failed_at"], letter["attempts"] = letter["last_failed_at"], 1
        if known is not None:
            again = tries.since(known, made_at=letter["last_failed_at"])
            letter["first_failed_at"], letter["attempts"] = known["first_failed_at"], known["attempts"] + len(again)
            letter["last_failed_at"] = max(again, default=known["last_failed_at"])
        rows.append(letter)
    return lake.tables.write(
        dead_letters_slot(modality),
        schemas.DEAD_LETTERS,
        schemas.from_rows(schemas.DEAD_LETTERS, rows),
        code_version=CODE_VERSION,
        settings_digest="",
        inputs=inputs,
        counts={stage: sum(row["stage"] == stage for row in rows) for stage in STAGES.values()},
        run_id=run_id,
        **started.fields(),
    )


def table_of(letter: dict[str, Any]) -> str:
    """The stage table that the dead letter was read from."""
    return str(letter["letter"]).split("/")[1]


class _Tries:
    """When rows were tried again. The stamp of their table does not say: it is new although most rows were taken
    over, and only the last of several tries since the last update."""

    def __init__(self, lake: Lake, before: dict[str, dict[str, Any]]) -> None:
        self._lake = lake
        self._lists = {key for key, shard in lake.registry.known().items() if shard.format == URL_LIST}
        self._codes = {(row["shard"], row["key"]): row["error_code"] for row in before.values()}
        self._tried = lru_cache(maxsize=None)(self._read)

    def since(self, known: dict[str, Any], *, made_at: str) -> list[str]:
        """When the row was tried after its dead letter was written. made_at: when its table was stamped."""
        tried = self._tried(table_of(known), known["modality"], known["shard"])
        again = [
            at
            for at, keys, codes in tried
            if at > known["last_failed_at"] and (keys is None or known["key"] in keys or known["error_code"] in codes)
        ]
        is_all_new = made_at != known["last_failed_at"] and all(at != made_at for at, _, _ in tried)
        return [*again, made_at] if is_all_new else again

    def _read(self, table: str, modality: str, shard: str) -> list[tuple[str, frozenset[str] | None, frozenset[int]]]:
        """(when, keys or None for all rows, error codes whose rows were tried as well: a retry of a list of URLs
        forgets every answer with the codes of the addresses that it names)."""
        is_list = table == "items" and shard in self._lists
        return [
            (at, keys, self._codes_of(shard, keys) if is_list and keys else frozenset())
            for at, keys in self._lake.retries.tries(Slot(table, modality, shard))
        ]

    def _codes_of(self, shard: str, keys: frozenset[str]) -> frozenset[int]:
        return frozenset(self._codes[shard, key] for key in keys if (shard, key) in self._codes)


def read_dead_letters(lake: Lake, *modalities: str) -> pa.Table:
    """The dead letters of these modalities, or of all, as they were last made, sorted; without rows where they never
    were."""
    found = [schemas.empty(schemas.DEAD_LETTERS)]
    for modality in modalities or lake.parts.modalities:
        if lake.tables.stamp(dead_letters_slot(modality)) is not None:
            found.append(lake.tables.read(dead_letters_slot(modality)))
        elif lake.tables.stamp(FORMER) is not None:
            former = lake.tables.read(FORMER)
            found.append(former.filter(pc.equal(former["modality"], modality)))
    return pa.concat_tables(found).sort_by("letter")


def recheck_dead_letters(lake: Lake, *modalities: str) -> int:
    """The number of dead letters of these modalities, or of all: one for each item and step that failed. Raises
    ContractBroken where a table on disk has others."""
    return contracts.same_keys(
        "stage tables -> dead_letters",
        [row["letter"] for one in modalities or lake.parts.modalities for row in _failures(lake, one, silent)],
        read_dead_letters(lake, *modalities).column("letter").to_pylist(),
    )


def _failures(lake: Lake, modality: str, advance: Advance) -> Iterator[dict[str, Any]]:
    """A dead letter, without its history, for each failure; one that follows from an earlier stage's failure is left
    out."""
    catalogue, uncut = _catalogue(lake), lake.cuts.uncut.held(modality)
    for shard in lake.tables.shards("items", modality):
        known: set[str] = set()
        origins: dict[str, _Origin] | None = None
        for table in STAGES:
            stamp = lake.tables.stamp(Slot(table, modality, shard))
            if stamp is None:
                continue
            for rows in _unreadable(lake, Slot(table, modality, shard), stamp).values():
                digest = rows[0]["digest"]
                if table != "items" and digest in known:
                    continue
                if table not in _LAST:
                    known.add(digest)
                letter = _letter(table, modality, shard, rows, stamp.written_at, catalogue)
                if table != "items":
                    origins = _origins(lake, modality, shard) if origins is None else origins
                    letter["source"], letter["source_ref"] = origins.get(digest, (None, None))
                yield letter
            advance(stamp.num_rows)
        if uncut:
            origins = _origins(lake, modality, shard) if origins is None else origins
            yield from _uncut_letters(modality, shard, origins, uncut, catalogue)


def _uncut_letters(
    modality: str,
    shard: str,
    origins: Mapping[str, _Origin],
    uncut: Mapping[str, Uncut],
    catalogue: Mapping[int, ErrorCode],
) -> Iterator[dict[str, Any]]:
    """The letters of the shard's units that could not be cut."""
    for digest in sorted(origins.keys() & uncut.keys()):
        row = {"digest": digest, "error": uncut[digest].reason, "error_code": uncut[digest].error_code}
        letter = _letter(UNCUT, modality, shard, [row], uncut[digest].at, catalogue)
        letter["source"], letter["source_ref"] = origins[digest]
        yield letter


def _origins(lake: Lake, modality: str, shard: str) -> dict[str, _Origin]:
    """Digest of each item and unit of the shard -> where it comes from; of equal ones the first."""
    items = lake.tables.read(Slot("items", modality, shard), columns=["digest", "source", "source_ref"])
    found: dict[str, _Origin] = {}
    for row in items.filter(pc.is_valid(items["digest"])).to_pylist():
        found.setdefault(row["digest"], (row["source"], row["source_ref"]))
    slot = Slot("units", modality, shard)
    if lake.tables.stamp(slot) is not None:
        units = lake.tables.read(slot, columns=["digest", "parent_digest"])
        spans = units.filter(pc.not_equal(units["digest"], units["parent_digest"])).to_pylist()
        found |= {row["digest"]: found[row["parent_digest"]] for row in spans if row["parent_digest"] in found}
    return found


def _unreadable(lake: Lake, slot: Slot, stamp: Stamp) -> dict[str, list[dict[str, Any]]]:
    """Key of a failed item -> its failed rows; several where it failed in several tiers. A table whose stamp counts no
    failure is not read: of a million texts the measures alone are twenty million rows."""
    if stamp.counts.get(_FAILED) == 0:
        return {}
    names = {
        "items": ["item_id", "digest", "source", "source_ref", "materialize_error"],
        "blobs": ["digest"],
    }.get(slot.table, ["digest", "error"])
    items: dict[str, list[dict[str, Any]]] = {}
    for part in lake.tables.parts(slot, columns=[*names, "status", "error_code"]):
        for row in part.filter(pc.equal(part.column("status"), _FAILED)).to_pylist():
            items.setdefault(row.get("item_id") or row["digest"], []).append(row)
    return items


def _catalogue(lake: Lake) -> dict[int, ErrorCode]:
    """Every code that a row can have, those of the quality rules included."""
    rules = (rule for row in lake.parts.modalities.values() for rule in row.rules)
    return CODES | {entry.code: entry for entry in quality.error_codes(rules)}


def _letter(
    table: str, modality: str, shard: str, rows: list[dict[str, Any]], at: str, catalogue: Mapping[int, ErrorCode]
) -> dict[str, Any]:
    """The letter of one item: the gravest code of its rows, and every reason."""
    codes = [catalogue[row["error_code"]] for row in rows]
    failures = sorted(zip(codes, rows, strict=True), key=lambda one: (one[0].severity, one[0].code))
    code, row = failures[0]
    key = row.get("item_id") or row["digest"]
    reasons = (one.get("materialize_error") or one.get("error") or its_code.what for its_code, one in failures)
    return {
        "letter": f"{modality}/{table}/{shard}/{key}",
        "stage": STAGES[table],
        "modality": modality,
        "shard": shard,
        "key": key,
        "digest": row["digest"],
        "source": row.get("source"),
        "source_ref": row.get("source_ref"),
        "error_code": code.code,
        "name": code.name,
        "severity": code.severity,
        "reason": "; ".join(dict.fromkeys(reasons)),
        "is_transient": any(one.is_transient for one in codes),  # a retry takes up all that failed
        "last_failed_at": at,
    }
