"""The Dagster instance of a lake: runs, events and partitions lie in `<lake>/dagster`, so that the UI shows what the
command line did."""

import os
from pathlib import Path

import dagster as dg
from dagster._core.instance import InstanceRef

from mmlake.errors import SettingsError
from mmlake.records import digest_of
from mmlake.store import write_atomically

# Events are kept in one connection per database and written in batches (mmlake_assets/event_storage.py).
# Pools at run granularity keep a queued run out of memory; a cancelled run gives its slot back; two retries bridge a
# short outage.
# Without a level, every run writes every event to the terminal of the UI, at DEBUG; events are kept at any level.
_DAGSTER_YAML = """\
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  pools:
    granularity: run
    default_limit: 1
run_monitoring:
  enabled: true
  free_slots_after_run_end_seconds: 60
run_retries:
  enabled: true
  max_retries: 2
python_logs:
  python_log_level: INFO
event_log_storage:
  module: mmlake_assets.event_storage
  class: PooledEventLogStorage
  config:
    home:
      env: DAGSTER_HOME
"""
# of files that an earlier release wrote and nobody changed
_FORMER = {"ed7ce3ee224c0f6cc84df6ead24e807fd59c14efe9ca4da6b9122c408910ece6"}
# what every process of an instance is given: events of assets in one transaction up to this many
EVENT_BATCHES = {"DAGSTER_EVENT_BATCH_SIZE": "100"}

# Capturing the output of steps starts two processes for each, which would print tracebacks at a Ctrl-C; what runs in
# our own process says it on our own terminal.
_IN_PROCESS = {
    "compute_logs": {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
}


def dagster_home(root: Path) -> Path:
    """The lake's Dagster home, made with our defaults where there are none, or those of an earlier release; a
    dagster.yaml that somebody wrote or changed stays. Raises SettingsError where the path has a question mark: Dagster
    names its databases by URLs, which end there."""
    home = root.absolute() / "dagster"
    if "?" in str(home):
        raise SettingsError(f"the path of lake {home.parent} has a '?', expected none; name another folder with --lake")
    path = home / "dagster.yaml"
    if not path.exists() or digest_of(path.read_bytes()) in _FORMER:
        write_atomically(path, _DAGSTER_YAML.encode())
    return home


def open_instance(root: Path) -> dg.DagsterInstance:
    """The instance of the lake. The caller closes it (it is a context manager)."""
    home = dagster_home(root)
    os.environ |= {"DAGSTER_HOME": str(home), **EVENT_BATCHES}  # some parts of Dagster read only these
    return dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(home), overrides=_IN_PROCESS))


def read_history(root: Path) -> None:
    """Ask each of Dagster's databases something, so that what is not one raises before services are started on it."""
    with open_instance(root) as instance:
        instance.get_runs(limit=1)
        instance.all_instigator_state()
        instance.get_dynamic_partitions("none")
        instance.get_asset_keys(limit=1)
