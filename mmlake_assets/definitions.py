"""The code location. Environment variables that it knows:

MMLAKE_LAKE (directory of the lake, default ./lake), MMLAKE_LANDING (landing zone, or several as `NAME=ADDRESS
NAME=ADDRESS`; default: what the lake remembers), MMLAKE_SETTINGS (TOML file), MMLAKE_DEVICE (auto, cpu, cuda),
MMLAKE_AUTOMATION (off: sensors start switched off) and MMLAKE_INTERVAL_S (seconds between two ticks of a sensor,
default 30; both are read in sensors.py).
"""

import os

import dagster as dg

from mmlake.landing import addresses_in
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


defs = build(
    LakeResource.at(
        os.environ.get("MMLAKE_LAKE", "lake"),
        addresses_in(os.environ.get("MMLAKE_LANDING", "")),
        settings_file=os.environ.get("MMLAKE_SETTINGS") or None,
        workers=int(os.environ["MMLAKE_WORKERS"]) if os.environ.get("MMLAKE_WORKERS") else None,
    ),
    CudaExecutorResource(device=os.environ.get("MMLAKE_DEVICE", "auto")),
)
