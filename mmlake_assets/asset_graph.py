"""Every asset, check, job and sensor, put together for a lake.

The code location in `definitions.py` does so for the lake that the environment names, a command for its own alone."""

import dagster as dg

from mmlake_assets import (
    captions,
    catalog,
    checks,
    costs,
    dedup,
    embed,
    evaluate,
    jobs,
    preprocess,
    provenance,
    quality,
    samples,
    sensors,
    shards,
    sources,
    store,
    versions,
)
from mmlake_resources import CudaExecutorResource, LakeResource

# data order
STAGES = (
    sources,
    store,
    preprocess,
    captions,
    quality,
    dedup,
    embed,
    samples,
    catalog,
    versions,
    shards,
    evaluate,
    costs,
    provenance,
)


def build(lake: LakeResource, compute: CudaExecutorResource) -> dg.Definitions:
    """Every asset, check, job and sensor on this lake. Raises SettingsError where its settings name a plugin that
    cannot be used."""
    return dg.Definitions(
        assets=[asset for stage in STAGES for asset in stage.ASSETS],
        asset_checks=checks.checks(lake.parts(), lake.check_settings()),
        jobs=jobs.JOBS,
        sensors=sensors.SENSORS,
        # the default I/O manager takes a directory to write to from whoever launches a run; no asset needs one
        resources={
            "lake": lake,
            "compute": compute,
            "io_manager": dg.IOManagerDefinition(dg.mem_io_manager.resource_fn, config_schema={}),
        },
        executor=dg.in_process_executor,
    )
