"""The event storage of a lake: what it stores, in how many connections, and that Dagster's own can read it."""

from __future__ import annotations

import os
import queue
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import dagster as dg
import pytest
import sqlalchemy as db
from dagster import EventLogEntry
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluation,
    AssetCheckEvaluationPlanned,
    AssetCheckEvaluationTargetMaterializationData,
)
from dagster._core.events import (
    AssetMaterializationPlannedData,
    DagsterEvent,
    DagsterEventType,
    StepMaterializationData,
)
from dagster._core.execution.plan.objects import StepSuccessData
from dagster._core.storage.event_log import SqliteEventLogStorage
from watchdog.events import FileModifiedEvent

from mmlake.errors import SettingsError
from mmlake_assets.event_storage import PooledEventLogStorage, _Watcher
from mmlake_assets.instance import EVENT_BATCHES, dagster_home

KEY = dg.AssetKey(["text", "items"])
TABLES = {
    "event_logs": "run_id, event, dagster_event_type, timestamp, step_key, asset_key, partition",
    "asset_keys": "asset_key, last_run_id, last_materialization",
    "asset_event_tags": "event_id, asset_key, key, value",
    "asset_check_executions": "asset_key, check_name, run_id, execution_status, evaluation_event_storage_id",
}


def _entry(kind: DagsterEventType, data: object, *, run: str = "run-a", at: float = 1.0) -> EventLogEntry:
    event = DagsterEvent(event_type_value=kind.value, job_name="job", event_specific_data=data, step_key="step")
    return EventLogEntry(None, 20, "", run, at, job_name="job", dagster_event=event, step_key="step")


def _made(partition: str, *, run: str = "run-a", at: float = 1.0) -> EventLogEntry:
    materialization = dg.AssetMaterialization(KEY, partition=partition, tags={"dagster/data_version": partition})
    return _entry(DagsterEventType.ASSET_MATERIALIZATION, StepMaterializationData(materialization), run=run, at=at)


def _planned(partition: str) -> EventLogEntry:
    return _entry(
        DagsterEventType.ASSET_MATERIALIZATION_PLANNED, AssetMaterializationPlannedData(KEY, partition=partition)
    )


def _check_planned() -> EventLogEntry:
    return _entry(
        DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED, AssetCheckEvaluationPlanned(asset_key=KEY, check_name="check")
    )


def _checked() -> EventLogEntry:
    target = AssetCheckEvaluationTargetMaterializationData(storage_id=1, run_id="run-a", timestamp=2.0)
    return _entry(
        DagsterEventType.ASSET_CHECK_EVALUATION,
        AssetCheckEvaluation(
            asset_key=KEY, check_name="check", passed=True, metadata={}, target_materialization_data=target
        ),
    )


def _rows(base: Path, database: str) -> dict[str, list[tuple]]:
    with closing(sqlite3.connect(base / f"{database}.db")) as connection:
        return {
            name: connection.execute(f"select {columns} from {name} order by rowid").fetchall()
            for name, columns in TABLES.items()
        }


@pytest.fixture
def storage(tmp_path: Path) -> PooledEventLogStorage:
    made = PooledEventLogStorage(str(tmp_path / "pooled"))
    yield made
    made.dispose()


def test_a_batch_leaves_the_rows_that_dagsters_own_storage_leaves(storage, tmp_path: Path) -> None:
    """The same files with the same rows, so that a lake may go from either storage to the other."""
    events = [_planned("a"), _check_planned(), _planned("b"), _made("a", at=2.0), _made("b", at=3.0)]
    own = SqliteEventLogStorage(str(tmp_path / "own"))
    storage.store_event_batch(events)
    own.store_event_batch(events)
    storage.dispose()
    for database in ("index", "run-a"):
        assert _rows(tmp_path / "pooled", database) == _rows(tmp_path / "own", database), database


def test_events_one_by_one_leave_the_rows_that_dagsters_own_storage_leaves(storage, tmp_path: Path) -> None:
    """What is on assets and checks, what is on steps and runs, and a message of a logger."""
    message = EventLogEntry(None, 20, "a message", "run-a", 1.0, job_name="job", step_key="step")
    events = [
        _entry(DagsterEventType.RUN_START, None),
        *(_planned("a"), _check_planned(), message, _entry(DagsterEventType.STEP_START, None)),
        *(_made("a", at=2.0), _checked(), _entry(DagsterEventType.STEP_SUCCESS, StepSuccessData(1.0))),
        _entry(DagsterEventType.RUN_SUCCESS, None),
    ]
    own = SqliteEventLogStorage(str(tmp_path / "own"))
    for event in events:
        storage.store_event(event)
        own.store_event(event)
    storage.dispose()
    for database, num_events in (("index", 6), ("run-a", 9)):
        found = _rows(tmp_path / "pooled", database)
        assert found == _rows(tmp_path / "own", database) and len(found["event_logs"]) == num_events, database


def test_records_of_assets_are_those_of_dagsters_own_storage_for_one_query(storage, tmp_path: Path) -> None:
    """Each step of a run asks for those of its inputs: six further queries asked what the schema is, and for what no
    record lacks."""
    own = SqliteEventLogStorage(str(tmp_path / "pooled"))
    storage.store_event_batch([_made("a"), _made("b", at=2.0)])
    assert storage.get_asset_records([KEY]) == own.get_asset_records([KEY])
    storage.store_event(_made("b", at=3.0))  # what was asked before is known until then
    queries: list[str] = []
    db.event.listen(storage._engine("index"), "before_cursor_execute", lambda *given: queries.append(given[2]))
    [record] = storage.get_asset_records([KEY])
    assert record.asset_entry.last_materialization.asset_materialization.partition == "b"
    assert len(queries) == 1, queries


def test_the_record_of_a_wiped_asset_is_that_of_dagsters_own_storage(storage, tmp_path: Path) -> None:
    own = SqliteEventLogStorage(str(tmp_path / "pooled"))
    storage.store_event(_made("a"))
    storage.wipe_asset(KEY)
    assert storage.get_asset_records([KEY]) == own.get_asset_records([KEY]) == []
    storage.store_event(_planned("a"))
    assert storage.get_asset_records([KEY]) == own.get_asset_records([KEY])
    storage.store_event(_made("c", at=4e9))
    records = storage.get_asset_records([KEY])
    assert records == own.get_asset_records([KEY])
    assert [record.asset_entry.last_materialization.asset_materialization.partition for record in records] == ["c"]


def test_the_database_of_every_run_is_as_dagster_makes_it(storage, tmp_path: Path) -> None:
    """Each is a copy of one that Dagster made; a file that another process has begun is left to Dagster."""
    own = SqliteEventLogStorage(str(tmp_path / "own"))
    (tmp_path / "pooled" / "run-c.db").touch()
    for run in ("run-a", "run-b", "run-c"):
        for one in (storage, own):
            one.store_event(_made("a", run=run))
    storage.dispose()
    for run in ("run-a", "run-b", "run-c"):
        found, expected = (_form(tmp_path / name / f"{run}.db") for name in ("pooled", "own"))
        assert found == expected and found["tables"], run
    assert sorted(path.suffix for path in (tmp_path / "pooled").iterdir()) == [".db"] * 4


def _form(path: Path) -> dict[str, list[tuple]]:
    with closing(sqlite3.connect(path)) as connection:
        asked = {
            "tables": "select type, name, sql from sqlite_master order by name",
            "revision": "select * from alembic_version",
            "mode": "pragma journal_mode",
            "events": "select partition from event_logs",
        }
        return {name: connection.execute(query).fetchall() for name, query in asked.items()}


def test_either_storage_reads_and_continues_what_the_other_wrote(storage, tmp_path: Path) -> None:
    storage.store_event_batch([_made("a"), _made("b")])
    own = SqliteEventLogStorage(str(tmp_path / "pooled"))
    own.store_event(_made("c"))
    storage.store_event(_made("d"))
    for one in (own, storage):
        assert [entry.dagster_event.partition for entry in one.get_logs_for_run("run-a")] == ["a", "b", "c", "d"]
        assert set(one.get_materialized_partitions(KEY)) == {"a", "b", "c", "d"}


def test_a_batch_of_which_one_part_fails_is_not_stored_at_all(storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster stores the events of a batch that failed one by one; a half of it would then be there twice."""
    storage.store_event(_made("a"))
    monkeypatch.setattr(storage, "_store_asset_event", _broken)
    with pytest.raises(OSError, match="disk"):
        storage.store_event_batch([_made("b"), _made("c")])
    monkeypatch.undo()
    assert [entry.dagster_event.partition for entry in storage.get_logs_for_run("run-a")] == ["a"]
    assert set(storage.get_materialized_partitions(KEY)) == {"a"}


def test_events_are_passed_on_while_the_run_that_stores_them_keeps_its_connection(storage) -> None:
    """They were passed on at the end of the run at the earliest: the page of a run streams them."""
    reader = PooledEventLogStorage(storage._base_dir)
    seen: queue.Queue[str | None] = queue.Queue()

    def keep(entry: EventLogEntry, cursor: str) -> None:
        seen.put(entry.dagster_event.partition)

    storage.store_event(_made("a"))
    cursor = reader.get_records_for_run("run-a").cursor
    reader.watch("run-a", cursor, keep)
    storage.store_event(_made("b"))
    storage.store_event(_made("c"))
    assert [seen.get(timeout=20), seen.get(timeout=20)] == ["b", "c"]
    reader.end_watch("run-a", keep)
    reader.dispose()


def test_an_event_that_readers_see_a_moment_after_the_file_changed_is_passed_on(storage, monkeypatch) -> None:
    """SQLite writes it into the log first; the change of the file that says so is the last one."""
    storage.store_event(_made("a"))
    cursor = storage.get_records_for_run("run-a").cursor
    nothing_yet = storage.get_records_for_run("run-a", cursor)
    storage.store_event(_made("b"))
    reads = iter([nothing_yet, storage.get_records_for_run("run-a", cursor)])
    monkeypatch.setattr(storage, "get_records_for_run", lambda *_: next(reads))
    seen: list[str | None] = []
    watcher = _Watcher(storage, "run-a", lambda entry, _: seen.append(entry.dagster_event.partition), cursor)
    watcher.on_modified(FileModifiedEvent(watcher._log_path))
    assert seen == ["b"]


def _broken(*_: object) -> None:
    raise OSError("disk")


def _open_files(base: Path) -> set[str]:
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return {Path(os.readlink(link)).name for link in links if os.path.exists(link) and str(base) in os.readlink(link)}


@pytest.mark.skipif(sys.platform != "linux", reason="open files are counted in /proc")
def test_the_last_event_of_a_run_closes_its_database_and_few_are_open_at_once(storage, tmp_path: Path) -> None:
    base = tmp_path / "pooled"
    storage.store_event(_made("a"))
    assert "run-a.db" in _open_files(base)
    storage.store_event(_entry(DagsterEventType.RUN_SUCCESS, None))
    assert {name for name in _open_files(base) if name.startswith("run-a")} == set()
    for number in range(20):
        storage.store_event(_made("a", run=f"run-{number}"))
    assert len({name for name in _open_files(base) if name.endswith(".db")}) == 8
    assert "index.db" in _open_files(base)
    storage.dispose()
    assert _open_files(base) == set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_process_that_was_forked_uses_connections_of_its_own(storage) -> None:
    """SQLite loses its locks, and then rows, where two processes share a connection."""
    storage.store_event(_made("parent-1"))
    before = dict(storage._engines)
    if (child := os.fork()) == 0:
        code = 1
        try:
            storage.store_event(_made("child"))
            code = int(any(storage._engines[name] is engine for name, engine in before.items()))
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    storage.store_event(_made("parent-2"))
    found = [entry.dagster_event.partition for entry in storage.get_logs_for_run("run-a")]
    assert found == ["parent-1", "child", "parent-2"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_processes_that_write_at_once_lose_nothing(storage, tmp_path: Path) -> None:
    writers = [os.fork() or _write(str(tmp_path / "pooled"), run=f"run-{number}") for number in range(3)]
    assert [os.waitpid(writer, 0)[1] for writer in writers] == [0, 0, 0]
    assert len(storage.get_materialized_partitions(KEY)) == 3 * 40 * 5


def _write(base: str, *, run: str) -> NoReturn:
    """In a process of its own: forty batches of five, with a storage that was made there."""
    code = 1
    try:
        own = PooledEventLogStorage(base)
        for number in range(40):
            own.store_event_batch([_made(f"{run}-{number}-{one}", run=run) for one in range(5)])
        own.dispose()
        code = 0
    finally:
        os._exit(code)


def test_a_lake_keeps_its_events_in_it_in_batches_and_a_file_that_somebody_changed_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = dagster_home(tmp_path)
    for name, value in {"DAGSTER_HOME": str(home), **EVENT_BATCHES}.items():
        monkeypatch.setenv(name, value)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert isinstance(instance.event_log_storage, PooledEventLogStorage)
        assert instance._is_batch_writing_enabled()
        assert (home / "history" / "runs" / "index.db").exists()
    changed = (home / "dagster.yaml").read_text() + "# mine\n"
    (home / "dagster.yaml").write_text(changed)
    assert (dagster_home(tmp_path) / "dagster.yaml").read_text() == changed


def test_the_defaults_of_the_release_before_are_replaced(tmp_path: Path) -> None:
    home = dagster_home(tmp_path)
    now = (home / "dagster.yaml").read_text()
    (home / "dagster.yaml").write_text(now[: now.index("event_log_storage:")])
    assert (dagster_home(tmp_path) / "dagster.yaml").read_text() == now


def test_a_lake_below_a_question_mark_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"the path of lake .*/what\?/lake has a '\?', expected none"):
        dagster_home(tmp_path / "what?" / "lake")
    assert list(tmp_path.iterdir()) == []
