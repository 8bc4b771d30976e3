"""Training shards: a version's samples as WebDataset tar files with an index and checksums.

Enters: the samples of a version and the blob store. Leaves: tar files, one index per tar, and `index.json`, the
commit marker.
"""

from __future__ import annotations

from mmlake.shards.hashed import HashedFiles
from mmlake.shards.index import ShardEntry, ShardIndex
from mmlake.shards.objects import name_again, remove_unnamed
from mmlake.shards.samples import SAMPLES_READ
from mmlake.shards.settings import ShardSettings
from mmlake.shards.unit_facts import LATER_FIELDS, Held, Tracks, UnitFacts
from mmlake.shards.verify import verify_shards
from mmlake.shards.write import write_shards

__all__ = [
    "LATER_FIELDS",
    "SAMPLES_READ",
    "HashedFiles",
    "Held",
    "ShardEntry",
    "ShardIndex",
    "ShardSettings",
    "Tracks",
    "UnitFacts",
    "name_again",
    "remove_unnamed",
    "verify_shards",
    "write_shards",
]
