"""The landing zone watched: new shards are registered, changed ones ingested again; automation does the rest.

A file counts as landed when it is older than the settle time, or when its directory holds a `_SUCCESS` marker newer
than it; names that end in .part, .tmp or .crdownload never count. What a tick decides follows from the lake and the
instance alone, so a tick that dies is repeated without loss or repetition.
"""

import os
import time
from collections.abc import Mapping, Sequence

import dagster as dg

from mmlake.modalities import MODALITIES
from mmlake.pipeline import refresh
from mmlake.records import canonical_json, digest_of
from mmlake.steps import ROW_STEPS, is_current, row_steps
from mmlake_assets.follow import publishing
from mmlake_assets.jobs import VERSION_JOB
from mmlake_assets.partitions import SHARD_SETS, SHARDS, range_tags, ranges, row_key
from mmlake_assets.variables import whole_number
from mmlake_resources import LakeResource

TICK_SHARDS = 1000  # opened and registered per tick: more outlives the daemon's tick timeout; the next tick goes on
TICK_RUNS = 100  # asked for per tick; shards that follow each other in the order of registration share one
INTERVAL_S = whole_number("MMLAKE_INTERVAL_S", 30)  # between two ticks of a sensor
# A deployment that is still being set up starts with MMLAKE_AUTOMATION=off and switches the sensors on in the UI.
STATUS = (
    dg.DefaultSensorStatus.STOPPED
    if os.environ.get("MMLAKE_AUTOMATION", "on") == "off"
    else dg.DefaultSensorStatus.RUNNING
)


def _row_keys(modality: str) -> list[dg.AssetKey]:
    """Every asset that a changed shard goes through. They are one run: were it the items alone, automation would ask
    for the rest and for the catalog at once."""
    return [dg.AssetKey([modality, step.name]) for step in row_steps(MODALITIES[modality])]


@dg.sensor(
    name="landing_zone",
    description="Registers shards that have landed as partitions, and asks for runs on those whose contents "
    "have changed; a file counts once it is settled.",
    asset_selection=dg.AssetSelection.assets(*(key for modality in SHARDS for key in _row_keys(modality))),
    minimum_interval_seconds=INTERVAL_S,
    default_status=STATUS,
)
def landing_zone(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SensorResult | dg.SkipReason:
    """Registers shards that landed since the last tick and asks for runs on those whose contents changed."""
    opened = lake.open()
    listing = refresh(opened, settled_before_s=time.time() - lake.settle_s, at_most=TICK_SHARDS)
    if opened.registry.known():
        opened.remember_landing()  # from now on it is a lake, to every command
    additions: list[dg.AddDynamicPartitionsRequest] = []
    runs: list[dg.RunRequest] = []
    left = TICK_SHARDS
    for modality, shards in SHARDS.items():
        keys = opened.registry.keys(modality)
        order = context.instance.get_dynamic_partitions(SHARD_SETS[modality])
        registered = set(order)
        new = [key for key in keys if key not in registered][:left]
        left -= len(new)
        if new:
            additions.append(shards.build_add_request(new))
        changed = {
            key: opened.registry.get(key).revision
            for key in keys
            if key in registered
            and opened.tables.has(ROW_STEPS["items"].name, modality, key)
            and not is_current(ROW_STEPS["items"], opened, modality, key)
        }
        runs += [_run(modality, order, changed, *ends) for *ends, _ in ranges(order, set(changed))]
    gone = [
        _gone(modality, key)
        for modality in SHARDS
        for key in listing.gone
        if opened.tables.has(ROW_STEPS["items"].name, modality, key)
    ]
    for error in listing.failures:
        context.log.error(str(error))
    if not additions and not runs and not gone:
        if listing.failures:
            raise listing.failures[0]
        return dg.SkipReason(f"nothing new in {opened.landing.location}")
    return dg.SensorResult(dynamic_partitions_requests=additions, run_requests=runs[:TICK_RUNS], asset_events=gone)


def _gone(modality: str, shard: str) -> dg.AssetObservation:
    """What the asset's page says of a shard that is no longer in the landing zone: its rows stay in the lake."""
    text = "The shard is no longer in the landing zone. Its rows and blobs stay in the lake."
    return dg.AssetObservation(
        asset_key=dg.AssetKey([modality, "items"]),
        partition=row_key(modality, shard),
        description=text,
        metadata={"in_landing_zone": False},
    )


def _run(modality: str, order: Sequence[str], changed: Mapping[str, str], first: str, last: str) -> dg.RunRequest:
    """The run of the changed shards from the first to the last. changed: shard -> revision."""
    shards = order[order.index(first) : order.index(last) + 1]
    revisions = digest_of(canonical_json([changed[shard] for shard in shards]).encode())
    tags = {"mmlake/modality": modality, "mmlake/shard": first[:200], "mmlake/revision": revisions[:16]}
    return dg.RunRequest(
        run_key=f"{modality}|{first}@{revisions}",
        partition_key=row_key(modality, first) if len(shards) == 1 else None,
        asset_selection=_row_keys(modality),
        tags=tags
        if len(shards) == 1
        else tags | {"mmlake/shards": str(len(shards))} | range_tags(modality, first, last),
    )


SENSORS = [
    landing_zone,
    dg.sensor(
        name="publishing",
        description="Publishes a version of each recipe that `[publish] follow` names once the catalog has changed and "
        "no run is under way, and moves its branch.",
        job=VERSION_JOB,
        minimum_interval_seconds=INTERVAL_S,
        default_status=STATUS,
    )(publishing),
    dg.AutomationConditionSensorDefinition(
        "automation",
        description="Asks for what is missing or out of date of each partition; versions are published by "
        "`mmlake run` or by hand.",
        target=dg.AssetSelection.all(),
        minimum_interval_seconds=INTERVAL_S,
        default_status=STATUS,
    ),
]
