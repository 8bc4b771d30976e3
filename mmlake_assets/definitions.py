"""The code location. Environment variables that it knows:

MMLAKE_LAKE (directory of the lake, default ./lake), MMLAKE_LANDING (landing zone, or several as `NAME=ADDRESS
NAME=ADDRESS`; default: what the lake remembers), MMLAKE_SETTINGS (TOML file), MMLAKE_DEVICE (auto, cpu, cuda),
MMLAKE_AUTOMATION (off: sensors start switched off) and MMLAKE_INTERVAL_S (seconds between two ticks of a sensor,
default 30; both are read in sensors.py); MMLAKE_WORKERS (processes that decode, default: all cores) and
MMLAKE_BACKFILL_SHARDS (partitions of a backfill's run, default 100; read in factory.py).
"""

import gc
import os
from contextlib import nullcontext

from mmlake.optional import kept_imports

# Once in a process: code servers and the process of each run import this first and keep it to their end.
with nullcontext() if gc.get_freeze_count() else kept_imports():
    from mmlake.landing import addresses_in
    from mmlake_assets.asset_graph import build
    from mmlake_assets.variables import whole_number
    from mmlake_resources import CudaExecutorResource, LakeResource

defs = build(
    LakeResource.at(
        os.environ.get("MMLAKE_LAKE", "lake"),
        addresses_in(os.environ.get("MMLAKE_LANDING", "")),
        settings_file=os.environ.get("MMLAKE_SETTINGS") or None,
        workers=whole_number("MMLAKE_WORKERS", 0) or None,
    ),
    CudaExecutorResource(device=os.environ.get("MMLAKE_DEVICE", "auto")),
)
