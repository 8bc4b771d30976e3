"""One run of the plain pipeline, as the target of a process that may be killed."""

from __future__ import annotations

import gc
import os
import warnings
from pathlib import Path

from mmlake import pipeline, publish
from mmlake.lake import Lake
from mmlake.publish.version import publish_version
from mmlake_assets.console import RARELY

# What a run imports and takes ten times as long as the run; lancedb itself starts a thread, which no fork survives.
PRELOADED = (
    "tests.wiring.plain_run",
    "torch",
    "lance_namespace",
    "faiss",
    "av",
    "soundfile",
    "PIL.Image",
)


def run_all(root: Path, landing: Path) -> None:
    """Tables, catalog and both versions of the lake, up to date; the process and what it starts are a group of their
    own."""
    os.setsid()
    gc.freeze()  # what was imported is searched for garbage no more: each run would copy the memory of it
    gc.set_threshold(*RARELY)
    warnings.simplefilter("ignore")
    lake = Lake(root, landing=landing)
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    if not publish.samples_are_current(lake):
        publish.update_samples(lake)
    if not publish.catalog_is_current(lake):
        publish.update_catalog(lake)
    for recipe in ("everything", "curated"):
        name, is_new = publish.needs_version(lake, recipe)
        if is_new or not publish.version_is_complete(lake, name):
            publish_version(lake, name)
