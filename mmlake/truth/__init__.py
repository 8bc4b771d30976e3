"""A lake held against a planted truth: what was planted in its sources is found in its tables, versions and batches."""

from __future__ import annotations

from mmlake.truth.rows import TierTruth, Truthful, compare_with_truth, pin_sample_probes, prepare_sample
from mmlake.truth.samples import SampleTruth, compare_samples
from mmlake.truth.units import UnitTruth, compare_units

__all__ = [
    "SampleTruth",
    "TierTruth",
    "Truthful",
    "UnitTruth",
    "compare_samples",
    "compare_units",
    "compare_with_truth",
    "pin_sample_probes",
    "prepare_sample",
]
