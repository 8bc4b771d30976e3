"""Who uses how much of the store: sources, versions, and what nobody names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mmlake.errors import BlobCorrupt
from mmlake.lake import Lake
from mmlake.records import Digest
from mmlake.upkeep.references import is_named, marks_of, referenced


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """What one source or one version has in the store."""

    name: str
    num_items: int  # rows of a source, items of a version
    num_blobs: int  # distinct
    size_bytes: int  # of the distinct blobs
    exclusive_bytes: int  # of the blobs that no other source (or version) has


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """The store by source, by version, and in all."""

    sources: tuple[Share, ...]
    versions: tuple[Share, ...]
    num_blobs: int
    size_bytes: int
    unnamed_blobs: int
    unnamed_bytes: int
    missing_blobs: int  # of sources and versions, that the store does not have: they count no bytes

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def usage(lake: Lake) -> Usage:
    """The store as it is now; blobs are looked up by size, not read. Raises BlobCorrupt where a pack has no index: its
    blobs would count as gone."""
    if broken := lake.store.broken_packs():
        raise BlobCorrupt(f"pack {broken[0].name} has lost its index, or it is damaged; run `mmlake fsck --repair`")
    named, sizes = referenced(lake), dict[Digest, int]()
    unnamed_blobs = unnamed_bytes = 0
    for digest in lake.store.digests():
        sizes[digest] = lake.store.size(digest)
    if sizes:
        loose = ~is_named(marks_of(sizes), named)
        unnamed_blobs, unnamed_bytes = (
            int(loose.sum()),
            int(np.fromiter(sizes.values(), np.int64, len(sizes))[loose].sum()),
        )
    of_sources, of_versions = _held(_by_source(lake)), _held(_by_version(lake), names=_versions(lake).values())
    wanted = set[Digest]().union(*of_sources[1].values(), *of_versions[1].values())
    return Usage(
        sources=_shares(*of_sources, sizes),
        versions=_shares(*of_versions, sizes),
        num_blobs=len(sizes),
        size_bytes=sum(sizes.values()),
        unnamed_blobs=unnamed_blobs,
        unnamed_bytes=unnamed_bytes,
        missing_blobs=len(wanted - sizes.keys()),
    )


def _by_source(lake: Lake) -> Iterator[tuple[str, Digest | None]]:
    for modality in lake.parts.modalities:
        for items in lake.tables.scan_parts("items", modality, columns=["digest", "source"]):
            yield from zip(items.column("source").to_pylist(), items.column("digest").to_pylist(), strict=True)


def _versions(lake: Lake) -> dict[str, str]:
    """Id -> names of every version that has one; a version that has several names holds its bytes once."""
    names: dict[str, list[str]] = {}
    for name, id_ in sorted(lake.versions.tags().items()):
        names.setdefault(id_, []).append(name)
    return {id_: ", ".join(known_as) for id_, known_as in names.items()}


def _by_version(lake: Lake) -> Iterator[tuple[str, Digest | None]]:
    for id_, known_as in _versions(lake).items():
        yield from ((known_as, digest) for digest in lake.versions.items(id_).column("parent_digest").to_pylist())


def _held(
    pairs: Iterable[tuple[str, Digest | None]], *, names: Iterable[str] = ()
) -> tuple[dict[str, int], dict[str, set[Digest]]]:
    """(how many pairs each name has, its distinct digests). names: those that are counted also where no pair has
    them."""
    held: dict[str, set[Digest]] = {}
    counts = dict.fromkeys(names, 0)
    for name, digest in pairs:
        counts[name] = counts.get(name, 0) + 1
        if digest is not None:
            held.setdefault(name, set()).add(digest)
    return counts, held


def _shares(counts: dict[str, int], held: dict[str, set[Digest]], sizes: dict[Digest, int]) -> tuple[Share, ...]:
    """The share of every name, sorted. counts, held: as `_held` gives them."""
    owners: dict[Digest, int] = {}
    for digests in held.values():
        for digest in digests:
            owners[digest] = owners.get(digest, 0) + 1
    return tuple(
        Share(
            name=name,
            num_items=counts[name],
            num_blobs=len(held.get(name, ())),
            size_bytes=sum(sizes.get(digest, 0) for digest in held.get(name, ())),
            exclusive_bytes=sum(sizes.get(digest, 0) for digest in held.get(name, ()) if owners[digest] == 1),
        )
        for name in sorted(counts)
    )
