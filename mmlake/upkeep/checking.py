"""Checks of what lies on disk, for `mmlake fsck`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mmlake import contracts, sources
from mmlake.errors import MmlakeError, UnreadableItem
from mmlake.lake import Lake
from mmlake.modalities import MODALITIES
from mmlake.records import Digest, SourceRef, digest_of
from mmlake.tables import Slot


def check_blobs(lake: Lake, digests: Iterable[Digest]) -> Iterator[str]:
    """A sentence for each blob whose bytes are not what its name says."""
    for digest in digests:
        if (wrong := lake.store.verify(digest)) is not None:
            yield f"blob {digest} is {wrong}: run `mmlake fsck --repair` (`mmlake why {digest[:12]}` names where it came from)"


def named_blobs(lake: Lake) -> list[Digest]:
    """Every digest that is in the store or that an item names, sorted: a lost blob is only known by its item."""
    named = {digest for modality in MODALITIES for digest in contracts.digests(lake.tables.concat("items", modality, columns=["digest"]))}
    return sorted(named | set(lake.store.digests()))


def repair_blobs(lake: Lake, digests: Iterable[Digest]) -> Iterator[tuple[Digest, str | None]]:
    """(digest, None) for each blob put back from its place in the landing zone, (digest, why not) for the others. Bytes are checked before anything is removed."""
    places: dict[Digest, list[str]] = {}
    for modality in MODALITIES:
        for row in lake.tables.concat("items", modality, columns=["digest", "source_ref"]).to_pylist():
            places.setdefault(row["digest"], []).append(row["source_ref"])
    for digest in digests:
        data = next((found for ref in places.get(digest, ()) if (found := _fetched(lake, ref, digest)) is not None), None)
        if data is None:
            yield digest, "no shard that is still there holds these bytes" if digest in places else "it was derived: remove the stamps of its tracks and run `mmlake run`"
            continue
        extension = lake.store.path(digest).suffix.removeprefix(".") if digest in lake.store else "bin"
        lake.store.remove(digest)
        lake.store.put(data, extension=extension)
        yield digest, None


def _fetched(lake: Lake, ref: str, digest: Digest) -> bytes | None:
    try:
        data = sources.fetch(SourceRef.from_json(ref), landing=lake.landing, settings=lake.settings.sources)
    except (UnreadableItem, MmlakeError, OSError):
        return None  # this place is gone; another occurrence may be there
    return data if digest_of(data) == digest else None


def check_tables(lake: Lake, slots: Iterable[Slot]) -> Iterator[str]:
    """A sentence for each stage table whose bytes are not what its stamp says."""
    for slot in slots:
        if not lake.tables.path(slot).exists():
            if slot.modality != "all":
                yield f"table {slot} has a stamp but no rows; run `mmlake run` after removing {slot.shard}.stamp.json"
            continue
        try:
            lake.tables.read(slot, columns=[])
        except MmlakeError as error:
            yield str(error)
