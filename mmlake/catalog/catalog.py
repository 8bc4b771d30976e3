"""The catalog table: what is written, how it is read back whole, and how it is kept small.

Lance does not notice flipped bits: `TableFiles` has the checksums of its files, and no answer comes from a table whose
files are not those that were written. Every row carries `row_hash`, the SHA-256 of its own content: an upsert writes
only rows whose hash changed, and the hashes together are the data version.
Two modalities may hold the same bytes (an empty file in both); the row with the better status, then the earlier
modality, stays.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.catalog import columns as stored_columns
from mmlake.catalog import search as searching
from mmlake.catalog.columns import STORED
from mmlake.catalog.files import NAME as FILES
from mmlake.catalog.files import TableFiles, is_of_machine
from mmlake.catalog.hashes import row_hashes, version_of
from mmlake.catalog.indexes import has_index, has_text_index, index_anew, index_text, index_vectors
from mmlake.catalog.join import CATALOG_SCHEMA, METADATA, is_vector
from mmlake.catalog.opened import NAME as _TABLE
from mmlake.catalog.opened import OpenedTable, connect
from mmlake.catalog.settings import DEFAULTS, CatalogSettings
from mmlake.errors import ContractBroken, SchemaMismatch, SettingsError, TableCorrupt
from mmlake.locks import exclusive_lock
from mmlake.records import STATUSES, is_digest

_REMEDY = "run `mmlake run`, which makes it again from the tables"
_KEY_MARK = b"lance-schema:unenforced-primary-key:position"
_BATCH_ROWS = 4_096
_BATCH = 500  # digests per IN list


class Catalog:
    """One LanceDB table under one root directory. Writers exclude each other; readers need no lock."""

    def __init__(self, root: str | Path, *, modalities: Sequence[str], settings: CatalogSettings = DEFAULTS) -> None:
        """modalities: those of the lake; where one digest is of two, its row is of the first."""
        self.root, self._modalities = Path(root), tuple(modalities)
        self.settings = settings
        self._files = TableFiles(self.root / f"{_TABLE}.lance", self.root / FILES)
        self._opened = OpenedTable(self.root, self._files)

    def upsert(self, rows: pa.Table) -> dict[str, int]:
        """Counts of rows inserted, updated and unchanged. New digests are appended, changed ones replaced whole; equal
        rows write nothing. A replaced row keeps its vectors of the encoders that the rows have no column of.

        Raises LakeLocked, SchemaMismatch, ContractBroken (a null or repeated digest), SettingsError (another dimension
        for a known encoder).
        """
        rows = _checked(rows)
        with self._writing():
            table = self._widened(rows)
            if not rows.num_rows:  # of a modality without units: it may have brought columns
                return {"inserted": 0, "updated": 0, "unchanged": 0}
            rows = _hashed(_with_old_vectors(table, rows))
            stored = _columns(table, ["digest", "row_hash", "modality", "status"])
            new, changed = _split(rows, stored, self._modalities)
            for start in range(0, changed.num_rows, self.settings.merge_rows):
                part = _as_stored(changed.slice(start, self.settings.merge_rows), table.schema)
                # without use_index(False) and the declared key, a merge may insert a digest twice (measured)
                table.merge_insert("digest").use_index(False).when_matched_update_all().execute(
                    part, on_bad_vectors="null"
                )
            if new.num_rows:
                table.add(_as_stored(new, table.schema), on_bad_vectors="null")
            if table.count_rows() and not has_text_index(table):
                index_text(table)
        return {
            "inserted": new.num_rows,
            "updated": changed.num_rows,
            "unchanged": rows.num_rows - new.num_rows - changed.num_rows,
        }

    def remove_absent(self, digests: Iterable[str], *, modality: str | None = None) -> int:
        """The number of rows removed because their digest is not among the given ones. modality: whose rows alone may
        go; None for all."""
        with self._writing():
            if (table := self._open()) is None:
                return 0
            stored = _columns(table, ["digest"], where=_of(modality))["digest"].to_pylist()
            absent = sorted(set(stored) - set(digests))
            for start in range(0, len(absent), _BATCH):
                table.delete(_among(absent[start : start + _BATCH]))
        return len(absent)

    def search(
        self,
        text: str | None = None,
        vector: np.ndarray | list[float] | None = None,
        *,
        encoder: str | None = None,
        where: str | None = None,
        modality: str | None = None,
        limit: int = 10,
    ) -> pa.Table:
        """The best rows and their `score`, best first, equal scores by digest; vectors are left out.

        text: full-text (BM25). vector with encoder: cosine similarity, -1..1. Both: reciprocal rank fusion. Neither:
        the filter alone, score null.
        where: a SQL condition over the columns. Raises SettingsError for a filter, encoder, vector or limit that cannot
        be used.
        """
        if modality is not None and modality not in self._modalities:
            raise SettingsError(f"modality is {modality!r}, expected one of {', '.join(self._modalities)}")
        if limit < 1:
            raise SettingsError(f"limit is {limit}, expected at least 1")
        if (table := self._open()) is None:
            return searching.no_rows()
        depth = self.settings.fusion_depth
        query = searching.Query(
            text=text, vector=vector, encoder=encoder, where=where, modality=modality, limit=limit, depth=depth
        )
        return searching.run(table, query)

    def read(self, columns: list[str] | None = None, where: str | None = None) -> pa.Table:
        """Rows sorted by digest; without `columns`, every column but the vectors and the row hash."""
        if (table := self._open()) is None:
            return CATALOG_SCHEMA.empty_table() if columns is None else STORED.empty_table().select(columns)
        found = _columns(table, columns or searching.readable(table), where=self._opened.checked(table, where))
        return found.sort_by("digest") if "digest" in found.column_names and found.num_rows else found

    def scan(self, columns: list[str], where: str | None = None) -> Iterator[pa.RecordBatch]:
        """The same rows a part at a time, in the order in which they lie."""
        if (table := self._open()) is not None:
            yield from _batches(table, columns, where=self._opened.checked(table, where))

    def rows_of(self, digests: Collection[str], columns: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Digest -> its row, of those that there are, however many are asked for."""
        wanted, found, table = sorted(filter(is_digest, digests)), dict[str, dict[str, Any]](), self._open()
        for start in range(0, len(wanted) if table is not None else 0, _BATCH):
            rows = _columns(table, list(columns), where=_among(wanted[start : start + _BATCH]))
            found |= {row["digest"]: row for row in rows.to_pylist()}
        return found

    def get(self, digest: str) -> dict[str, Any] | None:
        """The row of the digest as a dict without vectors, or None."""
        if not is_digest(digest):
            raise SettingsError(f"digest is {digest[:80]!r}, expected 64 lower-case hex characters")
        found = self.read(where=f"digest = '{digest}'").to_pylist()
        return found[0] if found else None

    def vector(self, digest: str, *, encoder: str) -> np.ndarray | None:
        """The digest's vector, float32 of shape (D,), or None where the item has none."""
        if self.get(digest) is None:
            return None
        column = searching.encoder_column(self._open(), encoder)
        value = self.read([column], where=f"digest = '{digest}'")[column][0].as_py()
        return None if value is None else np.asarray(value, dtype=np.float32)

    def count(self, where: str | None = None) -> int:
        """The number of rows that meet the condition."""
        table = self._open()
        return 0 if table is None else int(table.count_rows(self._opened.checked(table, where)))

    def encoders(self) -> list[str]:
        """The vector columns' names without their prefix, sorted: what `encoder` accepts, next to the encoder's own
        spelling."""
        names = [] if (table := self._open()) is None else self._opened.schema(table).names
        return sorted(name.removeprefix("vector_") for name in names if is_vector(name))

    def columns(self) -> list[str]:
        """The columns that are stored, without vectors and row hash."""
        return CATALOG_SCHEMA.names if (table := self._open()) is None else list(searching.readable(table))

    def source_fields(self) -> list[str]:
        """The source's own fields, behind the column `metadata`, sorted."""
        return list(self.source_field_types())

    def source_field_types(self) -> dict[str, str]:
        """Source field -> the type that it has over all rows, by name."""
        schema = STORED if (table := self._open()) is None else self._opened.schema(table)
        return {one.name: str(one.type) for one in schema.field(METADATA).type} if METADATA in schema.names else {}

    def compact(self) -> None:
        """Merge small files, bring indexes up to date, build vector indexes that have become worth it, prune old
        versions."""
        with self._writing():
            if (table := self._open()) is None:
                return
            for name in (name for name in table.schema.names if is_vector(name)):
                if (
                    not has_index(table, name)
                    and table.count_rows(f"{name} IS NOT NULL") >= self.settings.vector_index_rows
                ):
                    index_vectors(table, name)
            table.optimize(cleanup_older_than=timedelta(seconds=self.settings.keep_versions_s))

    def verify_unique(self) -> None:
        """Raises ContractBroken where a digest has more than one row."""
        if (table := self._open()) is None:
            return
        counts = _columns(table, ["digest"]).group_by("digest").aggregate([("digest", "count")])
        twice = counts.filter(pc.greater(counts["digest_count"], 1))
        if twice.num_rows:
            raise ContractBroken(
                f"catalog {self.root}: {twice.num_rows} digests have several rows, the first is "
                f"{twice['digest'][0].as_py()}; remove the folder and materialize the catalog again"
            )

    def verify(self, modality: str | None = None) -> list[str]:
        """The digests, sorted, whose row no longer hashes to what was written; empty when all is well. modality: whose
        rows are read; None for all."""
        if (table := self._open()) is None:
            return []
        damaged: set[str] = set()
        query = table.search()
        for batch in (query.where(_of(modality)) if modality else query).limit(None).to_batches(_BATCH_ROWS):
            rows = pa.Table.from_batches([batch])
            for digest, stored, actual in zip(
                rows["digest"].to_pylist(), rows["row_hash"].to_pylist(), row_hashes(rows), strict=True
            ):
                if stored != actual:
                    damaged.add(digest)
        return sorted(damaged)

    def data_version(self, modality: str | None = None) -> str:
        """SHA-256 over the sorted digests and row hashes: equal rows give an equal version, whatever the order they
        came in. modality: whose rows; None for all."""
        if (table := self._open()) is None:
            return version_of(STORED.empty_table())
        return version_of(_columns(table, ["digest", "row_hash"], where=_of(modality)).sort_by("digest"))

    def is_sound(self) -> bool:
        """Whether the table can be read: no file of it is missing or changed."""
        try:
            self._open()
        except TableCorrupt:
            return False
        return True

    def damage(self, *, anew: bool = False) -> list[str]:
        """What is wrong with the table, a sentence each: its files, and its rows where the last writer did not end.
        anew: hash also what this process has hashed before."""
        try:
            found = self._files.problems(anew=anew)
            if not found and (table := self._open()) is not None and not self._files.is_settled:
                table.list_versions()  # reads the manifests of old versions, by which `compact` knows what to remove
                self.verify_unique()
                found = [f"the row of {digest} does not hash to what was written" for digest in self.verify()]
        except ValueError:
            return [f"{self.root / FILES} is not what was written"]
        except (TableCorrupt, ContractBroken) as error:
            return [str(error)]
        except (RuntimeError, OSError) as error:  # of Lance, which parses what a writer that died left
            if is_of_machine(error):
                raise
            return [f"the table in {self.root} cannot be read to its end"]
        return found

    def settle(self) -> None:
        """Write down the files of a table whose rows are sound and whose last writer did not end, or was of an earlier
        release; its indexes are made anew."""
        if not self._files.is_settled and (table := self._open()) is not None:
            with self._writing():
                index_anew(table)

    def drop(self) -> None:
        """Remove the table and all that is known of it; the next write begins anew."""
        with exclusive_lock(self.root / "writer.lock", what=f"the catalog {self.root}"):
            shutil.rmtree(self.root / f"{_TABLE}.lance", ignore_errors=True)
            (self.root / FILES).unlink(missing_ok=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with exclusive_lock(self.root / "writer.lock", what=f"the catalog {self.root}"):
            self._open()  # nothing is built upon a damaged table
            self._files.begin()
            yield
            self._files.finish()

    def _open(self) -> Any:
        """The newest version of the table, or None before the first write. Raises TableCorrupt where a file is not what
        was written."""
        try:
            found = self._files.problems(up_to_bytes=self.settings.hashed_on_open_bytes)
        except ValueError:
            found = [f"{self.root / FILES} is not what was written"]
        if found:
            more = f" (and {len(found) - 1} files more)" if len(found) > 1 else ""
            raise TableCorrupt(f"the catalog is damaged: {found[0]}{more}; {_REMEDY}")
        if not (self.root / f"{_TABLE}.lance").is_dir():
            return None
        try:
            return self._opened.newest()
        except (RuntimeError, OSError, ValueError) as error:
            if is_of_machine(error):
                raise
            raise TableCorrupt(f"the catalog in {self.root} cannot be opened; {_REMEDY}") from error

    def _open_to_write(self) -> Any:
        table = self._open()
        if table is None:
            table = connect(self.root).create_table(_TABLE, schema=STORED)
        # also where the first writer died between the two steps
        if _KEY_MARK not in (table.schema.field("digest").metadata or {}):
            table.set_unenforced_primary_key("digest")
        return table

    def _widened(self, rows: pa.Table) -> Any:
        """The table with room for all that the rows hold."""
        table = stored_columns.grown(self._open_to_write(), rows)
        if not stored_columns.must_retype(table, rows):
            return table
        anew = stored_columns.retyped(table, rows.schema.field(METADATA).type)
        # rows of one modality have no vector of another's encoder, which LanceDB takes for a bad one
        connect(self.root).create_table(_TABLE, data=anew, schema=anew.schema, mode="overwrite", on_bad_vectors="null")
        return self._open_to_write()


def _checked(rows: pa.Table) -> pa.Table:
    """The rows with their columns in order: those of every lake, measures, source fields, vectors."""
    if missing := [name for name in CATALOG_SCHEMA.names if name not in rows.column_names]:
        raise SchemaMismatch(f"catalog rows lack the columns {missing}; make them with `catalog.rows`")
    measures = sorted(field.name for field in rows.schema if stored_columns.is_measure(field))
    own = measures + [name for name in rows.column_names if name == METADATA]
    own += sorted(name for name in rows.column_names if is_vector(name))
    if unknown := set(rows.column_names) - set(CATALOG_SCHEMA.names) - set(own) - {"row_hash"}:
        raise SchemaMismatch(f"catalog rows have the unknown columns {sorted(unknown)}; make them with `catalog.rows`")
    if rows["digest"].null_count or pc.count_distinct(rows["digest"]).as_py() != rows.num_rows:
        raise ContractBroken(
            f"catalog rows: {rows.num_rows} rows hold {pc.count_distinct(rows['digest']).as_py()} distinct "
            f"digests and {rows['digest'].null_count} nulls; pass each digest once"
        )
    return rows.select(CATALOG_SCHEMA.names + own).cast(
        pa.schema(list(CATALOG_SCHEMA) + [rows.schema.field(name) for name in own])
    )


def _hashed(rows: pa.Table) -> pa.Table:
    return rows.append_column(STORED.field("row_hash"), pa.array(row_hashes(rows), pa.string()))


def _with_old_vectors(table: Any, rows: pa.Table) -> pa.Table:
    """The rows with what the table holds of encoders that made none of their vectors."""
    old = [name for name in table.schema.names if is_vector(name) and name not in rows.column_names]
    if not old or not rows.num_rows:
        return rows
    kept = stored_columns.sound_vectors(table, old, sorted(set(rows["modality"].to_pylist())))
    place = pc.index_in(rows["digest"], value_set=kept["digest"].combine_chunks())
    for name in old if kept.num_rows else []:
        rows = rows.append_column(name, kept[name].combine_chunks().take(place))
    return rows


def _split(rows: pa.Table, stored: pa.Table, modalities: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """(rows whose digest is new, rows that replace a stored one)."""
    place = pc.index_in(rows["digest"], value_set=stored["digest"].combine_chunks())
    new = rows.filter(pc.is_null(place))
    known, before = rows.filter(pc.is_valid(place)), stored.take(pc.drop_null(place))
    wins = []
    compared = ["modality", "status", "row_hash"]
    for row, old in zip(known.select(compared).to_pylist(), before.select(compared).to_pylist(), strict=True):
        stays = row["modality"] != old["modality"] and _preference(old, modalities) < _preference(row, modalities)
        wins.append(row["row_hash"] != old["row_hash"] and not stays)
    return new, known.filter(pa.array(wins, pa.bool_()))


def _preference(row: dict[str, Any], modalities: Sequence[str]) -> tuple[int, int]:
    name = row["modality"]  # one that no table has any more gives way
    return STATUSES.index(row["status"]), modalities.index(name) if name in modalities else len(modalities)


def _as_stored(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _columns(table: Any, columns: list[str], where: str | None = None) -> pa.Table:
    # not `to_arrow`, which asks Lance for the schema five times more, to find columns of blobs
    return _batches(table, columns, where).read_all()


def _batches(table: Any, columns: list[str], where: str | None = None) -> pa.RecordBatchReader:
    query = table.search().select(columns)
    return (query.where(where) if where else query).limit(None).to_batches()


def _among(digests: list[str]) -> str:
    return "digest IN (" + ", ".join(f"'{digest}'" for digest in digests) + ")"


def _of(modality: str | None) -> str | None:
    return None if modality is None else f"modality = '{modality}'"
