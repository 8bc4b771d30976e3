"""The training shards of a version: its samples, with the texts and facts that the lake has of their parts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import shards
from mmlake.lake import Lake
from mmlake.progress import Advance
from mmlake.publish.selected import held_digests
from mmlake.publish.unit_facts import version_tracks
from mmlake.quality.transcript import WRONG_TRANSCRIPT
from mmlake.records import ADMITTED, INTERLEAVED, LEADING_ROLES
from mmlake.workers import usable_cores

_TIERS = ("near", "semantic")


def write_version_shards(lake: Lake, version: str, *, advance: Advance) -> shards.ShardIndex:
    """The finished shards of the version; what is there already and sound, for whichever version, is kept."""
    samples = lake.versions.samples(version)
    with version_tracks(lake, set(held_digests(samples))) as tracks:
        return shards.write_shards(
            samples,
            store=lake.store,
            out=lake.shards_dir,
            manifest_id=lake.versions.resolve(version),
            modalities=(*lake.parts.modalities, INTERLEAVED),
            settings=lake.settings.shards,
            texts=_texts(lake).get,
            tracks=tracks,
            cuts=lake.cuts,
            apart=_apart(lake, samples, lake.versions.excluded(version)),
            workers=lake.settings.compute.workers or usable_cores(),
            advance=advance,
        )


def _apart(lake: Lake, samples: pa.Table, excluded: pa.Table) -> set[str]:
    """Samples that recipes differ about: those with a part that judging or comparing would leave out, left out here or
    not. In shards of their own they leave those of all others to be shared by all recipes."""
    rows = lake.catalog.read(["digest", "status", "rule", "tier"])
    refused = pc.invert(pc.is_in(rows["status"], value_set=pa.array(ADMITTED)))
    repeats = pc.is_in(rows["tier"], value_set=pa.array(_TIERS))
    doubted = pc.fill_null(pc.equal(rows["rule"], WRONG_TRANSCRIPT.name), False)
    parts = samples["parts"].combine_chunks()
    digests, roles = (pc.struct_field(pc.list_flatten(parts), name) for name in ("digest", "role"))
    anywhere = pc.is_in(digests, value_set=rows["digest"].filter(refused).combine_chunks())
    leading = pc.is_in(digests, value_set=rows["digest"].filter(pc.or_(repeats, doubted)).combine_chunks())
    is_out = pc.or_(anywhere, pc.and_(leading, pc.is_in(roles, value_set=pa.array(LEADING_ROLES))))
    owners = pc.list_parent_indices(parts).filter(is_out)
    masked = excluded.filter(pc.invert(excluded["is_whole"]))["sample"]
    return {*samples["sample"].take(owners.unique()).to_pylist(), *masked.to_pylist()}


def _texts(lake: Lake) -> dict[str, str]:
    """Normalized text of every text item: training reads the article, not the page around it."""
    texts: dict[str, str] = {}
    for _, tracks in lake.tables.scan("tracks", "text", columns=["digest", "text"]):
        texts |= {
            digest: text
            for digest, text in zip(tracks.column("digest").to_pylist(), tracks.column("text").to_pylist(), strict=True)
            if text is not None
        }
    return texts
