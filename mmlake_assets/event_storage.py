"""Dagster's events in SQLite without a new connection for each: one open connection per database, one transaction per
batch.

The files are those of Dagster's own storage, so either can read what the other wrote. SqliteEventLogStorage opens a
connection, inspects the schema and syncs for every event (5.8 ms of CPU each, and a batch is a loop). Private parts of
dagster 1.13 that this relies on are overridden here alone; tests/graph/test_event_storage.py holds them.
"""

import os
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as db
from dagster import AssetKey, EventLogEntry, EventLogRecord
from dagster._config import StringSource
from dagster._core.event_api import EventHandlerFn
from dagster._core.events import (
    ASSET_CHECK_EVENTS,
    ASSET_EVENTS,
    EVENT_TYPE_TO_PIPELINE_RUN_STATUS,
    DagsterEventType,
)
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.event_log.base import AssetRecord
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME, SqliteEventLogStorageWatchdog
from dagster._core.storage.sql import create_engine
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS, create_db_conn_string
from dagster._serdes import ConfigurableClassData, deserialize_value
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import NullPool, QueuePool
from watchdog.events import FileSystemEvent
from watchdog.observers import Observer

from mmlake_assets.kept_answers import KeptAnswers

# Open at once, the index included: the web server reads the databases of many runs, each of which is three files.
_MAX_OPEN = 8
_MAX_ASKED = 100  # assets or partitions in one question whose answer is kept: a step asks for no more
_NO_ASSET = ""  # the subject of what no event of an asset changes
_SEEN_S = 0.25  # seconds after which an event that was written is seen by readers, on a busy machine too
_EMPTY = "empty"
_databases: dict[str, bytes] = {}  # the one that is copied for each run
_FINAL = {DagsterEventType.RUN_SUCCESS, DagsterEventType.RUN_FAILURE, DagsterEventType.RUN_CANCELED}
_INSERT = SqlEventLogStorageTable.insert()  # one statement for all events: SQLAlchemy compiles what it has not seen
_INSERT_AND_RETURN = _INSERT.returning(SqlEventLogStorageTable.c.id, sort_by_parameter_order=True)
_T = TypeVar("_T")


class PooledEventLogStorage(SqliteEventLogStorage):
    """SqliteEventLogStorage that keeps its connections. Named in the dagster.yaml of a lake.

    A commit is synced to the disk at the next checkpoint (`synchronous=NORMAL`): at a loss of power the last events may
    be lost, never the database. What was made is in the stamps of the tables, which are synced.
    """

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        """base_dir: of the databases."""
        self._lock = threading.RLock()
        self._engines: OrderedDict[str, Engine] = OrderedDict()
        self._joined: dict[str, Connection] = {}  # of the thread that holds the lock
        self._owner = os.getpid()
        # of the index; what was once there stays
        self._answers = KeptAnswers()  # of the index
        self._known_tables, self._known_columns, self._known_marks = set[str](), set[str](), set[str]()
        super().__init__(base_dir, inst_data)

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        """Dagster's home: the databases are where its own storage keeps them below it."""
        return {"home": StringSource}

    @classmethod
    def from_config_value(  # type: ignore[override]  # our configuration is not that of the base
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, str]
    ) -> "PooledEventLogStorage":
        """The storage of a dagster.yaml."""
        return cls(str(Path(config_value["home"]) / "history" / "runs"), inst_data)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        """A connection in a transaction, which ends with the block. Within the block of the same thread and database,
        it is the same transaction."""
        with self._lock:
            if (outer := self._joined.get(shard)) is not None and self._owner == os.getpid():
                yield outer
                return
            with self._engine(shard).connect() as connection, connection.begin():
                self._joined[shard] = connection
                try:
                    yield connection
                finally:
                    self._joined.pop(shard, None)

    def _engine(self, shard: str) -> Engine:
        if self._owner != os.getpid():  # SQLite loses its locks where a connection crosses a fork
            for engine in self._engines.values():
                engine.dispose(close=False)
            self._engines.clear()
            self._joined.clear()
            self._owner = os.getpid()
        found = self._engines.get(shard) or self._new_engine(shard)
        self._engines[shard] = found
        self._engines.move_to_end(shard)
        for name in [name for name in self._engines if name != INDEX_SHARD_NAME and name not in self._joined]:
            if len(self._engines) <= _MAX_OPEN or name == shard:
                break
            self._let_go(name)
        return found

    def _new_engine(self, shard: str) -> Engine:
        place, timeout = self.conn_string_for_shard(shard), {"timeout": SQLITE_BUSY_TIMEOUT_SECONDS}
        if shard not in self._initialized_dbs:
            if not self._laid(shard):
                self._initdb(create_engine(place, poolclass=NullPool, connect_args=timeout))  # it wants two connections
            self._initialized_dbs.add(shard)
        # one thread at a time, which the lock sees to
        unchecked = {**timeout, "check_same_thread": False}
        engine = create_engine(place, poolclass=QueuePool, pool_size=1, max_overflow=0, connect_args=unchecked)
        db.event.listen(engine, "connect", _relax)
        return engine

    def _laid(self, shard: str) -> bool:
        """Whether the database was not there, and now is, empty."""
        path = Path(self.path_for_shard(shard))
        if path.exists():
            return False
        new = path.with_name(f".{path.stem}.{os.getpid()}")
        new.write_bytes(self._empty())
        try:
            os.link(new, path)  # whole or not at all, and never over what another process has begun
        except OSError:  # it is there by now, or the file system has no links
            return False
        finally:
            new.unlink()
        return True

    def _empty(self) -> bytes:
        """A database of a run without events, as Dagster makes it: 0.1 s of its migrations, once a process."""
        if _EMPTY not in _databases:
            with tempfile.TemporaryDirectory(prefix="mmlake-events-") as directory:
                self._initdb(create_engine(create_db_conn_string(directory, _EMPTY), poolclass=NullPool))
                _databases[_EMPTY] = Path(directory, f"{_EMPTY}.db").read_bytes()
        return _databases[_EMPTY]

    def _let_go(self, shard: str) -> None:
        if (engine := self._engines.pop(shard, None)) is not None:
            engine.dispose()

    def has_table(self, table_name: str) -> bool:
        """Whether the index has the table, which no table leaves."""
        if table_name not in self._known_tables and super().has_table(table_name):
            self._known_tables.add(table_name)
        return table_name in self._known_tables

    def _has_asset_key_col_on_connection(self, conn: Connection, column_name: str) -> bool:
        if column_name not in self._known_columns and super()._has_asset_key_col_on_connection(conn, column_name):
            self._known_columns.add(column_name)
        return column_name in self._known_columns

    def has_asset_key_col(self, column_name: str) -> bool:
        """Whether the table of assets has the column."""
        return column_name in self._known_columns or super().has_asset_key_col(column_name)

    def has_secondary_index(self, name: str) -> bool:
        """Whether the migration of that name was completed."""
        if name not in self._known_marks and super().has_secondary_index(name):
            self._known_marks.add(name)
        return name in self._known_marks

    def _get_latest_materialization_records(self, raw_asset_rows: Any) -> Mapping[AssetKey, EventLogRecord | None]:
        """Dagster's own asks the database for what the rows lack, also where they lack nothing, which each step of a
        run asks."""
        found: dict[AssetKey, EventLogRecord | None] = {}
        lacking = []
        for row in raw_asset_rows:
            text = row["last_materialization"]
            record = deserialize_value(text) if text and not row["asset_details"] else None
            key = AssetKey.from_db_string(row["asset_key"])
            if key is not None and isinstance(record, EventLogRecord):
                found[key] = record
            else:
                lacking.append(row)
        return {**found, **super()._get_latest_materialization_records(lacking)} if lacking else found

    def _answer(self, subject: str, question: Hashable, ask: Callable[[], _T]) -> _T:
        with self.index_connection() as index:
            return self._answers.answer(_sqlite(index), subject, question, ask)

    @contextmanager
    def _changing(self, index: Connection, assets: Collection[str]) -> Iterator[None]:
        """A block that stores events of these assets, and leaves what is known of others."""
        with self._answers.sparing(_sqlite(index), assets):
            yield

    def get_asset_records(self, asset_keys: Sequence[AssetKey] | None = None) -> Sequence[AssetRecord]:
        """The records of the assets; each step of a run asks for those of its inputs, most of which others read as
        well."""
        if asset_keys is None or len(asset_keys) > _MAX_ASKED:
            return super().get_asset_records(asset_keys)
        keys = {key.to_string(): key for key in asset_keys}
        read = super().get_asset_records

        def ask(names: list[str]) -> Mapping[str, AssetRecord | None]:
            found = {
                record.asset_entry.asset_key.to_string(): record for record in read([keys[name] for name in names])
            }
            return {name: found.get(name) for name in names}

        with self.index_connection() as index:
            found = self._answers.answers(_sqlite(index), keys, "record", ask)
        return [record for name in keys if (record := found[name]) is not None]

    def get_latest_tags_by_partition(
        self,
        asset_key: AssetKey,
        event_type: DagsterEventType,
        tag_keys: Sequence[str],
        asset_partitions: Sequence[str] | None = None,
        before_cursor: int | None = None,
        after_cursor: int | None = None,
    ) -> Mapping[str, Mapping[str, str]]:
        """The tags of the latest event of each partition, which each step asks of its inputs."""
        given = (asset_key, event_type, tag_keys, asset_partitions, before_cursor, after_cursor)
        ask = super().get_latest_tags_by_partition
        if asset_partitions is None or len(asset_partitions) > _MAX_ASKED:
            return ask(*given)
        question = (event_type, tuple(tag_keys), tuple(asset_partitions), before_cursor, after_cursor)
        return self._answer(asset_key.to_string(), question, lambda: ask(*given))

    def has_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> bool:
        """Whether the partition is registered."""
        ask = super().has_dynamic_partition
        question = ("partition", partitions_def_name, partition_key)
        return self._answer(_NO_ASSET, question, lambda: ask(partitions_def_name, partition_key))

    def store_event(self, event: EventLogEntry) -> None:
        """Store one event; the last one of a run closes its database."""
        if event.is_dagster_event and event.dagster_event_type in EVENT_TYPE_TO_PIPELINE_RUN_STATUS:
            with self.index_connection() as index, self._changing(index, ()):  # it is mirrored there
                super().store_event(event)
        else:
            self._store(event.run_id, [event])
        if event.is_dagster_event and event.dagster_event_type in _FINAL:
            with self._lock:
                self._let_go(event.run_id)

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store the events in the run's database and in the index, all or none of them."""
        of_run: dict[str, list[EventLogEntry]] = {}
        for event in events:
            of_run.setdefault(event.run_id, []).append(event)
        for run_id, its_events in of_run.items():
            self._store(run_id, its_events)

    def _store(self, run_id: str, events: Sequence[EventLogEntry]) -> None:
        """Store the events of one run in its database and those on assets and checks in the index, all or none."""
        rows = [self._event_to_row(event) for event in events]
        kinds = ASSET_EVENTS | ASSET_CHECK_EVENTS
        copied = [at for at, event in enumerate(events) if event.dagster_event_type in kinds]
        # Both transactions are open until both are complete: Dagster stores the events of a batch that failed one by
        # one.
        with self.run_connection(run_id) as of_shard, ExitStack() as stack:
            index = stack.enter_context(self.index_connection()) if copied else None
            of_shard.execute(_INSERT, rows)
            if index is not None:
                self._index(index, [events[at] for at in copied], [rows[at] for at in copied])

    def _index(self, index: Connection, events: Sequence[EventLogEntry], rows: Sequence[dict[str, Any]]) -> None:
        """Copy these events on assets and checks to the database that is searched across runs."""
        with self._changing(index, {_asset_of(event) for event in events}):
            self._index_spared(index, events, rows)

    def _index_spared(self, index: Connection, events: Sequence[EventLogEntry], rows: Sequence[dict[str, Any]]) -> None:
        ids = index.execute(_INSERT_AND_RETURN, rows).scalars().all()
        of_assets: list[tuple[EventLogEntry, int]] = []
        for event, event_id in zip(events, ids, strict=True):
            if event.dagster_event_type in ASSET_CHECK_EVENTS:
                self.store_asset_check_event(event, event_id)  # joins this transaction
            else:
                of_assets.append((event, event_id))
        if of_assets:
            self._store_asset_event_tags(index, *zip(*of_assets, strict=True))
        # of an asset, the last event of each type says what all of them do
        last = {(_asset_of(event), event.dagster_event_type): (event, event_id) for event, event_id in of_assets}
        for event, event_id in last.values():
            self._store_asset_event(index, event, event_id)

    def watch(self, run_id: str, cursor: str | None, callback: EventHandlerFn) -> None:
        """Call back with each new event of the run, in the order in which they were stored."""
        observer: Any = self._obs
        if not observer:
            observer = self._obs = Observer()  # type: ignore[assignment]
            observer.start()
        watcher = _Watcher(self, run_id, callback, cursor)
        self._watchers[run_id][callback] = (watcher, observer.schedule(watcher, self._base_dir, recursive=True))

    def wipe(self) -> None:
        """Delete all events."""
        self._close()
        super().wipe()

    def dispose(self) -> None:
        """Close what is open; it opens again when it is needed."""
        self._close()
        super().dispose()

    def _close(self) -> None:
        with self._lock:
            for shard in list(self._engines):
                self._let_go(shard)


class _Watcher(SqliteEventLogStorageWatchdog):
    """Dagster's own, which waits until the run's database changes. While a connection stays open, events lie in the log
    next to it: the page of a run showed nothing of what it did.

    SQLite writes an event into that log first and lets readers see it a moment later, which changes no file: whoever
    reads at once may find nothing, and nothing else announces it. So after each change the file is read twice.
    """

    def __init__(self, storage: PooledEventLogStorage, run_id: str, callback: EventHandlerFn, cursor: str | None):
        super().__init__(storage, run_id, callback, cursor)
        self._patterns = [self._log_path, f"{self._log_path}-wal"]

    def on_modified(self, event: FileSystemEvent) -> None:
        self._process_log()
        time.sleep(_SEEN_S)
        self._process_log()


def _asset_of(event: EventLogEntry) -> str:
    """The asset that the event is about."""
    found = event.get_dagster_event().asset_key
    return found.to_string() if found is not None else ""


def _sqlite(connection: Connection) -> Any:
    """The connection of the standard library below SQLAlchemy's."""
    return connection.connection.dbapi_connection


def _relax(connection: Any, record: object) -> None:
    connection.execute("PRAGMA synchronous=NORMAL")
