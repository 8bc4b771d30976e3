"""Training samples from shards: shuffled, split over ranks and workers without overlap or loss, resumable at any
position.

Enters: a folder of shards with its index. Leaves: samples. Importing this loads no torch; the datasets do,
when first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmlake.loader.decode import AUTO, DECODERS
from mmlake.loader.joined_streams import JoinedStreams
from mmlake.loader.length_batches import LengthBatches
from mmlake.loader.mixed_order import MixedOrder, mixture_problems, write_mixture
from mmlake.loader.permutation import Permutation
from mmlake.loader.spoken_text import spoken_text
from mmlake.loader.stream import ShardStream
from mmlake.loader.track_lines import TrackLine, read_tracks, write_tracks
from mmlake.loader.track_sample import TrackSample, track_samples

if TYPE_CHECKING:
    from mmlake.loader.torch_dataset import JoinedDataset, LengthBatchDataset, ShardDataset

__all__ = [
    "AUTO",
    "DECODERS",
    "JoinedDataset",
    "JoinedStreams",
    "LengthBatchDataset",
    "LengthBatches",
    "MixedOrder",
    "Permutation",
    "ShardDataset",
    "ShardStream",
    "TrackLine",
    "TrackSample",
    "mixture_problems",
    "read_tracks",
    "spoken_text",
    "track_samples",
    "write_mixture",
    "write_tracks",
]


def __getattr__(name: str) -> Any:
    if name in ("JoinedDataset", "LengthBatchDataset", "ShardDataset"):
        from mmlake.loader import torch_dataset

        return getattr(torch_dataset, name)
    raise AttributeError(f"module 'mmlake.loader' has no attribute '{name}'")
