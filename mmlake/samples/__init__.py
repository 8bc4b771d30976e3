"""Samples: what belongs together in a source, out of the items of one shard. Enters: items tables. Leaves: SAMPLES."""

from __future__ import annotations

from mmlake.samples.assembly import COLUMNS, INTERLEAVED, assemble, check_samples

__all__ = ["COLUMNS", "INTERLEAVED", "assemble", "check_samples"]
