"""Exact provenance events: one materialization per partition with its own data version, input versions and input
events.

For a range run Dagster copies one result to every partition and hashes the inputs of the whole range together. The tags
below are the ones that it writes itself for a single partition, and the mark of a result is the one by which it adds no
events of its own; they are not a public interface, so they live here alone, behind a test, and dagster is pinned below
the next minor.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
from dagster._core.events import DagsterEvent, DagsterEventBatchMetadata, DagsterEventType, generate_event_batch_id
from dagster._core.storage.tags import MULTIDIMENSIONAL_PARTITION_PREFIX

from mmlake.tables import Stamp

_MILLISECOND_S = 0.0011  # an asset's page shows one event of each millisecond
BATCH = 25  # partitions whose events are stored at once: a run that is killed loses no more of them


def materialization(
    key: dg.AssetKey,
    partition: str | None,
    *,
    stamp: Stamp,
    metadata: Mapping[str, Any],
    inputs: Mapping[dg.AssetKey, str],
    pointers: Mapping[dg.AssetKey, int],
) -> dg.AssetMaterialization:
    """The event that says what this partition now holds and what it was made from."""
    tags = {
        DATA_VERSION_TAG: stamp.data_version,
        DATA_VERSION_IS_USER_PROVIDED_TAG: "true",
        CODE_VERSION_TAG: stamp.code_version,
    }
    tags |= {get_input_data_version_tag(upstream): version for upstream, version in inputs.items()}
    tags |= {get_input_event_pointer_tag(upstream): str(pointer) for upstream, pointer in pointers.items()}
    if partition is not None and "|" in partition:
        modality, _, shard = partition.partition("|")
        tags |= {
            f"{MULTIDIMENSIONAL_PARTITION_PREFIX}modality": modality,
            f"{MULTIDIMENSIONAL_PARTITION_PREFIX}shard": shard,
        }
    return dg.AssetMaterialization(asset_key=key, partition=partition, metadata=dict(metadata), tags=tags)


def latest_events(instance: dg.DagsterInstance, key: dg.AssetKey, partitions: Sequence[str]) -> Mapping[str, int]:
    """Storage id of the latest materialization of each partition, in one query."""
    return instance.event_log_storage.get_latest_storage_id_by_partition(
        key, DagsterEventType.ASSET_MATERIALIZATION, set(partitions)
    )


def pointers_for(
    instance: dg.DagsterInstance, upstream: Iterable[dg.AssetKey], partitions: Sequence[str]
) -> Mapping[str, Mapping[dg.AssetKey, int]]:
    """For each partition, the latest event of each upstream asset that has the same partitions."""
    found: dict[str, dict[dg.AssetKey, int]] = {partition: {} for partition in partitions}
    for key in upstream:
        for partition, storage_id in latest_events(instance, key, partitions).items():
            found[partition][key] = storage_id
    return found


def store(context: dg.AssetExecutionContext, made: Sequence[dg.AssetMaterialization]) -> list[DagsterEvent]:
    """The materializations as events of the running step, which are now stored: in one transaction where the instance
    writes batches (DAGSTER_EVENT_BATCH_SIZE)."""
    step = context.op_execution_context.get_step_execution_context()
    batch = generate_event_batch_id()  # type: ignore[no-untyped-call]
    events: list[DagsterEvent] = []
    for at, one in enumerate(made):
        time.sleep(_MILLISECOND_S if at else 0.0)
        events.append(
            DagsterEvent.asset_materialization(step, one, DagsterEventBatchMetadata(batch, at == len(made) - 1))
        )
    return events


def result_without_event() -> dg.MaterializeResult:
    """The result of a step that has stored its own events: Dagster adds none to it, and runs what follows."""
    return dg.MaterializeResult(metadata={SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True})
