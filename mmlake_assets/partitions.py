"""The partition sets: modality x shard for row assets, one modality for corpus assets, one name per dataset version.

Each modality has a shard set of its own, so there are no empty cells and the backfill of one modality is one contiguous
range (one shared set made 107 runs of a backfill that is 1 run here; docs/decisions/0002-partitions.md).
"""

import dagster as dg

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

# row assets -> corpus asset
ALL_SHARDS = dg.MultiToSingleDimensionPartitionMapping(partition_dimension_name="modality")


def row_key(modality: str, shard: str) -> str:
    """The partition key of a row asset; dimensions stand in the order of their names."""
    return f"{modality}|{shard}"


def shard_of(partition_key: str) -> str:
    """The shard in a row asset's partition key."""
    return partition_key.partition("|")[2]
