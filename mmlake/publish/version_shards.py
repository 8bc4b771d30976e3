"""The training shards of a version: its samples, with the texts and facts that it is pinned to."""

from __future__ import annotations

import pyarrow.compute as pc

from mmlake import shards
from mmlake.lake import Lake
from mmlake.progress import Advance
from mmlake.publish.pins import APART, pin, pinned_texts
from mmlake.publish.unit_facts import version_tracks
from mmlake.records import INTERLEAVED
from mmlake.workers import usable_cores


def write_version_shards(lake: Lake, version: str, *, advance: Advance) -> shards.ShardIndex:
    """The finished shards of the version; what is there already and sound, for whichever version, is kept. Raises
    BlobMissing, BlobCorrupt where a pack that it is pinned to is no longer what it was."""
    id_, samples = lake.versions.resolve(version), lake.versions.samples(version)
    held = pc.unique(pc.struct_field(pc.list_flatten(samples["parts"]), "digest"))
    pins = pin(lake, id_, samples)
    with version_tracks(pins.facts(), held) as tracks:
        return shards.write_shards(
            samples,
            store=lake.store,
            out=lake.shards_dir,
            manifest_id=id_,
            modalities=(*lake.parts.modalities, INTERLEAVED),
            settings=lake.settings.shards,
            texts=pinned_texts(pins, held),
            tracks=tracks,
            cuts=lake.cuts,
            unsaid=_without_transcript(lake, id_),
            apart={name for table in pins.tables(APART) for name in table["sample"].to_pylist()},
            workers=lake.settings.compute.workers or usable_cores(),
            hashed=hashed_shards(lake),
            advance=advance,
        )


def _without_transcript(lake: Lake, version: str) -> set[str]:
    """The samples whose transcript the version leaves out: subtitles and aligned words say the same once more."""
    excluded = lake.versions.excluded(version)
    is_masked = pc.and_(pc.equal(excluded["role"], "transcript"), pc.invert(excluded["is_whole"]))
    return set(excluded.filter(is_masked)["sample"].to_pylist())


def hashed_shards(lake: Lake, *, begins_anew: bool = False) -> shards.HashedFiles:
    """Which objects of training shards were hashed and are as they were. begins_anew: nothing of it is believed."""
    return shards.HashedFiles(lake.root / "kept" / "shards.hashed", begins_anew=begins_anew)
