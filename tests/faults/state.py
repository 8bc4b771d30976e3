"""What a lake holds, in digests, and its recovery: what every disturbed run is compared by."""

from __future__ import annotations

import hashlib
from pathlib import Path

from mmlake.lake import Lake
from mmlake.publish.ledger import lake_slots
from tests import make
from tests.faults import jobs
from tests.faults.jobs import opened, run


def land(root: Path) -> Path:
    """A landing zone of two pictures and two texts; `land_more` adds a shard of texts."""
    return make.land(
        root,
        {
            "image/a.tar": make.tar({"0.png": make.picture(1), "1.png": make.picture(2)}),
            "text/a.jsonl": make.jsonl([make.prose(1), make.prose(2)]),
        },
    )


def land_more(root: Path) -> Path:
    return make.land(root, {"text/b.jsonl": make.jsonl([make.prose(3), make.prose(4)])})


def ids(lake: Lake) -> dict[str, str]:
    """What the lake holds by name: the data version of every table and of the catalog's rows, the newest tree, and the
    bytes of its training shards."""
    stage = [slot for slot in lake_slots(lake) if slot.modality != "all" and slot.table != "catalog"]
    found = {str(slot): stamp.data_version for slot in stage if (stamp := lake.tables.stamp(slot)) is not None}
    found["catalog"] = lake.catalog.data_version()
    newest = max(lake.versions.tags())
    manifest = lake.versions.read(newest)
    found["tree"] = manifest.tree
    for path in sorted((lake.shards_dir / manifest.id).iterdir()):
        if path.suffix in (".tar", ".idx"):
            found[f"shard {path.name}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def problems(lake: Lake) -> list[str]:
    """What is damaged or missing in the lake: all that `fsck` checks, and every row of the catalog."""
    lake.catalog.verify_unique()
    return jobs.checked(lake) + [f"catalog row {digest}" for digest in lake.catalog.verify()]


def recovered(root: Path, landing: Path) -> dict[str, str]:
    """What the lake holds after one undisturbed run and, where `fsck` then finds something, its repair. Asserts that
    nothing in it is damaged."""
    run(str(root), str(landing))
    lake = opened(root)
    if found := problems(lake):
        # a tag whose writer ended before the line that says that it was made: the tag is whole, and counts; or a step
        # of a published version whose writer ended before its stamp, where the run goes on with the version after it
        assert all("does not say that" in problem or "has no stamp" in problem for problem in found), found
        jobs.repair(str(root))
        assert problems(lake) == []
    assert lake.catalog.search("harbour", limit=3) is not None
    return ids(lake)
