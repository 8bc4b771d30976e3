"""Why one version holds an item or leaves it out, from the version alone: what it was made with is not made again.

Enters: a version and a digest, also one that no table knows any more. Leaves: the samples that hold the item, and the
causes that keep it out of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.drawing import number_of
from mmlake.errors import BlobMissing
from mmlake.lake import Lake
from mmlake.provenance import AmbiguousDigest
from mmlake.provenance.evidence import Found
from mmlake.provenance.spans import units_of
from mmlake.provenance.why import checked_prefix
from mmlake.records import Digest
from mmlake.versions.sample_schemas import EXCLUDED, VERSION_SAMPLES
from mmlake.versions.segments import Segment

_MAX_LISTED = 50  # samples of each kind that are listed; all are counted
_MAX_CAUSES = 3  # that are said in one line
ABSENT = "no sample of the lake had it when the version was made"


@dataclass(kw_only=True, slots=True)
class Mentions:
    """What a version says of a digest and of the units that the item is cut to."""

    held: list[dict[str, Any]] = field(default_factory=list)  # sample, shard, digest, role, position, start_s, ...
    left_out: list[dict[str, Any]] = field(default_factory=list)  # sample, shard, digest, role, is_whole, cause, detail
    num_held: int = 0
    num_left_out: int = 0
    causes: Counter[str] = field(default_factory=Counter)  # of all that is left out, with their details

    @property
    def cause(self) -> str:
        """Why no sample of the version holds it."""
        said = [text for text, _ in self.causes.most_common(_MAX_CAUSES)]
        more = len(self.causes) - len(said)
        return ("; ".join(said) + (f"; and {more} more" if more else "")) or ABSENT


class Search:
    """What versions say of a digest. Versions share what they share: a segment that several of them have is read once,
    however many versions there are."""

    def __init__(self, lake: Lake, digest: Digest, units: Collection[Digest] = ()) -> None:
        """units: what the item is cut to, since what is left out is named by its own digest alone."""
        self._versions, self._digest = lake.versions, digest
        self._names = pa.array([digest, *units], pa.string())
        self._held: dict[str, tuple[int, list[dict[str, Any]]]] = {}  # of each segment: how many parts, and the first
        self._left_out: dict[str, pa.Table] = {}

    def mentions(self, version: str) -> Mentions:
        """Where the version holds the digest, and where it leaves it out. Raises RefMissing, BlobMissing,
        BlobCorrupt."""
        found = Mentions()
        for segment in self._versions.tree(version).segments:
            num, listed = self._parts_of(segment)
            found.num_held += num
            found.held += listed[: _MAX_LISTED - len(found.held)]
        parts = [self._out_of(segment) for segment in self._versions.read(version).excluded_segments]
        out = pa.concat_tables([EXCLUDED.empty_table(), *parts]).combine_chunks()
        out = out.take(pc.sort_indices(out["sample"]))
        found.num_left_out = out.num_rows
        for cause, detail in zip(out["cause"].to_pylist(), out["detail"].to_pylist(), strict=True):
            found.causes[f"{cause}: {detail}" if detail else cause] += 1
        found.left_out = out.slice(0, _MAX_LISTED).to_pylist()
        return found

    def _parts_of(self, segment: Segment) -> tuple[int, list[dict[str, Any]]]:
        if segment.digest not in self._held:
            samples = self._versions.segments.read(segment, VERSION_SAMPLES)
            owners, parts = _flattened(samples)
            mask = pc.or_(pc.is_in(parts["digest"], self._names), pc.equal(parts["parent_digest"], self._digest))
            places = pc.indices_nonzero(pc.fill_null(mask, False))
            listed = [
                _held(samples.slice(owners[place].as_py(), 1).to_pylist()[0], parts.slice(place, 1))
                for place in places[:_MAX_LISTED].to_pylist()
            ]
            self._held[segment.digest] = len(places), listed
        return self._held[segment.digest]

    def _out_of(self, segment: Segment) -> pa.Table:
        if segment.digest not in self._left_out:
            out = self._versions.segments.read(segment, EXCLUDED)
            self._left_out[segment.digest] = out.filter(pc.fill_null(pc.is_in(out["digest"], self._names), False))
        return self._left_out[segment.digest]


def units_in(lake: Lake, digest: Digest) -> list[Digest]:
    """What the item is cut to now; empty where it is whole, or a unit itself."""
    return [row["digest"] for row in units_of(lake.tables, digest)]


def _flattened(samples: pa.Table) -> tuple[pa.Array, pa.Table]:
    """(row of its sample, part) of every part."""
    lists = samples["parts"].combine_chunks()
    return pc.list_parent_indices(lists), pa.Table.from_struct_array(pc.list_flatten(lists))


def _held(sample: dict[str, Any], part: pa.Table) -> dict[str, Any]:
    row = part.to_pylist()[0]
    names = ("sample", "shard", "weight", "sources", "licences", "sample_ids")
    times = {f"{side}_s": None if row[f"{side}_us"] is None else row[f"{side}_us"] / 1e6 for side in ("start", "end")}
    return {name: sample[name] for name in names} | {name: row[name] for name in ("digest", "role", "position")} | times


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionAnswer:
    """Why a version holds an item, or leaves it out."""

    digest: Digest
    kind: str | None  # item, clip, segment, gap, keyframe, audio track; None where no table knows it any more
    item: Digest  # the digest itself, or what it lies in or was derived from
    version: str  # its id
    names: tuple[str, ...]  # branches and tags that name it
    is_draft: bool
    recipe: str
    created_at: str | None  # null in versions that were made by an earlier release
    num_held: int
    num_left_out: int
    held: tuple[dict[str, Any], ...]
    left_out: tuple[dict[str, Any], ...]
    conclusion: str  # one sentence

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain values."""
        return asdict(self)

    def to_text(self) -> str:
        """The answer as plain lines for a terminal."""
        named = f" ({', '.join(self.names)})" if self.names else ""
        lines = [f"{self.kind or 'digest'} {self.digest}", f"  {self.conclusion}", ""]
        if self.kind is None:
            lines += ["no table of the lake knows it any more; what follows is what the version says", ""]
        elif self.item != self.digest:
            lines += [f"it lies in or was made of {self.item}", ""]
        lines += [
            f"version {self.version}{named}{', a draft' if self.is_draft else ''}",
            f"  recipe {self.recipe}, made {self.created_at}",
        ]
        lines += _listed("held", self.held, self.num_held, _held_line)
        return "\n".join(lines + _listed("left out", self.left_out, self.num_left_out, _out_line))


def _listed(title: str, rows: Sequence[dict[str, Any]], count: int, line: Callable[[dict[str, Any]], str]) -> list[str]:
    more = [f"  and {count - len(rows)} more"] if count > len(rows) else []
    return ["", f"{title} ({count})", *map(line, rows), *more] if count else []


def _held_line(row: dict[str, Any]) -> str:
    span = "" if row["start_s"] is None else f", {row['start_s']:.3f} - {row['end_s']:.3f} s"
    ids = f" ({', '.join(row['sample_ids'][:3])})" if row["sample_ids"] else ""
    return f"  sample {row['sample'][:16]}{ids} of {row['shard']}: {row['role']}{span}, weight {row['weight']:g}"


def _out_line(row: dict[str, Any]) -> str:
    why = f"{row['cause']}: {row['detail']}" if row["detail"] else row["cause"]
    what = "the sample" if row["is_whole"] else "this part alone"
    return f"  sample {row['sample'][:16]} of {row['shard']}: {row['role']}, {what} is out by {why}"


def answer_of(lake: Lake, prefix: str, version: str) -> VersionAnswer:
    """Why the version holds the item, or leaves it out. prefix: first characters of the digest of an item, clip,
    segment, keyframe or audio track; of one that the lake does not know any more, as after an erasure, of what the
    version names. version: any ref. Raises RefMissing, AmbiguousDigest, BlobMissing where neither knows it."""
    made = lake.versions.read(version)
    prefix, kind = checked_prefix(prefix), None
    try:
        known = Found.search(lake.tables, prefix)
    except BlobMissing as error:
        digest = item = _only_in(lake, made.id, prefix, error)
        found = Search(lake, digest).mentions(made.id)
    else:
        digest, kind, item = known.digest, known.kind, known.item
        # a keyframe or a sound track goes where its item goes
        found = Search(lake, known.unit, units_in(lake, known.unit)).mentions(made.id)
    names = sorted(name for name, id_ in (lake.versions.tags() | lake.versions.branches()).items() if id_ == made.id)
    return VersionAnswer(
        digest=digest,
        kind=kind,
        item=item,
        version=made.id,
        names=tuple(names),
        is_draft=lake.versions.is_draft(made.id),
        recipe=made.recipe.name,
        created_at=made.created_at,
        num_held=found.num_held,
        num_left_out=found.num_left_out,
        held=tuple(found.held),
        left_out=tuple(found.left_out),
        conclusion=_conclusion(version, found, is_gap=kind == "gap"),
    )


def _conclusion(version: str, found: Mentions, *, is_gap: bool) -> str:
    if is_gap:
        return f"{version} does not hold it: no version holds a gap between units."
    if not found.num_held:
        return f"{version} does not hold it: {found.cause}."
    held = f"{version} holds it in {number_of(len({row['sample'] for row in found.held}), 'sample')}"
    if found.num_held > len(found.held):
        held = f"{version} holds it {found.num_held:,} times"
    return held + (f"; left out {number_of(found.num_left_out, 'time')}: {found.cause}." if found.num_left_out else ".")


def _only_in(lake: Lake, version: str, prefix: str, error: BlobMissing) -> Digest:
    """The one digest of the version that begins with the prefix."""
    known = set[Digest]()
    for samples in lake.versions.iter_samples(version):
        _, parts = _flattened(samples)
        for name in ("digest", "parent_digest"):
            known.update(parts[name].filter(pc.fill_null(pc.starts_with(parts[name], prefix), False)).to_pylist())
    out = lake.versions.excluded(version)["digest"]
    known.update(out.filter(pc.fill_null(pc.starts_with(out, prefix), False)).to_pylist())
    if len(known) > 1:
        raise AmbiguousDigest(prefix, sorted(known))
    if not known:
        raise BlobMissing(f"{error}; nor does version {version[:12]} name it") from error
    return known.pop()
