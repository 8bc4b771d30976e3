"""The partition sets: modality x shard for row assets, one modality for corpus assets, one name per dataset version.

Each modality has a shard set of its own, so there are no empty cells and the backfill of one modality is one contiguous
range (one shared set made 107 runs of a backfill that is 1 run here; docs/decisions/0002-partitions.md).
"""

from collections.abc import Iterator, Sequence

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from mmlake.modalities import MODALITIES

# names under which the instance keeps the keys
SHARD_SETS = {modality: f"{modality}_shards" for modality in MODALITIES}
VERSION_SET = "versions"
SHARDS = {modality: dg.DynamicPartitionsDefinition(name=name) for modality, name in SHARD_SETS.items()}
CORPUS = {modality: dg.StaticPartitionsDefinition([modality]) for modality in MODALITIES}
ROWS = {
    modality: dg.MultiPartitionsDefinition({"modality": CORPUS[modality], "shard": SHARDS[modality]})
    for modality in MODALITIES
}
VERSIONS = dg.DynamicPartitionsDefinition(name=VERSION_SET)

RANGE_SHARDS = 64  # of a run over several: what a backfill of assets that run models takes

# row assets -> corpus asset
ALL_SHARDS = dg.MultiToSingleDimensionPartitionMapping(partition_dimension_name="modality")
EVERYTHING = dg.AllPartitionMapping()  # whatever partitions there are, of a set of other keys


def row_key(modality: str, shard: str) -> str:
    """The partition key of a row asset; dimensions stand in the order of their names."""
    return f"{modality}|{shard}"


def shard_of(partition_key: str) -> str:
    """The shard in a row asset's partition key."""
    return partition_key.partition("|")[2]


def ranges(order: Sequence[str], wanted: set[str]) -> Iterator[tuple[str, str, int]]:
    """(first, last, number of shards) of contiguous stretches of the wanted keys in the order, at most
    RANGE_SHARDS long."""
    stretch: list[str] = []
    for key in order:
        if key in wanted:
            stretch.append(key)
        if stretch and (key not in wanted or len(stretch) == RANGE_SHARDS):
            yield stretch[0], stretch[-1], len(stretch)
            stretch = []
    if stretch:
        yield stretch[0], stretch[-1], len(stretch)


def range_tags(modality: str, first: str, last: str) -> dict[str, str]:
    """The tags of a run over all shards from the first to the last, in the order of registration."""
    return {
        ASSET_PARTITION_RANGE_START_TAG: row_key(modality, first),
        ASSET_PARTITION_RANGE_END_TAG: row_key(modality, last),
    }
