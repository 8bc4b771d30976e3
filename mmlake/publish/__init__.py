"""From stage tables to a published version: the catalog, the manifest, and what is made from it.

A version's name is `<branch>-v<number>`; the branch has the name of its recipe unless another is given. Assets and the
plain pipeline walk VERSION_STEPS alike.
"""

from __future__ import annotations

from mmlake.publish.catalog import catalog_is_current, catalog_slot, drop_damaged_catalog, update_catalog
from mmlake.publish.dead_letters import (
    dead_letters_are_current,
    read_dead_letters,
    recheck_dead_letters,
    table_of,
    update_dead_letters,
)
from mmlake.publish.probe_vectors import pin_probes, pinned_probes
from mmlake.publish.rechecks import losses_of, recheck_catalog, recheck_manifest, recheck_shards
from mmlake.publish.ref_deletion import delete_branch, delete_tag
from mmlake.publish.requests import Request, all_wanted, ask_for, request_of, wanted
from mmlake.publish.results import read_result
from mmlake.publish.samples import recheck_samples, samples_are_current, scan_samples, update_samples
from mmlake.publish.selected import selected_from
from mmlake.publish.shard_clock import check_clock
from mmlake.publish.version import (
    VERSION_STEPS,
    VersionStep,
    can_be_selected_from,
    needs_version,
    run_version_step,
    unfinished_steps,
    version_is_complete,
)
from mmlake.publish.version_names import branch_of, next_version, version_names

__all__ = [
    "VERSION_STEPS",
    "Request",
    "VersionStep",
    "all_wanted",
    "ask_for",
    "branch_of",
    "can_be_selected_from",
    "catalog_is_current",
    "catalog_slot",
    "check_clock",
    "dead_letters_are_current",
    "delete_branch",
    "delete_tag",
    "drop_damaged_catalog",
    "losses_of",
    "needs_version",
    "next_version",
    "pin_probes",
    "pinned_probes",
    "read_dead_letters",
    "read_result",
    "recheck_catalog",
    "recheck_dead_letters",
    "recheck_manifest",
    "recheck_samples",
    "recheck_shards",
    "request_of",
    "run_version_step",
    "samples_are_current",
    "scan_samples",
    "selected_from",
    "table_of",
    "update_catalog",
    "update_dead_letters",
    "unfinished_steps",
    "update_samples",
    "version_is_complete",
    "version_names",
    "wanted",
]
