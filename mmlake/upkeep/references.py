"""Which blobs something names: stage tables, the catalog, versions, frozen probes, and what a person holds.

A blob is identified by the first 64 bits of its digest, so that ten million take 80 MB. Where two digests share
them, which chance brings about once in a million lakes of that size, a blob is kept that nothing names; never is one
lost that something does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.publish import pinned_probes
from mmlake.publish.pins import pinned_blobs
from mmlake.records import Digest, is_digest
from mmlake.steps import all_begun, aside_tables


def marks_of(digests: Iterable[Digest]) -> np.ndarray:
    """The first 64 bits of each digest, uint64, in the order given."""
    joined = "".join(digest[:16] for digest in digests)
    return np.frombuffer(bytes.fromhex(joined), dtype=">u8").astype(np.uint64)


def referenced(lake: Lake) -> np.ndarray:
    """The marks of every blob that something names, uint64, sorted, each once."""
    return np.unique(np.concatenate([np.empty(0, np.uint64), *(marks_of(digests) for digests in _named(lake))]))


def is_named(marks: np.ndarray, named: np.ndarray) -> np.ndarray:
    """Which of the marks occur in the sorted marks `named`; bool, shape of `marks`."""
    if not len(named):
        return np.zeros(len(marks), bool)
    at = np.minimum(np.searchsorted(named, marks), len(named) - 1)
    occurs: np.ndarray = named[at] == marks
    return occurs


def _named(lake: Lake) -> Iterator[list[Digest]]:
    """Every list of digests that keeps blobs alive, one in memory at a time."""
    of_tracks = ["digest", "audio_digest", "frames_digest", "keyframes"]
    for tables, modality in itertools.product(
        (lake.tables, aside_tables(lake), *all_begun(lake)), lake.parts.modalities
    ):
        for items in tables.scan_parts("items", modality, columns=["digest", "parent_digest"]):
            yield _digests(items, "digest") + _digests(items, "parent_digest")
        for tracks in tables.scan_parts("tracks", modality, columns=of_tracks):
            frames = pc.struct_field(pc.list_flatten(tracks.column("keyframes")), "digest")
            derived = _digests(tracks, "audio_digest") + _digests(tracks, "frames_digest")
            yield _digests(tracks, "digest") + derived + frames.to_pylist()
    # The catalog may be older than the tables, and a version can still be published from it.
    blob = "parent_digest" if "parent_digest" in lake.catalog.columns() else "digest"
    yield _digests(lake.catalog.read([blob]), blob)
    for version in lake.versions.versions():
        for items in lake.versions.iter_items(version):
            yield _digests(items, "parent_digest")
    yield from pinned_blobs(lake)
    if (probes := pinned_probes(lake)) is not None:
        yield [
            digest
            for probe in probes.probes
            for digest in (
                *probe.relevant,
                *probe.hard_negatives,
                *((probe.query_digest,) if probe.query_digest else ()),
            )
        ]
    yield list(held_by_hand(lake))


def named_units(lake: Lake) -> set[Digest]:
    """The units of all tables and of all versions, of which cuts may be on disk."""
    found: set[Digest] = set()
    for modality, row in lake.parts.modalities.items():
        if row.splitter is not None:
            for units in lake.tables.scan_parts("units", modality, columns=["digest"]):
                found.update(units.column("digest").to_pylist())
    for version in lake.versions.versions():
        for parts in lake.versions.iter_items(version):
            found.update(parts.filter(pc.is_valid(parts["start_us"])).column("digest").to_pylist())
    return found


def held_by_hand(lake: Lake) -> Iterator[Digest]:
    """Digests that stand in the files of `<lake>/holds`, one a line; text behind a digest and lines that start with
    # are for people."""
    for path in sorted((lake.root / "holds").glob("*")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if not is_digest(words[0]):
                raise SettingsError(
                    f"{path}, line {number}: {words[0][:80]!r} is no digest of 64 hexadecimal characters; correct "
                    "the line, or begin it with #"
                )
            yield words[0]


def _digests(table: pa.Table, column: str) -> list[Digest]:
    digests: list[Digest] = table.column(column).drop_null().to_pylist()
    return digests
