"""What the training shards of a version are written from besides its samples and blobs, kept as it was when the version
was made: the texts and facts of its source shards, and which samples are apart.

    <lake>/versions/pins/<version>.json          the packs of a version
    <lake>/versions/packs/<ab>/<digest>.parquet  one pack; its name is the digest of its values

A pack is of a whole source shard, so versions and recipes share it. Tables may be made again with other texts or words:
a version keeps those that it was published with.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.errors import BlobCorrupt, BlobMissing, MmlakeError
from mmlake.lake import Lake
from mmlake.publish.results import read_result
from mmlake.publish.unit_facts import CAPTION_COLUMNS, UNIT_COLUMNS, captions_of_shard, facts_of_shard, with_captions
from mmlake.quality.transcript import WRONG_TRANSCRIPT
from mmlake.recent_files import RecentValues
from mmlake.records import ADMITTED, LEADING_ROLES, canonical_json, digest_of
from mmlake.shards import LATER_FIELDS
from mmlake.store import write_atomically
from mmlake.versions.values import digest_of_values

TEXTS, UNITS, SAID, APART = "texts", "facts", "captions", "apart"
_SCHEMA = "mmlake.pins/1"
_COLUMNS = {
    TEXTS: pa.schema([("digest", pa.string()), ("text", pa.string())]),
    UNITS: UNIT_COLUMNS,
    SAID: CAPTION_COLUMNS,
    APART: pa.schema([("sample", pa.string())]),
}
_TIERS = ("near", "semantic")
_SINGLE_BYTES = 1 << 20  # a smaller pack is decoded sooner than threads are woken for its columns
# packs that hash to their name, by the SHA-256 of their file, which is read each time: two versions share most of them
_checked: RecentValues[tuple[str, str, str], pa.Table] = RecentValues(max_bytes=64 << 20)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pack:
    """One table that a version is pinned to."""

    kind: str  # TEXTS, UNITS and SAID by digest, or APART
    shard: str  # key of the source shard; empty for APART
    digest: str  # of the values
    num_rows: int


class Pins:
    """The packs of one version."""

    def __init__(self, root: Path, version: str, packs: tuple[Pack, ...]) -> None:
        self._root, self._version, self.packs = root, version, packs

    def tables(self, kind: str) -> Iterator[pa.Table]:
        """The packs of that kind, one in memory at a time. Raises BlobMissing, BlobCorrupt."""
        for pack in self.packs:
            if pack.kind == kind:
                yield self.read(pack)

    def facts(self) -> Iterator[pa.Table]:
        """The packs of facts, each with what models say of its units, one in memory at a time. Raises BlobMissing,
        BlobCorrupt."""
        said: dict[str, list[Pack]] = {}
        for pack in self.packs:
            if pack.kind == SAID:
                said.setdefault(pack.shard, []).append(pack)
        for pack in self.packs:
            if pack.kind == UNITS:
                of_shard = [self.read(one) for one in said.get(pack.shard, ())]
                yield with_captions(self.read(pack), pa.concat_tables(of_shard) if of_shard else None)

    def read(self, pack: Pack) -> pa.Table:
        """The rows, checked against the pack's digest. Raises BlobMissing, BlobCorrupt."""
        import pyarrow.parquet as pq

        try:
            data = _path(self._root, pack.digest).read_bytes()
        except FileNotFoundError as error:
            raise BlobMissing(f"{self._name(pack)} is absent from {self._root}; {_REMEDY}") from error
        key = (digest_of(data), pack.digest, pack.kind)
        if (kept := _checked.get(key)) is not None:
            return kept
        try:
            file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
            schema = _columns_of(file.schema_arrow.names, pack.kind)
            table = file.read(schema.names, use_threads=len(data) > _SINGLE_BYTES).select(schema.names).cast(schema)
        except (pa.ArrowException, OSError, ValueError, KeyError):
            table = None
        if table is None or digest_of_values(table)[0] != pack.digest:
            raise BlobCorrupt(f"{self._name(pack)} does not hash to its name; {_REMEDY}")
        for field in _COLUMNS[pack.kind]:
            if field.name not in table.column_names:
                table = table.append_column(field, pa.nulls(table.num_rows, field.type))
        _checked.keep(key, table, table.nbytes)
        return table

    def _name(self, pack: Pack) -> str:
        of = f" of {pack.shard}" if pack.shard else ""
        return f"pack {pack.digest} ({pack.kind}{of}), to which version {self._version[:12]} is pinned,"


def _columns_of(names: Sequence[str], kind: str) -> pa.Schema:
    """The columns of a pack with these names: those of an earlier release lack what came later."""
    return pa.schema([field for field in _COLUMNS[kind] if field.name in names or field.name not in LATER_FIELDS])


_REMEDY = "copy it back, or publish a new version: this one cannot be written as it was"


def pin(lake: Lake, version: str, samples: pa.Table) -> Pins:
    """The pins of the version; made from the tables as they are now where it has none yet. A pack that is lost is put
    back where the tables still hold the same. samples: of the version. version: its id."""
    root = lake.root / "versions"
    if (pins := _read(lake, version)) is None:
        packs = tuple(_write(root, kind, shard, table) for kind, shard, table in _current(lake, version, samples))
        body = {"schema": _SCHEMA, "version": version, "packs": [asdict(pack) for pack in packs]}
        write_atomically(_pins_path(lake, version), canonical_json(body).encode())
        return Pins(root, version, packs)
    if _problems(pins):
        wanted = {pack.digest for pack in pins.packs}
        for kind, shard, table in _current(lake, version, samples):
            if digest_of_values(table)[0] in wanted:
                _write(root, kind, shard, table)
    return pins


def verify_pins(lake: Lake, version: str) -> list[str]:
    """What is wrong with the version's pins, one sentence each; nothing where it never had any. version: its id."""
    try:
        pins = _read(lake, version)
    except BlobCorrupt as error:
        return [str(error)]
    path, recorded = _pins_path(lake, version), _recorded(lake, version)
    if recorded and (pins is None or pins_digest(lake, version) not in recorded):
        what = "is absent" if pins is None else "is not what the version was published with"
        return [f"{path} {what}: the version is no longer pinned to its texts and facts; copy it back"]
    return [] if pins is None else _problems(pins)


def has_readable_pins(lake: Lake, version: str) -> bool:
    """Whether the file of the version's pins says which packs it is pinned to. version: its id."""
    try:
        return _read(lake, version) is not None
    except BlobCorrupt:
        return False


def pins_digest(lake: Lake, version: str) -> str:
    """SHA-256 of the file of the version's pins, which the record of its manifest keeps."""
    return digest_of(_pins_path(lake, version).read_bytes())


def _recorded(lake: Lake, version: str) -> set[str]:
    """The digests of pins that the records of the version keep; none in those of earlier releases."""
    names = [name for name, id_ in lake.versions.tags().items() if id_ == version]
    found = set()
    for name in names:
        with suppress(MmlakeError, ValueError):
            found.add(read_result(lake, name, "manifest").get("pins"))
    return {str(digest) for digest in found if digest}


def remove_unpinned(lake: Lake, *, dry_run: bool) -> int:
    """The bytes of pins of versions that are gone, and of packs that no version is pinned to, which are removed.
    Raises BlobCorrupt where pins cannot be read: nobody knows then which packs they name."""
    root, known = lake.root / "versions", set(lake.versions.versions())
    listed = {version: _read(lake, version) for version in known}
    named = {pack.digest for pins in listed.values() if pins is not None for pack in pins.packs}
    unnamed = [path for path in (root / "packs").glob("*/*.parquet") if path.stem not in named]
    unnamed += [path for path in (root / "pins").glob("*.json") if path.stem not in known]
    size = sum(path.stat().st_size for path in unnamed)
    for path in () if dry_run else unnamed:
        path.unlink()
    return size


def pinned_blobs(lake: Lake) -> Iterator[list[str]]:
    """The blobs that packs name besides parts of samples: keyframes and sound, by pack."""
    seen: set[str] = set()
    for version in lake.versions.versions():
        pins = _read(lake, version)
        for pack in pins.packs if pins is not None else ():
            if pins is not None and pack.kind == UNITS and pack.digest not in seen:
                seen.add(pack.digest)
                table = pins.read(pack)
                frames = pc.struct_field(pc.list_flatten(table["keyframes"]), "digest")
                yield [*table["audio_digest"].drop_null().to_pylist(), *frames.drop_null().to_pylist()]


def _problems(pins: Pins) -> list[str]:
    problems = []
    for pack in pins.packs:
        try:
            pins.read(pack)
        except (BlobMissing, BlobCorrupt) as error:
            problems.append(str(error))
    return problems


def _read(lake: Lake, version: str) -> Pins | None:
    """The pins of the version; None where it has none. Raises BlobCorrupt."""
    path = _pins_path(lake, version)
    try:
        body = json.loads(path.read_bytes())
        packs = tuple(Pack(**pack) for pack in body["packs"])
        sound = body["schema"] == _SCHEMA and body["version"] == version
        sound = sound and all(pack.kind in _COLUMNS for pack in packs)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        raise BlobCorrupt(f"{path} is damaged; copy it back, or remove it to pin the version to the tables of now")
    return Pins(lake.root / "versions", version, packs)


def _current(lake: Lake, version: str, samples: pa.Table) -> Iterator[tuple[str, str, pa.Table]]:
    """(kind, source shard, rows) of every pack that the version needs, from the tables as they are now."""
    parts = pc.list_flatten(samples["parts"])
    held = pc.unique(pc.struct_field(parts, "digest"))
    for shard, tracks in lake.tables.scan("tracks", "text", columns=["digest", "text"]):
        if pc.any(pc.is_in(tracks["digest"], value_set=held), min_count=0).as_py():
            yield TEXTS, shard, _distinct(tracks.filter(pc.is_valid(tracks["text"])), TEXTS)
    for modality, row in lake.parts.modalities.items():
        if row.splitter is None:
            continue
        for shard in lake.tables.shards("units", modality):
            facts = facts_of_shard(lake, modality, shard)
            if pc.any(pc.is_in(facts["digest"], value_set=held), min_count=0).as_py():
                yield UNITS, shard, _distinct(facts, UNITS)
                if (said := captions_of_shard(lake, modality, shard)).num_rows:
                    yield SAID, shard, _distinct(said, SAID)
    names = sorted(_apart(lake, samples, lake.versions.excluded(version)))
    yield APART, "", pa.table({"sample": names}, schema=_COLUMNS[APART])


def _distinct(table: pa.Table, kind: str) -> pa.Table:
    """The first row of each digest, sorted by digest."""
    table = table.select(_COLUMNS[kind].names).cast(_COLUMNS[kind])
    table = table.append_column("row", pa.array(range(table.num_rows), pa.int64()))
    table = table.sort_by([("digest", "ascending"), ("row", "ascending")]).drop_columns(["row"]).combine_chunks()
    digests = table["digest"]
    if table.num_rows > 1 and pc.any(same := pc.equal(digests[1:], digests[:-1])).as_py():
        first = pa.chunked_array([pa.array([True]), *pc.invert(same).chunks])
        table = table.filter(first).combine_chunks()
    return table


def _write(root: Path, kind: str, shard: str, table: pa.Table) -> Pack:
    import pyarrow.parquet as pq

    pack = Pack(kind=kind, shard=shard, digest=digest_of_values(table)[0], num_rows=table.num_rows)
    try:
        Pins(root, "", (pack,)).read(pack)
    except (BlobMissing, BlobCorrupt):
        pq.write_table(table, sink := io.BytesIO(), compression="zstd", write_page_checksum=True)
        write_atomically(_path(root, pack.digest), sink.getvalue())
    return pack


def _path(root: Path, digest: str) -> Path:
    return root / "packs" / digest[:2] / f"{digest}.parquet"


def _pins_path(lake: Lake, version: str) -> Path:
    return lake.root / "versions" / "pins" / f"{version}.json"


def pinned_texts(pins: Pins, held: pa.Array) -> Callable[[str], str | None]:
    """Normalized text by the digest of a text item: training reads the article, not the page around it."""
    texts: dict[str, str] = {}
    for table in pins.tables(TEXTS):
        wanted = table.filter(pc.is_in(table["digest"], value_set=held))
        texts |= zip(wanted["digest"].to_pylist(), wanted["text"].to_pylist(), strict=True)
    return texts.get


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
