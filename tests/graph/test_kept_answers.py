"""What the event storage answers from memory: the same as Dagster's own, whoever wrote in the meantime."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy as db
from dagster import EventLogEntry
from dagster._core.events import DagsterEvent, DagsterEventType, StepMaterializationData
from dagster._core.storage.event_log import SqliteEventLogStorage

from mmlake_assets.event_storage import PooledEventLogStorage
from mmlake_assets.kept_answers import _MAX_ANSWERS, KeptAnswers

KEY, OTHER, NEVER = dg.AssetKey(["text", "items"]), dg.AssetKey(["text", "blobs"]), dg.AssetKey("never")
MADE, VERSION = DagsterEventType.ASSET_MATERIALIZATION, "dagster/data_version"


@pytest.fixture
def storage(tmp_path: Path) -> PooledEventLogStorage:
    made = PooledEventLogStorage(str(tmp_path))
    yield made
    made.dispose()


def _entry(kind: DagsterEventType, data: object, at: float = 1.0) -> EventLogEntry:
    event = DagsterEvent(event_type_value=kind.value, job_name="job", event_specific_data=data, step_key="step")
    return EventLogEntry(None, 20, "", "run-a", at, job_name="job", dagster_event=event, step_key="step")


def _made(version: str, key: dg.AssetKey = KEY, *, at: float = 1.0) -> EventLogEntry:
    made = dg.AssetMaterialization(key, partition="a", tags={VERSION: version})
    return _entry(MADE, StepMaterializationData(made), at)


def _asked(storage: SqliteEventLogStorage) -> list[object]:
    records = storage.get_asset_records([KEY, OTHER, NEVER])
    return [
        sorted((record.storage_id, repr(record.asset_entry)) for record in records),
        *(storage.get_latest_tags_by_partition(key, MADE, [VERSION], ["a", "b"]) for key in (KEY, OTHER, NEVER)),
        *(storage.has_dynamic_partition("shards", name) for name in ("a", "b")),
    ]


def _broken(*_: object) -> None:
    raise OSError("disk")


def _fails(storage: PooledEventLogStorage, other: SqliteEventLogStorage) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "_store_asset_event", _broken)
        with pytest.raises(OSError, match="disk"):
            storage.store_event_batch([_made("lost"), _made("lost", OTHER)])


CHANGES: dict[str, Callable[[PooledEventLogStorage, SqliteEventLogStorage], object]] = {
    "an event of its own": lambda own, other: own.store_event(_made("v2")),
    "an event of another asset": lambda own, other: own.store_event(_made("w2", OTHER)),
    "a batch": lambda own, other: own.store_event_batch([_made("v3"), _made("w3", OTHER)]),
    "a batch of which nothing was stored": _fails,
    "the status of a run": lambda own, other: own.store_event(_entry(DagsterEventType.RUN_START, None)),
    "an event of another process": lambda own, other: other.store_event(_made("v4")),
    "a partition": lambda own, other: own.add_dynamic_partitions("shards", ["a", "b"]),
    "a partition that is gone": lambda own, other: own.delete_dynamic_partition("shards", "b"),
    "a partition of another process": lambda own, other: other.delete_dynamic_partition("shards", "a"),
    "an asset that was wiped": lambda own, other: own.wipe_asset(KEY),
    "an asset that another process wiped": lambda own, other: other.wipe_asset(OTHER),
    "an event after that": lambda own, other: own.store_event(_made("v5", at=4e9)),
    "everything wiped": lambda own, other: own.wipe(),
}


def test_answers_are_those_of_dagsters_own_storage_whoever_wrote_in_between(storage, tmp_path: Path) -> None:
    other = SqliteEventLogStorage(str(tmp_path))
    storage.store_event_batch([_made("v1"), _made("w1", OTHER)])
    seen = []
    for change, make in CHANGES.items():
        assert _asked(storage) == _asked(storage) == _asked(SqliteEventLogStorage(str(tmp_path))), f"before {change}"
        make(storage, other)
        seen.append(_asked(storage))
        assert seen[-1] == _asked(SqliteEventLogStorage(str(tmp_path))), change
    differ = [repr(one) != repr(before) for before, one in pairwise(seen)]
    assert (
        differ.count(False) == 2
    )  # nothing that is asked for follows from what was not stored, or from a run's status


def test_what_was_asked_before_is_not_asked_of_the_database_again(storage) -> None:
    """Each step of a run asks for the records and tags of its inputs, which a dozen others read as well."""
    storage.store_event_batch([_made("v1"), _made("w1", OTHER)])
    before = _asked(storage)
    queries: list[str] = []
    db.event.listen(storage._engine("index"), "before_cursor_execute", lambda *given: queries.append(given[2]))
    assert _asked(storage) == before
    storage.store_event(_entry(DagsterEventType.RUN_START, None))
    storage.store_event(_made("w2", OTHER))
    queries.clear()
    assert storage.get_asset_records([KEY]) and storage.get_latest_tags_by_partition(KEY, MADE, [VERSION], ["a", "b"])
    assert not storage.has_dynamic_partition("shards", "a")
    assert queries == []
    storage.store_event_batch([_made("v2"), _made("w3", OTHER)])
    queries.clear()
    assert len(storage.get_asset_records([KEY, NEVER, OTHER])) == 2
    assert len(queries) == 1  # for all that are not known


def test_a_step_of_very_many_partitions_is_answered_and_not_kept(storage) -> None:
    storage.store_event(_made("v1"))
    names = ["a", *(f"b-{number}" for number in range(200))]
    kept = storage._answers._num_kept
    assert storage.get_latest_tags_by_partition(KEY, MADE, [VERSION], names) == {"a": {VERSION: "v1"}}
    assert len(storage.get_asset_records([KEY, *(dg.AssetKey(name) for name in names)])) == 1
    assert storage._answers._num_kept == kept


def test_answers_that_are_kept_are_bounded_and_none_is_of_what_was_not_committed() -> None:
    answers = KeptAnswers()
    with closing(sqlite3.connect(":memory:")) as connection:
        for number in range(2 * _MAX_ANSWERS + 2):
            assert answers.answer(connection, f"asset {number % 7}", number, lambda number=number: number) == number
        assert answers._num_kept == sum(map(len, answers._answers.values())) == 2
        connection.execute("create table t (x)")
        connection.execute("insert into t values (1)")
        assert answers.answer(connection, "t", "rows", lambda: 1) == 1
        connection.rollback()
        assert answers.answer(connection, "t", "rows", lambda: 0) == 0
