"""Is everything on disk what its name or stamp says? Blobs are hashed, stage tables are hashed; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import contracts
from mmlake.errors import MmlakeError, SettingsError, TableCorrupt
from mmlake.lake import Lake
from mmlake.progress import Advance, silent
from mmlake.publish.catalog import NAME as CATALOG
from mmlake.records import Digest, digest_of
from mmlake.schemas.samples import SAMPLES
from mmlake.steps import OVER_ALL
from mmlake.tables import ALL, Slot


def named_blobs(lake: Lake) -> list[Digest]:
    """Every digest that is in the store, or that an item or its tracks name (keyframes, sound tracks, small frames),
    sorted: a lost blob is only known by its row."""
    named: set[Digest] = set()
    for modality in lake.parts.modalities:
        for _, items in sound_tables(lake, "items", modality, columns=["digest"]):
            named.update(contracts.digests(items))
        for _, tracks in sound_tables(lake, "tracks", modality, columns=["audio_digest", "frames_digest", "keyframes"]):
            frames = pc.struct_field(pc.list_flatten(tracks["keyframes"]), "digest")
            derived = (tracks[name].drop_null().to_pylist() for name in ("audio_digest", "frames_digest"))
            named.update(*derived, frames.drop_null().to_pylist())
    return sorted(named | set(lake.store.digests()))


def sound_tables(lake: Lake, table: str, modality: str, *, columns: list[str]) -> Iterator[tuple[str, pa.Table]]:
    """(shard, rows) of every table of a stage that can be read; `check_tables` reports the others."""
    for shard in lake.tables.shards(table, modality):
        try:
            yield shard, lake.tables.read(Slot(table, modality, shard), columns=columns)
        except TableCorrupt:
            continue


def sampled(digests: Sequence[str], fraction: float, *, seed: str) -> list[str]:
    """That fraction of the digests, or of other names, rounded up and the same for the same seed; another seed, such as
    the day, gives others.

    fraction: in (0, 1]. Raises SettingsError.
    """
    if not 0 < fraction <= 1:
        raise SettingsError(f"sample fraction {fraction} not in (0, 1]; 0.1 checks a tenth of the blobs")
    count = -int(-len(digests) * fraction // 1)
    return sorted(sorted(digests, key=lambda digest: digest_of(f"{seed}{digest}".encode()))[:count])


def check_blobs(lake: Lake, digests: Iterable[Digest], *, advance: Advance = silent) -> Iterator[tuple[Digest, str]]:
    """(digest, "missing" or "corrupt") of each blob whose bytes are not what its name says. advance: called for each
    blob that is done."""
    return lake.store.verify_all(digests, advance=advance)


def _has_rows(slot: Slot) -> bool:
    """Whether the slot is of a table, and no stamp that stands for what is kept elsewhere: the catalog, the samples of
    all shards, what is made per version."""
    if slot.modality == OVER_ALL:
        return slot.table == SAMPLES.name and slot.shard != ALL
    return slot.table != CATALOG


def check_tables(lake: Lake, slots: Iterable[Slot]) -> Iterator[str]:
    """A sentence for each slot whose stamp cannot be read, and each stage table whose bytes are not what its stamp
    says."""
    for slot in slots:
        try:
            if lake.tables.path(slot).exists():
                lake.tables.read(slot, columns=[])
            elif lake.tables.stamp(slot) is not None and _has_rows(slot):
                yield f"table {slot} has a stamp but no rows; run `mmlake run` after removing {slot.shard}.stamp.json"
        except MmlakeError as error:
            yield str(error)
