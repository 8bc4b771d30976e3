"""Stage tables: one Parquet file per (table, modality, shard) with a stamp next to it that says what made it.

    tables/<table>/<modality>/<shard>.parquet      rows
    tables/<table>/<modality>/<shard>.stamp.json   data version, inputs, settings, counts, seconds

The Parquet file is written first and its stamp last, and an old stamp goes before its Parquet file is replaced, so a
table without a stamp does not exist and a stamp never describes other rows. The data version is the SHA-256 of the
Parquet bytes and is checked on every read of the file: Parquet alone notices 5 of 200 flipped bits (`docs/tables.md`).
Corpus-level tables use the shard name `ALL`; tables over all modalities use the modality name `all`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mmlake import checked_json, schemas
from mmlake.durable import make_directory
from mmlake.errors import MmlakeError, SchemaMismatch, SettingsError, TableCorrupt
from mmlake.recent_files import RecentReads
from mmlake.records import digest_of
from mmlake.schemas.table import TableSchema
from mmlake.store import sync_directory, write_atomically
from mmlake.table_files import WrittenTable, check_key, encoded, hash_of, row_groups, together, written

ALL = "ALL"  # the shard name of a corpus-level table
_SINGLE_BYTES = 1 << 20  # a smaller table is decoded sooner than threads are woken for its columns
# A run reads each table of a small lake six times, and each stamp fifteen times: files up to this size are kept decoded
# while they stay what they were, so many bytes of them
_KEPT_BYTES = 1 << 17
_STAMP = ".stamp.json"
_SPELLED = re.compile(r"(?P<modality>[^/\[]+)/(?P<table>[^/\[]+)(?:\[(?P<shard>.*)\])?", re.DOTALL)
_MAX_NAME_BYTES = 255 - len(_STAMP)  # file systems end names at 255 bytes


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one table: which table, whose modality, which shard."""

    table: str
    modality: str
    shard: str = ALL

    def __str__(self) -> str:
        return f"{self.modality}/{self.table}" if self.shard == ALL else f"{self.modality}/{self.table}[{self.shard}]"

    @classmethod
    def parse(cls, text: str) -> Slot:
        """The slot that `str` spelled so. Raises SettingsError on a text that is none."""
        match = _SPELLED.fullmatch(text)
        if match is None:
            raise SettingsError(f"{text!r} is no slot; expected 'modality/table' or 'modality/table[shard]'")
        return cls(match["table"], match["modality"], ALL if match["shard"] is None else match["shard"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Stamp:
    """What made a table. Only `data_version` depends on the rows alone; timings never enter it."""

    data_version: str
    schema_version: int
    num_rows: int
    size_bytes: int  # of the Parquet file
    code_version: str  # of the step
    settings_digest: str  # of the settings that the step reads
    inputs: dict[str, str]  # str(slot) or another name -> data version
    counts: dict[str, int] = field(default_factory=dict)  # rows by status, and what else the step counts
    seconds: float = 0.0  # wall
    cpu_seconds: float = 0.0
    media_bytes: int = 0  # bytes of media read
    run_id: str = ""
    device: str = "cpu"  # where its model ran: cpu, or cuda and the device's number
    written_at: str = ""  # ISO 8601, UTC
    slot: str = ""  # whose it is, so that no other's is taken for it; empty in those of earlier releases


class Stopwatch:
    """The time since it was made, as fields of a stamp."""

    def __init__(self, *, of_thread: bool = False) -> None:
        """of_thread: count the processor time of this thread alone, where others make other tables."""
        self._clock = time.thread_time if of_thread else time.process_time
        self._wall, self._cpu = time.perf_counter(), self._clock()

    def fields(self, *, workers_cpu_s: float = 0.0) -> dict[str, Any]:
        """`seconds`, `cpu_seconds` and `written_at`, as of now. workers_cpu_s: what other processes spent on it."""
        wall_s, cpu_s = time.perf_counter() - self._wall, self._clock() - self._cpu + workers_cpu_s
        return {
            "seconds": round(wall_s, 4),
            "cpu_seconds": round(cpu_s, 4),
            "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }


class Tables:
    """The stage tables under one root directory."""

    def __init__(self, root: str | os.PathLike[str], *, recent: RecentReads | None = None) -> None:
        """recent: what others read of these tables, and are to read of them; None: this object's own."""
        self.root = Path(root)
        self._recent = recent or RecentReads()

    def path(self, slot: Slot) -> Path:
        """The Parquet file of the slot, which need not exist. Raises SettingsError for a name that is no path below
        the root."""
        return Path(self._file(slot, ".parquet"))

    def _file(self, slot: Slot, suffix: str) -> str:
        for part in (slot.table, slot.modality, *slot.shard.split("/")):
            is_long = len(part) > _MAX_NAME_BYTES // 4 and len(os.fsencode(part)) > _MAX_NAME_BYTES
            if is_long or part in ("", ".", "..") or "\0" in part:
                raise SettingsError(
                    f"table {str(slot)[:200]!r}: {part[:80]!r} is no file name of 1 to {_MAX_NAME_BYTES} bytes; "
                    "name the shard as `sources.shard_key` does"
                )
        return f"{self.root}/{slot.table}/{slot.modality}/{slot.shard}{suffix}"

    def write(self, slot: Slot, schema: TableSchema, table: pa.Table, **stamp: object) -> Stamp:
        """Check the rows against the schema, write them and their stamp. stamp: the fields of `Stamp` that the
        caller knows."""
        table = schemas.conform(schema, table)
        check_key(str(slot), schema, table)
        data = encoded(table)
        made = Stamp(
            data_version=digest_of(data),
            schema_version=schema.version,
            num_rows=table.num_rows,
            size_bytes=len(data),
            **stamp,  # type: ignore[arg-type]
        )
        return self._stamped(slot, made, partial(write_atomically, data=data))

    @contextmanager
    def written(self, slot: Slot, schema: TableSchema, parts: Iterable[pa.Table]) -> Iterator[WrittenTable]:
        """The rows on the disk, before `name` makes them the slot's table: what is checked of them is read there. Gone
        with the context otherwise. parts: in the order of the key. Raises SchemaMismatch."""
        path = self.path(slot)
        make_directory(path.parent)
        with written(path.parent, schema, parts, str(slot)) as table:
            yield table

    def name(self, slot: Slot, schema: TableSchema, table: WrittenTable, **stamp: object) -> Stamp:
        """Let what was written be the slot's table, and stamp it. stamp: as for `write`."""
        made = Stamp(
            data_version=table.data_version,
            schema_version=schema.version,
            num_rows=table.num_rows,
            size_bytes=table.size_bytes,
            **stamp,  # type: ignore[arg-type]
        )
        return self._stamped(slot, made, partial(write_atomically, data=table.blocks()))

    def _stamped(self, slot: Slot, made: Stamp, put: Callable[[Path], None]) -> Stamp:
        """Put the rows in place, and their stamp behind them."""
        path = self.path(slot)
        if self._promised(slot) != made.data_version:
            # Else a writer killed between the two files leaves an old stamp next to new rows, and the step that made
            # them counts as done permanently.
            _unlink(_stamp_path(path))
        self._recent.tables.forget(os.fspath(path))
        put(path)
        return self.mark(slot, made)

    def stamp(self, slot: Slot) -> Stamp | None:
        """The stamp of the slot, or None where the table was never finished. Raises TableCorrupt where it cannot be
        read as a stamp."""
        path = self._file(slot, _STAMP)  # a run asks for thousands: no Path is made of it

        def parsed() -> tuple[Stamp, int]:
            with open(path, "rb") as file:
                data = file.read()
            return Stamp(**checked_json.loads(data)), len(data)

        try:
            stamp: Stamp = self._recent.stamps.read(path, parsed)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise TableCorrupt(
                f"the stamp of table {slot} is damaged or from another release; delete {path} and re-materialize "
                "the table"
            ) from error
        if stamp.slot not in ("", str(slot)):
            raise TableCorrupt(
                f"the stamp of table {slot} is that of {stamp.slot}; delete {path} and re-materialize the table"
            )
        return stamp

    def has(self, table: str, modality: str, shard: str = ALL) -> bool:
        """Whether the table was made and finished."""
        return os.path.exists(self._file(Slot(table, modality, shard), _STAMP))

    def mark(self, slot: Slot, stamp: Stamp) -> Stamp:
        """Record the stamp of something that is not a Parquet file (the catalog, a manifest, training shards) in the
        slot's place."""
        stamp, path = replace(stamp, slot=str(slot)), _stamp_path(self.path(slot))
        self._recent.stamps.forget(os.fspath(path))
        write_atomically(path, checked_json.dumps(asdict(stamp)))
        return stamp

    def read(self, slot: Slot, *, columns: list[str] | None = None, keep: bool = True) -> pa.Table:
        """The rows. Raises MmlakeError where the table was never made, TableCorrupt where its bytes changed.

        keep: decode all columns of a small table and keep them for who asks next; a pass over all shards that nothing
        follows decodes those that it asks for."""
        stamp = self._required(slot)
        with self._there(slot):
            if keep and stamp.size_bytes <= _KEPT_BYTES:
                kept = self._small(slot, stamp)
                return kept.select(_wanted(kept.column_names, columns, slot, stamp))
            data = self._bytes(slot, stamp)
            if (kept := self._recent.decoded.get(stamp.data_version)) is not None:
                return kept.select(_wanted(kept.column_names, columns, slot, stamp))
            file = _parquet(data)
        names = _wanted(file.schema_arrow.names, columns, slot, stamp)
        return file.read(columns=names, use_threads=stamp.size_bytes > _SINGLE_BYTES)

    def parts(
        self, slot: Slot, *, columns: list[str] | None = None, holding: tuple[str, str] | None = None
    ) -> Iterator[pa.Table]:
        """The same rows, in their order, as many at a time as a row group has; at least one table, which may have none.
        Raises as `read` does, before the first. holding: (column, value); rows far from that value may be left out."""
        stamp = self._required(slot)
        if stamp.size_bytes <= _KEPT_BYTES:
            yield self.read(slot, columns=columns)
            return
        # by the handle that was hashed: a table that is made meanwhile is another file
        with self._there(slot), pa.OSFile(os.fspath(self.path(slot))) as source:
            if hash_of(source) != stamp.data_version:
                raise self._corrupt(slot, stamp)
            source.seek(0)
            file = _parquet(source)
            names = _wanted(file.schema_arrow.names, columns, slot, stamp)
            yield from row_groups(file, names, holding=holding, use_threads=stamp.size_bytes > _SINGLE_BYTES)

    def _required(self, slot: Slot) -> Stamp:
        """The stamp. Raises MmlakeError where the table was never made."""
        stamp = self.stamp(slot)
        if stamp is None:
            raise MmlakeError(f"table {slot} has not been made in {self.root}; materialize it first")
        return stamp

    @contextmanager
    def _there(self, slot: Slot) -> Iterator[None]:
        """A file that is missing is a damaged table."""
        try:
            yield
        except FileNotFoundError as error:
            raise TableCorrupt(
                f"table {slot} in {self.root} has a stamp but no rows; delete {_stamp_path(self.path(slot))} and "
                "re-materialize it"
            ) from error

    def _corrupt(self, slot: Slot, stamp: Stamp) -> TableCorrupt:
        return TableCorrupt(
            f"table {slot} in {self.root} does not hash to its stamp {stamp.data_version[:12]}; delete "
            f"{_stamp_path(self.path(slot))} and re-materialize it"
        )

    def stamps(self, table: str, modality: str) -> dict[Slot, Stamp]:
        """The stamps of every shard that has this table, in order of the shard's name."""
        slots = [Slot(table, modality, shard) for shard in self.shards(table, modality)]
        return {slot: stamp for slot in slots if (stamp := self.stamp(slot)) is not None}

    def shards(self, table: str, modality: str) -> list[str]:
        """The shards that have this table, sorted."""
        return sorted(_stamped(f"{self.root}/{table}/{modality}"))

    def modalities(self, table: str) -> list[str]:
        """The modalities that have a table of that name, sorted."""
        base = self.root / table
        return sorted(path.name for path in base.iterdir() if path.is_dir()) if base.is_dir() else []

    def scan(self, table: str, modality: str, *, columns: list[str] | None = None) -> Iterator[tuple[str, pa.Table]]:
        """(shard, rows) of every shard of a row table, in order of the shard's name, one in memory at a time."""
        for shard in self.shards(table, modality):
            yield shard, self.read(Slot(table, modality, shard), columns=columns)

    def scan_parts(self, table: str, modality: str, *, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """The rows of every shard in the same order, a row group of one in memory at a time, or small tables as one."""
        slots = (Slot(table, modality, shard) for shard in self.shards(table, modality))
        return together(part for slot in slots for part in self.parts(slot, columns=columns))

    def concat(self, table: str, modality: str, *, columns: list[str] | None = None) -> pa.Table:
        """The rows of all shards in one table; meant for narrow columns. Raises SchemaMismatch where a shard's table is
        of an older schema: what was made of a shard that is gone is not made again."""
        names = columns or schemas.TABLES[table].arrow.names
        parts = [part for _, part in self.scan(table, modality, columns=names)]
        return pa.concat_tables(parts) if parts else schemas.TABLES[table].arrow.empty_table().select(names)

    def remove(self, slot: Slot) -> None:
        """Forget the table: stamp first, so that a half-removed table does not exist."""
        self.retract(slot)
        _unlink(self.path(slot))

    def retract(self, slot: Slot) -> None:
        """Remove the stamp: the table does not exist, whatever rows lie there."""
        path = _stamp_path(self.path(slot))
        self._recent.stamps.forget(os.fspath(path))
        _unlink(path)

    def _small(self, slot: Slot, stamp: Stamp) -> pa.Table:
        """All columns, as kept in memory or read. Raises FileNotFoundError, TableCorrupt."""
        path = os.fspath(self.path(slot))

        def whole() -> tuple[tuple[str, pa.Table], int]:
            data = self._bytes(slot, stamp)
            if (table := self._recent.decoded.get(stamp.data_version)) is None:
                table = _parquet(data).read(use_threads=False)
                self._recent.decoded.keep(stamp.data_version, table, table.nbytes)
            return (stamp.data_version, table), table.nbytes

        version, table = self._recent.tables.read(path, whole)
        if version != stamp.data_version:  # the rows are the same, and the stamp is that of others
            self._recent.tables.forget(path)
            version, table = self._recent.tables.read(path, whole)
        return table

    def _bytes(self, slot: Slot, stamp: Stamp) -> pa.Buffer:
        """The table's bytes, which are those that the stamp promises. Raises FileNotFoundError, TableCorrupt."""
        path = self.path(slot)
        # Into Arrow's own memory: its threads let go of it a moment after the call has returned, and what is Python's
        # would make them wait for an interpreter that may be ending, which aborts the process.
        with pa.OSFile(os.fspath(path)) as source:
            data = source.read_buffer()
        if digest_of(data) != stamp.data_version:
            raise self._corrupt(slot, stamp)
        return data

    def _promised(self, slot: Slot) -> str | None:
        """The data version in the slot's stamp; None where there is none or it cannot be read."""
        try:
            stamp = self.stamp(slot)
        except TableCorrupt:
            return None
        return None if stamp is None else stamp.data_version


def _parquet(data: pa.Buffer | pa.NativeFile) -> pq.ParquetFile:
    source = pa.BufferReader(data) if isinstance(data, pa.Buffer) else data
    return pq.ParquetFile(source, page_checksum_verification=True)


def _wanted(names: list[str], columns: list[str] | None, slot: Slot, stamp: Stamp) -> list[str]:
    """The columns that are asked for, of these. Raises SchemaMismatch where one is not there."""
    if columns is None:
        return names
    if absent := sorted(set(columns) - set(names)):
        raise SchemaMismatch(
            f"table {slot} has no columns {absent} (schema v{stamp.schema_version}); re-materialize it with this "
            "release, for which a shard that is gone has to be landed again"
        )
    return columns


def joint_version(stamps: Mapping[Slot, Stamp]) -> str:
    """The one data version that stands for the tables of all shards: SHA-256 of the lines `shard=data version`, in
    the order given."""
    return digest_of("\n".join(f"{slot.shard}={stamp.data_version}" for slot, stamp in stamps.items()).encode())


def _stamped(base: str, within: str = "") -> Iterator[str]:
    """The names of all stamps below the folder, as those of shards."""
    try:
        with os.scandir(f"{base}/{within}") as entries:
            found = list(entries)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    for entry in found:
        if entry.name.endswith(_STAMP):
            yield within + entry.name.removesuffix(_STAMP)
        if entry.is_dir(follow_symlinks=False):
            yield from _stamped(base, f"{within}{entry.name}/")


def _stamp_path(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".parquet") + _STAMP)


def _unlink(path: Path) -> None:
    """Delete the file, if it is there, before anything that comes after."""
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return
    sync_directory(path.parent)
