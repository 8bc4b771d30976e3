"""The steps of a run: which function makes which table from which tables.

A row step makes one table per (modality, shard), a corpus step one per modality, the step of samples one per shard over
all modalities. Assets, the plain pipeline and the staleness test all walk these same tables, so they cannot disagree.
Steps over the whole lake and over versions are in `mmlake/publish`.
"""

from __future__ import annotations

from mmlake.steps.corpus import CORPUS_STEPS, corpus_steps
from mmlake.steps.former import all_begun, aside_tables, forget, forget_aside, put_aside
from mmlake.steps.parallel import run_shards
from mmlake.steps.row import ROW_STEPS, row_steps
from mmlake.steps.running import Made, is_current, recheck, run_step
from mmlake.steps.samples import OVER_ALL, SAMPLES_STEP
from mmlake.steps.step import Step, each_modality, input_slot

__all__ = [
    "CORPUS_STEPS",
    "OVER_ALL",
    "ROW_STEPS",
    "SAMPLES_STEP",
    "Made",
    "Step",
    "all_begun",
    "aside_tables",
    "corpus_steps",
    "each_modality",
    "forget",
    "forget_aside",
    "input_slot",
    "is_current",
    "put_aside",
    "recheck",
    "row_steps",
    "run_shards",
    "run_step",
]
