"""Garbage collection of blobs that nothing names, in two passes.

The first pass that finds a blob unnamed condemns it; a later one, no sooner than the grace period, deletes it if
nothing has named it since. Both passes hold the lock that every step shares while it puts blobs and writes the table
that names them, so a run in flight is never overtaken: the pass is refused until the run ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice

from mmlake import checked_json
from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.progress import Advance, silent
from mmlake.publish.pins import remove_unpinned
from mmlake.publish.version_shards import hashed_shards
from mmlake.records import Digest
from mmlake.shards import remove_unnamed
from mmlake.store import write_atomically
from mmlake.upkeep.leftovers import remove_leftovers
from mmlake.upkeep.references import is_named, marks_of, named_units, referenced

# a day: long enough to notice a shard that was removed from the landing zone by mistake and land it again
GRACE_S = 24 * 3600.0
_LEFTOVER_S = 24 * 3600.0  # longer than any write takes
_BATCH = 100_000
_FORMAT = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Collected:
    """What one pass found and did."""

    blobs: int  # in the store before
    named: int
    condemned: int  # unnamed, waiting for the end of their grace
    condemned_bytes: int
    deleted: int
    deleted_bytes: int
    spared: int  # condemned earlier, named again since
    shards_bytes: int  # training shards that no version has in its index, removed at once: they can be written again
    pins_bytes: int  # pins of versions that are gone and packs that no version is pinned to, removed at once
    cuts_bytes: int  # clips and segments of units that nothing names, removed at once: they can be cut again
    leftovers: int  # unfinished files of killed writers that were removed

    def to_dict(self) -> dict[str, int]:
        """Plain data for JSON."""
        return asdict(self)


def collect(
    lake: Lake, *, now_s: float, grace_s: float = GRACE_S, dry_run: bool = False, advance: Advance = silent
) -> Collected:
    """What a pass over the whole store found, and what it deleted. Raises LakeLocked while a step is running.

    now_s: Unix time. grace_s: 0 deletes at the first pass. dry_run: nothing is written, condemned or deleted; what
    would be is counted.
    """
    if grace_s < 0:
        raise SettingsError(f"grace_s={grace_s} not in [0, inf); give the seconds that an unnamed blob is kept")
    with lake.collecting_blobs():
        before = _condemned(lake)
        named = referenced(lake)
        condemned: dict[Digest, float] = {}
        doomed: list[Digest] = []
        sizes, blobs = {"condemned": 0, "doomed": 0}, 0
        for part in _parts(lake.store.digests()):
            blobs += len(part)
            for digest, keep in zip(part, is_named(marks_of(part), named), strict=True):
                if keep:
                    continue
                # A pass by a clock that was ahead: else nothing would go until the clock is there again.
                since = min(before.get(digest, now_s), now_s)
                over = now_s - since >= grace_s
                sizes["doomed" if over else "condemned"] += lake.store.size(digest)
                if over:
                    doomed.append(digest)
                else:
                    condemned[digest] = since
            advance(len(part))
        leftovers = cuts_bytes = 0
        shards_bytes = remove_unnamed(
            lake.shards_dir, lake.versions.versions(), hashed=hashed_shards(lake), dry_run=dry_run
        )
        pins_bytes = remove_unpinned(lake, dry_run=dry_run)
        if not dry_run:
            # The list first: a collector that dies while it deletes then takes up the rest at its next pass as newly
            # condemned, never more.
            _write(lake, condemned)
            lake.store.remove_all(doomed)
            leftovers = remove_leftovers(lake, older_than_s=_LEFTOVER_S, now_s=now_s)
            cuts_bytes = lake.cuts.remove_others(named_units(lake))
            lake.store.compact()
            lake.store.thin()
    return Collected(
        blobs=blobs,
        named=blobs - len(condemned) - len(doomed),
        condemned=len(condemned),
        condemned_bytes=sizes["condemned"],
        deleted=len(doomed),
        deleted_bytes=sizes["doomed"],
        spared=len(before.keys() - condemned.keys() - set(doomed)),
        shards_bytes=shards_bytes,
        pins_bytes=pins_bytes,
        cuts_bytes=cuts_bytes,
        leftovers=leftovers,
    )


def _parts(digests: Iterator[Digest]) -> Iterator[list[Digest]]:
    while part := list(islice(digests, _BATCH)):
        yield part


def _condemned(lake: Lake) -> dict[Digest, float]:
    """Digest -> Unix time of the pass that condemned it."""
    path = lake.root / "condemned.json"
    try:
        value = checked_json.loads(path.read_bytes())
        return {str(digest): float(since_s) for digest, since_s in value["condemned"].items()}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(
            f"{path} is damaged; delete it, and the grace period of every unnamed blob begins anew"
        ) from error


def _write(lake: Lake, condemned: dict[Digest, float]) -> None:
    write_atomically(
        lake.root / "condemned.json",
        checked_json.dumps({"format": _FORMAT, "condemned": dict(sorted(condemned.items()))}),
    )
