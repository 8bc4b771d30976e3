"""Samples: what belongs together in a source, out of the items of one shard. Enters: items tables. Leaves: SAMPLES."""

from __future__ import annotations

from mmlake.samples.assembly import COLUMNS, assemble, check_samples
from mmlake.samples.binding import BOUND_SAMPLES, bind_units

__all__ = ["BOUND_SAMPLES", "COLUMNS", "assemble", "bind_units", "check_samples"]
