"""Which samples go into which shard, and the digest of all that its bytes depend on.

Samples of a source shard stay together, so that new data leaves the shards of old data as they are.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import ContractBroken, SettingsError
from mmlake.formats.tar import BLOCK
from mmlake.records import INTERLEAVED, LEADING_ROLES, canonical_json, digest_of
from mmlake.shards.contents import Contents
from mmlake.shards.index import PARQUET, TAR
from mmlake.shards.layout import Kind, part_members
from mmlake.shards.parquet_writer import ENDINGS
from mmlake.shards.samples import SampleRows, part_column, part_kinds
from mmlake.shards.settings import ShardSettings

_FORMAT = 4  # counted up when the bytes of a shard change for the same samples
_JSON_BYTES = 2048  # what a sample's JSON member takes at most, as a rule, without fields, ids, parts and texts
_US_PER_TRACK_BYTE = 50  # 20 kB for a second of a span: its sound, keyframes and words
_US_PER_TEXT_BYTE = 20_000  # 50 bytes for a second of speech
_PART_JSON_BYTES = 400  # what a part adds to it, without fields and text


_NO_CONTENTS = Contents()
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """The samples of one file."""

    name: str  # without extension; its place in this version
    modality: str
    endings: list[str] | None  # of the members of every sample, in order; None where samples differ: interleaved
    rows: np.ndarray = field(repr=False)  # int64, increasing: numbers of the samples in `SampleRows`
    digest: str  # of everything that its bytes depend on; its name among the objects
    format: str  # TAR or PARQUET
    size_bytes: int  # of its samples in a tar, as a rule


class _Group(NamedTuple):
    """What the samples of a shard have in common, in the order of the shards."""

    place: int  # of the modality
    endings: tuple[str, ...]  # empty for interleaved samples, of which each has its own
    shard: str  # key of the source shard
    is_apart: bool


def plan(
    samples: SampleRows,
    *,
    modalities: Sequence[str],
    manifest_id: str,
    settings: ShardSettings,
    contents: Contents = _NO_CONTENTS,
    apart: Collection[str] = _NONE,
) -> list[ShardPlan]:
    """Every shard of the version, by modality in the given order, interleaved last, then by the endings of the members,
    by source shard, and by sample. Every sample is in exactly one. Raises SettingsError for a sample of another
    modality, ContractBroken for one that no part leads.

    apart: samples that share no shard with others: those that some versions leave out, so that these can take the
    others' shards as they are. manifest_id: for errors alone.
    """
    order = list(dict.fromkeys([*modalities, INTERLEAVED]))
    groups, sizes, texts = _groups(samples, order, contents=contents, apart=apart, manifest_id=manifest_id)
    prefixes = _prefixes(samples)
    shards: list[ShardPlan] = []
    numbers = dict.fromkeys(order, 0)
    for group in sorted(groups):
        modality, rows = order[group.place], np.array(groups[group], dtype=np.int64)
        endings = list(group.endings) or None
        for first, last in _cuts(prefixes[rows], sizes[rows], settings):
            facts: dict[str, Any] = {
                "format": _FORMAT,
                "modality": modality,
                "normalized": contents.texts is not None,
                "tracks": contents.tracks is not None,
                "endings": endings,
                "samples": samples.digests(rows[first:last]),
                "contents": contents.digest(samples, rows[first:last]),
            }
            is_text = modality == "text" and group.endings == ENDINGS
            form = PARQUET if is_text and _is_small(texts[rows[first:last]], settings) else TAR
            if form == PARQUET:
                weights = samples.weights(rows[first:last]).tobytes()
                facts |= {"parquet": pa.__version__, "weights": digest_of(weights)}
            digest = digest_of(canonical_json(facts).encode())
            name = f"{modality}-{numbers[modality]:06d}"
            size_bytes = int(sizes[rows[first:last]].sum())
            shards.append(ShardPlan(name, modality, endings, rows[first:last], digest, form, size_bytes))
            numbers[modality] += 1
    return shards


def _is_small(text_bytes: np.ndarray, settings: ShardSettings) -> bool:
    """Whether texts of these sizes go into Parquet."""
    if settings.small != "auto":
        return settings.small == PARQUET
    return len(text_bytes) >= settings.min_short_texts and float(text_bytes.mean()) <= settings.short_text_bytes


def _groups(
    samples: SampleRows, order: list[str], *, contents: Contents, apart: Collection[str], manifest_id: str
) -> tuple[dict[_Group, array[int]], np.ndarray, np.ndarray]:
    """(numbers of the samples by group; bytes of every sample in a tar, as a rule; bytes of its parts)."""
    groups: dict[_Group, array[int]] = {}
    named = pa.array(list(apart), pa.string())
    places, first = {modality: place for place, modality in enumerate(order)}, 0
    sizes, contained = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for batch in samples.batches:
        modalities = batch.column("modality").to_pylist()
        is_apart = pc.is_in(batch.column("sample"), value_set=named).to_pylist()
        found = part_kinds(batch, tracks=contents.tracks, recordings_sound=contents.recordings_sound)
        rows = zip(modalities, _repeated(batch.column("shard")), is_apart, found, strict=True)
        for number, (modality, shard, alone, kinds) in enumerate(rows, start=first):
            if modality not in places:
                raise SettingsError(
                    f"version {manifest_id[:12]} holds samples of the modality {modality!r}, expected one of "
                    f"{', '.join(order)}; open the lake with the tables that it was built with"
                )
            endings = () if modality == INTERLEAVED else _endings(kinds, normalized=contents.texts is not None)
            if endings is None:
                raise ContractBroken(
                    f"sample {batch.column('sample')[number - first].as_py()[:12]} ({modality}) has parts "
                    f"{[kind.role for kind in kinds]}, expected one of {' or '.join(LEADING_ROLES)}; publish the "
                    "version again"
                )
            group = _Group(places[modality], endings, shard, alone)
            groups.setdefault(group, array("q")).append(number)
        first += batch.num_rows
        sizes.append(_sizes(batch))
        owners = pc.list_parent_indices(batch.column("parts")).to_numpy()
        contained.append(
            np.bincount(owners, part_column(batch, "size_bytes").to_numpy(), batch.num_rows).astype(np.int64)
        )
    return groups, np.concatenate(sizes), np.concatenate(contained)


def _repeated(texts: pa.Array) -> Iterator[str]:
    """The texts, few of which differ, empty where there is none; equal ones are one object."""
    coded = texts.fill_null("").dictionary_encode()
    values = coded.dictionary.to_pylist()
    return (values[at] for at in coded.indices.to_pylist())


def _endings(kinds: tuple[Kind, ...], *, normalized: bool) -> tuple[str, ...] | None:
    members = part_members(kinds, is_interleaved=False, is_normalized=normalized)
    return (*(member.ending for member in members), "json") if members else None


def _sizes(batch: pa.RecordBatch) -> np.ndarray:
    """Bytes that each sample takes in a tar, as a rule: members with their headers, and what the JSON member repeats;
    int64 of shape (num_samples,)."""
    count, parts = batch.num_rows, batch.column("parts")
    leads = pc.is_in(part_column(batch, "role"), value_set=pa.array(LEADING_ROLES)).to_numpy(zero_copy_only=False)
    lengths = pc.subtract(part_column(batch, "end_us"), part_column(batch, "start_us"))
    lengths_us = pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False)
    sizes = part_column(batch, "size_bytes").to_numpy()
    # a span of a transcript has no size of its own
    sizes = np.where(leads | (lengths_us == 0), sizes, np.minimum(sizes, lengths_us // _US_PER_TEXT_BYTE))
    sizes = sizes * np.where(leads, 1, 2) + np.where(leads, lengths_us // _US_PER_TRACK_BYTE, 0)
    sizes += 2 * BLOCK + _PART_JSON_BYTES
    sizes += _lengths(part_column(batch, "fields_json"))
    ids = batch.column("sample_ids")
    of_parts = np.bincount(pc.list_parent_indices(parts).to_numpy(), sizes, count)
    of_ids = np.bincount(pc.list_parent_indices(ids).to_numpy(), _lengths(ids.flatten()) + 3, count)
    fixed = _lengths(batch.column("fields_json")) + _JSON_BYTES + 2 * BLOCK
    total: np.ndarray = (of_parts + of_ids + fixed).astype(np.int64)
    return total


def _lengths(texts: pa.Array) -> np.ndarray:
    lengths: np.ndarray = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)


def _prefixes(samples: SampleRows) -> np.ndarray:
    """The first 64 bits of every sample's name, uint64. Raises ContractBroken for a name that is no SHA-256."""
    found = [np.zeros(0, np.uint64)]
    for batch in samples.batches:
        heads = "".join(pc.utf8_slice_codeunits(batch.column("sample"), 0, 16).to_pylist())
        try:
            prefixes = np.frombuffer(bytes.fromhex(heads), ">u8")
        except ValueError:
            prefixes = np.zeros(0)
        if len(prefixes) != batch.num_rows:
            raise ContractBroken("a sample is not named by a SHA-256 in hexadecimal; publish the version again")
        found.append(prefixes.astype(np.uint64))
    return np.concatenate(found)


def _cuts(prefixes: np.ndarray, sizes: np.ndarray, settings: ShardSettings) -> Iterator[tuple[int, int]]:
    """(first, end) of each shard over samples of these sizes, in order of their names: all of them where they fit into
    one, else those whose names begin with a 0 bit, then those with a 1, each cut by the next bit likewise. A sample
    that is larger than a shard has its own.

    A sample that comes or goes changes the shard that its name falls into, and no other: where shards were filled one
    after the other, every one behind it was cut elsewhere. prefixes: uint64, increasing.
    """
    ends = np.concatenate([[0], np.cumsum(sizes)])
    stretches = [(0, len(sizes), 63)]
    while stretches:
        first, last, bit = stretches.pop()
        fits = ends[last] - ends[first] <= settings.shard_bytes and last - first <= settings.max_samples
        if fits or last - first <= 1 or bit < 0:
            if last > first:
                yield first, last
            continue
        ones = (prefixes[first:last] >> np.uint64(bit)) & np.uint64(1)
        middle = first + int(np.searchsorted(ones, 1))
        stretches += [(middle, last, bit - 1), (first, middle, bit - 1)]
