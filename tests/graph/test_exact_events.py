"""One event per partition of a range run, with the versions and counts of that partition; what Dagster makes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import dagster as dg
import pytest
from dagster._core.storage.partition_status_cache import AssetPartitionStatus

from mmlake.tables import Slot
from mmlake_assets import definitions, events
from mmlake_assets.partitions import ROWS, row_key
from mmlake_resources import CudaExecutorResource
from tests.lakes import Done

KEYS = [row_key("text", shard) for shard in ("text/a.jsonl", "text/b.jsonl")]


def _run(own: Done, names: Sequence[str]) -> dg.ExecuteInProcessResult:
    """A run of these assets over both shards of text."""
    job = definitions.build(own.resource, CudaExecutorResource(device="cpu")).resolve_job_def("text_rows")
    tags = {"dagster/asset_partition_range_start": KEYS[0], "dagster/asset_partition_range_end": KEYS[1]}
    selection = [dg.AssetKey(["text", name]) for name in names]
    return job.execute_in_process(instance=own.instance, tags=tags, raise_on_error=False, asset_selection=selection)


def _stored(own: Done, run_id: str, name: str) -> list[dg.EventLogRecord]:
    asked = dg.AssetRecordsFilter(asset_key=dg.AssetKey(["text", name]))
    return [one for one in own.instance.fetch_materializations(asked, limit=100).records if one.run_id == run_id]


def _rows(own: Done, name: str) -> dict[str, int]:
    return {key: stamp.num_rows for key in KEYS if (stamp := own.lake.tables.stamp(_slot(name, key))) is not None}


def _slot(name: str, key: str) -> Slot:
    return Slot(name, "text", key.partition("|")[2])


def test_a_range_run_stores_one_event_per_partition_and_what_follows_is_run(own) -> None:
    result = _run(own, ["items", "blobs"])
    assert result.success
    for name in ("items", "blobs"):
        assert Counter(one.partition_key for one in _stored(own, result.run_id, name)) == dict.fromkeys(KEYS, 1), name
    assert [event.partition for event in result.all_events if event.is_step_materialization] == KEYS * 2


def test_the_page_of_an_asset_shows_the_rows_of_all_its_shards(own) -> None:
    """Dagster shows `dagster/row_count` of the latest event."""
    result = _run(own, ["items"])
    latest, *_ = records = _stored(own, result.run_id, "items")
    assert latest.asset_materialization.metadata["dagster/row_count"].value == sum(_rows(own, "items").values()) == 7
    own_rows = {
        one.partition_key: one.asset_materialization.metadata["dagster/partition_row_count"].value for one in records
    }
    assert own_rows == _rows(own, "items")


def test_the_good_partitions_are_materialized_and_the_bad_one_failed(own) -> None:
    for key in KEYS:
        own.lake.tables.remove(_slot("items", key))
    (own.lake.landing.root / "text" / "b.jsonl").unlink()
    result = _run(own, ["items", "blobs"])
    assert not result.success
    assert [one.partition_key for one in _stored(own, result.run_id, "items")] == KEYS[:1]
    assert _stored(own, result.run_id, "blobs") == []
    found = own.instance.get_status_by_partition(dg.AssetKey(["text", "items"]), KEYS, ROWS["text"])
    assert found == {KEYS[0]: AssetPartitionStatus.MATERIALIZED, KEYS[1]: AssetPartitionStatus.FAILED}


def test_what_was_made_before_a_fault_of_ours_is_on_record(own, monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*args: object, **_: object):
        yield from list(made(*args, run_id=""))[:1]
        raise AssertionError("a fault of ours")

    from mmlake_assets import factory

    made = factory.run_shards
    monkeypatch.setattr(factory, "run_shards", faulty)
    result = _run(own, ["items"])
    assert not result.success
    assert [one.partition_key for one in _stored(own, result.run_id, "items")] == KEYS[:1]


def test_events_of_one_asset_are_stored_in_batches(own, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    storage = type(own.instance.event_log_storage)
    store = storage.store_event_batch

    def counted(self: object, batch: Sequence[dg.EventLogEntry]) -> None:
        sizes.extend([len(batch)] if {one.dagster_event.event_type_value for one in batch} == {MADE} else [])
        store(self, batch)

    monkeypatch.setattr(storage, "store_event_batch", counted)
    _run(own, ["items", "blobs"])
    assert sizes == [2, 2]
    monkeypatch.setattr(events, "BATCH", 1)
    _run(own, ["items"])
    assert sizes == [2, 2]  # a batch of one is an event


MADE = dg.DagsterEventType.ASSET_MATERIALIZATION.value
