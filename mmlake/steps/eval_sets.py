"""The units of an eval set, made by the steps that make those of the corpus.

A folder becomes a small lake under `<lake>/decontaminate/<name>/<modality>/`, with a store of its own: its blobs are
never part of the corpus. It is made once; when the files of the folder change, it is made anew. So do the words that
frozen probes ask for. A version of the lake has its units in the tables of the corpus already, and so have the items
whose renditions are asked for.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import preprocess, sources
from mmlake.dedup import DecontaminateSettings, EvalSet
from mmlake.dedup.contamination.eval_sets import PINNED
from mmlake.errors import RefMissing, SettingsError
from mmlake.evaluate import Probe, ProbeSet
from mmlake.evaluate.probes import pinned_in
from mmlake.film_decoders import OF_PICTURES
from mmlake.lake import Lake
from mmlake.locks import waiting_lock
from mmlake.records import LEADING_ROLES, canonical_json, digest_of
from mmlake.sources import Shard
from mmlake.steps import standing
from mmlake.steps.parallel import run_shards
from mmlake.steps.row import row_steps
from mmlake.steps.running import Made
from mmlake.store import StoreSettings, write_atomically

_STEPS = ("items", "tracks", "alignments", "units", "fingerprints", "embeddings")  # no rule judges an eval set
_SECTIONS = ("sources", "preprocess", *OF_PICTURES, "align", "units", "dedup", "embed")
_NAMES = pa.schema([("digest", pa.string()), ("eval_key", pa.string())])
_QUERIES = "queries"  # next to the small lakes: the words that probes ask for, as a landing zone
_LISTED = "listed"  # in the small lake: the files that it is made of
_LOG = logging.getLogger("mmlake.steps")


@dataclass(frozen=True, slots=True)
class EvalUnits:
    """What the corpus is compared with."""

    names: pa.Table  # digest, eval_key: one row per unit
    fingerprints: pa.Table
    embeddings: pa.Table
    answers: Mapping[str, frozenset[str]] = field(default_factory=dict)  # of a probe's unit: what it asks for


def eval_revision(lake: Lake, one: EvalSet, modality: str) -> str:
    """What the stamp says of the eval set: equal where its units are. Raises SettingsError where there is no such
    folder or version, or nothing in it."""
    if one.kind == "version":
        return _version(lake, one)
    code = {step.name: step.code_version for step in row_steps(lake.parts.modality(modality)) if step.name in _STEPS}
    made_by = [lake.settings.digest(_SECTIONS), code]
    if one.kind == "probes":
        return f"{_probes(lake, one).digest}.{digest_of(canonical_json(made_by).encode())}"
    listing = _listing(_scanned(_side_lake(lake, one, modality), one), modality)
    return f"{listing}.{digest_of(canonical_json(made_by).encode())}"


def eval_units(lake: Lake, one: EvalSet, modality: str) -> EvalUnits:
    """The eval set's leading units of the modality."""
    if one.kind == "version":
        return _of_version(lake, one, modality)
    if one.kind == "probes":
        return _of_probes(lake, one, modality)
    return _of_folder(lake, one, modality)


def _of_folder(lake: Lake, one: EvalSet, modality: str) -> EvalUnits:
    folder = _folder(lake, one)
    with waiting_lock(folder / f"{modality}.lock"):  # the set of another modality has its own small lake
        return _of_lake(_made(lake, one, modality), one, modality)


def _folder(lake: Lake, one: EvalSet) -> Path:
    return lake.root / "decontaminate" / one.name


def _side_lake(lake: Lake, one: EvalSet, modality: str) -> Lake:
    settings = replace(lake.settings, store=StoreSettings(), decontaminate=DecontaminateSettings())
    return Lake(
        _folder(lake, one) / modality,
        landing=one.place,
        settings=settings,
        executor=lake.executor,
        runner=lake.runner,
        parts=lake.parts,
        connections=lake.connections,
        recent=lake.recent,
    )


def _scanned(side: Lake, one: EvalSet) -> list[Shard]:
    try:
        landing = side.landing
    except SettingsError as error:
        raise SettingsError(
            f"decontaminate: eval set {one.name!r} is to be read from {one.place}, where there is no folder; correct "
            "decontaminate.sets"
        ) from error
    shards = sources.scan(
        landing,
        settings=side.settings.sources,
        known=side.registry.known(),
        parsed=side.parsed_files,
        connectors=side.parts.connectors,
    )
    if not any(shard.modalities for shard in shards):
        raise SettingsError(
            f"decontaminate: eval set {one.name!r} at {one.place} holds nothing that can be read; put its files there, "
            "or take it out of decontaminate.sets"
        )
    return shards


def is_as_listed(side: Lake, modality: str) -> bool:
    """Whether the small lake of that modality is of the files that it says it is made of."""
    path = side.root / _LISTED
    shards = list(side.registry.known().values())
    return path.exists() and path.read_bytes() == _listing(shards, modality).encode()


def _listing(shards: Sequence[Shard], modality: str) -> str:
    """Equal where the shards that hold the modality are: new pictures make no texts again."""
    held = {shard.key: shard.revision for shard in shards if modality in shard.modalities}
    return digest_of(canonical_json(held).encode())[:16]


def _made(lake: Lake, one: EvalSet, modality: str) -> Lake:
    """The small lake, up to date with the folder."""
    side = _side_lake(lake, one, modality)
    shards = _scanned(side, one)
    path, listed = side.root / _LISTED, _listing(shards, modality).encode()
    if not path.exists() or path.read_bytes() != listed:
        shutil.rmtree(side.root, ignore_errors=True)  # what is gone from the folder shall be found no more
        side = _side_lake(lake, one, modality)
        side.registry.record(shards)
        write_atomically(path, listed)
    keys = side.registry.keys(modality)
    for step in row_steps(side.parts.modality(modality)):
        for _, done in run_shards(step, side, modality, keys) if step.name in _STEPS else ():
            if not isinstance(done, Made):
                raise done
    return side


def _of_lake(side: Lake, one: EvalSet, modality: str) -> EvalUnits:
    items = side.tables.concat("items", modality, columns=["digest", "sample_id", "status"])
    units = side.tables.concat("units", modality, columns=["digest", "parent_digest", "kind", "role", "start", "end"])
    units = units.filter(pc.and_(pc.not_equal(units["kind"], preprocess.GAP), _leads(units["role"])))
    units = standing.first_per_key(units, ["digest"])
    samples = items.filter(pc.is_valid(items["digest"])).group_by("digest").aggregate([("sample_id", "min")])
    at = pc.index_in(units["parent_digest"], value_set=samples["digest"].combine_chunks())
    keys = [
        sample if kind == preprocess.WHOLE else f"{sample} {start / 1e6:.2f}-{end / 1e6:.2f} s"
        for sample, kind, start, end in zip(
            samples["sample_id_min"].take(at).to_pylist(),
            *(units[name].to_pylist() for name in ("kind", "start", "end")),
            strict=True,
        )
    ]
    num_lost = pc.sum(pc.equal(items["status"], "unreadable"), min_count=0).as_py()
    _LOG.info("decontaminate/%s: %d %s units, %d items cannot be read", one.name, units.num_rows, modality, num_lost)
    return _compared(side, modality, pa.table({"digest": units["digest"], "eval_key": pa.array(keys, pa.string())}))


def _of_version(lake: Lake, one: EvalSet, modality: str) -> EvalUnits:
    samples = lake.versions.samples(_version(lake, one))
    lists = samples["parts"].combine_chunks()
    parts = pc.list_flatten(lists)
    names = pa.table(
        {
            "digest": pc.struct_field(parts, "digest"),
            "eval_key": samples["sample"].take(pc.list_parent_indices(lists)).combine_chunks(),
        }
    )
    of_modality = pc.equal(pc.struct_field(parts, "modality"), modality)
    names = names.filter(pc.and_(of_modality, _leads(pc.struct_field(parts, "role"))))
    return _compared(lake, modality, standing.first_per_key(names, ["digest"]))


def _of_probes(lake: Lake, one: EvalSet, modality: str) -> EvalUnits:
    """What the probes ask with: words are texts, of a rendition the item counts that it is made of."""
    probes = [probe for probe in _probes(lake, one).probes if probe.kind == modality]
    if modality != "text":
        items = {str(probe.query_digest): probe.id for probe in reversed(probes)}
        names = pa.table({"digest": list(items), "eval_key": list(items.values())}, _NAMES)
        return replace(
            _compared(lake, modality, names), answers=_answers((probe.query_digest, probe) for probe in probes)
        )
    if not probes:
        return _compared(lake, modality, _NAMES.empty_table())
    asking: dict[str, list[Probe]] = {}
    for probe in probes:
        asking.setdefault(probe.query, []).append(probe)
    landing = _folder(lake, one) / _QUERIES
    path = landing / "queries.jsonl"
    data = "".join(canonical_json({"id": f"q{at}", "text": query}) + "\n" for at, query in enumerate(asking)).encode()
    if not path.exists() or path.read_bytes() != data:
        write_atomically(path, data)  # a file that is written anew is another one, whose small lake is made anew
    units = _of_folder(lake, one._replace(place=str(landing), kind="folder"), modality)
    of_key = {f"queries.jsonl/q{at}": some for at, some in enumerate(asking.values())}
    asked = [of_key[key] for key in units.names["eval_key"].to_pylist()]
    names = units.names.set_column(1, "eval_key", pa.array([some[0].id for some in asked], pa.string()))
    digests = units.names["digest"].to_pylist()
    pairs = ((digest, probe) for digest, some in zip(digests, asked, strict=True) for probe in some)
    return replace(units, names=names, answers=_answers(pairs))


def _answers(asked: Iterable[tuple[str | None, Probe]]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for digest, probe in asked:
        found[str(digest)] = found.get(str(digest), frozenset()).union(probe.relevant)
    return found


def _probes(lake: Lake, one: EvalSet) -> ProbeSet:
    if one.place != PINNED:
        return ProbeSet.read(lake.probes_dir, one.place)
    if (pinned := pinned_in(lake.probes_dir)) is None:
        raise SettingsError(
            f"decontaminate: eval set {one.name!r} is of the frozen probes, and lake {lake.root} has none yet; its "
            "first version freezes some, or pin your own with `mmlake probes --pin FILE`"
        )
    return pinned


def _version(lake: Lake, one: EvalSet) -> str:
    try:
        return lake.versions.resolve(one.place)
    except RefMissing as error:
        raise SettingsError(
            f"decontaminate: eval set {one.name!r} is version {one.place!r}, which lake {lake.root} does not have; "
            "`mmlake versions` lists those that it has"
        ) from error


def _leads(roles: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return pc.is_in(roles, value_set=pa.array(LEADING_ROLES, pa.string()))


def _compared(lake: Lake, modality: str, names: pa.Table) -> EvalUnits:
    return EvalUnits(names, *prints_and_vectors(lake, modality, names["digest"]))


def prints_and_vectors(lake: Lake, modality: str, digests: pa.ChunkedArray) -> tuple[pa.Table, pa.Table]:
    """(fingerprints, embeddings) of these units that were made, each key once."""
    found = []
    for table, columns, key in (
        ("fingerprints", ["digest", "method", "hashes", "status"], "method"),
        ("embeddings", ["digest", "encoder", "vector", "status"], "encoder"),
    ):
        rows = lake.tables.concat(table, modality, columns=columns)
        rows = rows.filter(pc.is_in(rows["digest"], value_set=digests.combine_chunks()))
        found.append(standing.first_per_key(rows.filter(pc.equal(rows["status"], "ok")), ["digest", key]))
    return found[0], found[1]
