"""Lost and changed blobs put back: from their place in the landing zone, or by making them again where they were
derived."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mmlake import sources
from mmlake.border import is_machine_fault
from mmlake.errors import MmlakeError, RemoteUnavailable, UnreadableItem
from mmlake.lake import Lake
from mmlake.records import Digest, SourceRef, digest_of
from mmlake.tables import Slot
from mmlake.upkeep.integrity import sound_tables


@dataclass(frozen=True, slots=True)
class Repair:
    """What became of one unit: a blob, a table, a version, a file."""

    unit: str
    outcome: str  # repaired, requested (made again at the next run), replaced (not as it was) or lost
    detail: str = ""


def repair_blobs(lake: Lake, digests: Iterable[Digest]) -> Iterator[Repair]:
    """The outcome for each blob. What is there but wrong goes into the store's quarantine once right bytes are at
    hand, or the blob is given up."""
    wanted = set(digests)
    places, derived, lists = _places(lake, wanted), _derived(lake, wanted), _lists(lake)
    for digest in sorted(wanted):
        data = next(
            (found for place in places.get(digest, ()) if (found := _fetched(lake, place.ref, digest)) is not None),
            None,
        )
        if digest in lake.store:
            extension = lake.store.extension(digest)
            lake.store.quarantine(digest)
        else:
            extension = "bin"
        if data is not None:
            lake.store.put(data, extension=extension)
            yield Repair(digest, "repaired")
        elif (
            listed := next((place for place in places.get(digest, ()) if place.slot.shard in lists), None)
        ) is not None:
            lake.retries.request(listed.slot, [listed.item_id])
            yield Repair(
                digest,
                "requested",
                f"it came from an address in the list {listed.slot.shard}; `mmlake run` fetches it again",
            )
        elif digest in derived:
            slot, parent = derived[digest]
            lake.retries.request(slot, [parent])
            yield Repair(digest, "requested", f"it was derived from {parent}; `mmlake run` makes it again")
        elif digest in places:
            yield Repair(digest, "lost", "no shard that is still there holds these bytes")
        else:
            yield Repair(digest, "lost", "no table names it")


@dataclass(frozen=True, slots=True)
class _Place:
    """One occurrence of a blob."""

    slot: Slot  # of its row
    item_id: str
    ref: str  # the locator in JSON


def _places(lake: Lake, wanted: set[Digest]) -> dict[Digest, list[_Place]]:
    """Where the bytes of these blobs were found."""
    places: dict[Digest, list[_Place]] = {}
    for modality in lake.parts.modalities:
        for shard, items in sound_tables(lake, "items", modality, columns=["item_id", "digest", "source_ref"]):
            for item_id, digest, ref in zip(
                *(items.column(name).to_pylist() for name in ("item_id", "digest", "source_ref")), strict=True
            ):
                if digest in wanted:
                    places.setdefault(digest, []).append(_Place(Slot("items", modality, shard), item_id, ref))
    return places


def _lists(lake: Lake) -> set[str]:
    """The shards that are lists of addresses."""
    return {key for key, shard in lake.registry.known().items() if shard.format == sources.URL_LIST}


def _derived(lake: Lake, wanted: set[Digest]) -> dict[Digest, tuple[Slot, Digest]]:
    """Of these blobs, those that decoding made: the table that makes them, and the item they are made from."""
    found: dict[Digest, tuple[Slot, Digest]] = {}
    for modality in ("video", "audio"):
        names = ["digest", "audio_digest", "frames_digest", "keyframes"]
        for shard, tracks in sound_tables(lake, "tracks", modality, columns=names):
            for row in tracks.to_pylist():
                single = (row["audio_digest"], row["frames_digest"])
                for digest in (*single, *(frame["digest"] for frame in row["keyframes"])):
                    if digest in wanted:
                        found[digest] = (Slot("tracks", modality, shard), row["digest"])
    return found


def _fetched(lake: Lake, ref: str, digest: Digest) -> bytes | None:
    """The bytes from their place in the landing zone; None where they are not there. Raises where the place does not
    answer: a blob is not given up for that."""
    try:
        data = sources.fetch(
            SourceRef.from_json(ref),
            landing=lake.landing,
            settings=lake.settings.sources,
            parsed=lake.parsed_files,
            connectors=lake.parts.connectors,
        )
    except (FileNotFoundError, NotADirectoryError, UnreadableItem):
        return None  # this place is gone; another occurrence may be there
    except (MmlakeError, OSError) as error:
        if isinstance(error, RemoteUnavailable) or (isinstance(error, OSError) and is_machine_fault(error)):
            raise
        return None
    return data if digest_of(data) == digest else None
