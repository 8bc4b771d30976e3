"""Whether the files of one kind are what was written: each function yields (unit, sentence) for what is wrong. Nothing
is changed.

A unit is what is checked and made again as one: a blob, a table, a version, a folder of shards, a file. `inventory.py`
names the kinds and what their units are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from mmlake import checked_json, dedup, report
from mmlake.catalog.files import NAME as LIST
from mmlake.cuts import UNCUT_FILE
from mmlake.errors import MmlakeError, RefMissing, SettingsError, TableCorrupt
from mmlake.evaluate import ProbeSet
from mmlake.lake import Lake
from mmlake.lake_memory import COPY, FORMAT, NAME, read_memory
from mmlake.loader import mixture_problems
from mmlake.publish.catalog import NAME as CATALOG
from mmlake.publish.catalog import catalog_slot
from mmlake.publish.pins import verify_pins
from mmlake.publish.probe_vectors import VECTORS
from mmlake.publish.results import read_result, result_path
from mmlake.publish.version import VERSION_STEPS
from mmlake.publish.version_names import slot_of
from mmlake.publish.version_shards import hashed_shards
from mmlake.records import canonical_json, digest_of
from mmlake.schemas import TABLES
from mmlake.shards import HashedFiles, ShardIndex, verify_shards
from mmlake.shards.objects import ShardObjects
from mmlake.sources import URL_LIST
from mmlake.steps.eval_sets import is_as_listed
from mmlake.tables import ALL, Slot, joint_version
from mmlake.upkeep.integrity import check_blobs, check_tables, named_blobs
from mmlake.upkeep.names import chain_path, refs_of, version_ids
from mmlake.upkeep.names import kept as kept_units
from mmlake.upkeep.names import tables as table_units

Problem = tuple[str, str]  # unit, and a sentence
_NOT_IN_A_STAMP = ("manifest", "provenance")  # steps whose data version is not the digest of their document


def memory(lake: Lake, unit: str) -> Iterator[Problem]:
    path = lake.root / unit
    try:
        data = path.read_bytes()
        checked_json.loads(data)
    except FileNotFoundError:
        other = lake.root / (COPY if unit == NAME else NAME)
        if other.exists() and checked_json.has_checksum(other.read_bytes()):
            yield unit, f"{path} is missing, and {other.name} is there"
    except ValueError:
        yield unit, f"{path} is not what was written"


def landing(lake: Lake, unit: str) -> Iterator[Problem]:
    if not lake.registry.path.exists() and lake.tables.modalities("items"):
        yield unit, f"{lake.registry.path} is missing"
    for problem in lake.registry.problems():
        yield unit, problem


def downloads(lake: Lake, unit: str) -> Iterator[Problem]:
    path = lake.root / "downloads.sqlite"
    if path.exists() and not path.stat().st_size:  # SQLite drops the log of an empty file
        yield unit, f"{path} is empty"
    elif path.exists():
        for problem in lake.downloads.journal.problems():
            yield unit, problem
    elif any(shard.format == URL_LIST for shard in lake.registry.known().values()):
        yield unit, f"{path} is missing"


def tables(lake: Lake, unit: str) -> Iterator[Problem]:
    slot = Slot.parse(unit)
    yield from ((unit, problem) for problem in check_tables(lake, [slot]))
    try:
        stamp = lake.tables.stamp(slot)
    except TableCorrupt:
        return  # that is a problem already
    if stamp is None:
        what = f"table {slot} has rows but no stamp" if lake.tables.path(slot).exists() else f"{slot} has no stamp"
        yield unit, f"{what}: its writer died or is at work, or the stamp is lost"
        return
    for name, version in stamp.inputs.items() if lake.tables.path(slot).exists() else ():
        if version not in ("", joint_version({})) and (lost := _lost_input(lake, slot, name)) is not None:
            yield str(lost), f"table {lost} is missing, from which {slot} was made"


def _lost_input(lake: Lake, slot: Slot, name: str) -> Slot | None:
    """The table that the name of an input means, where nothing of it is left."""
    try:
        named = Slot.parse(name)
    except SettingsError:
        return None  # inputs may name what is no table
    if named.table not in TABLES or named.modality not in lake.parts.modalities:
        return None
    for shard in (slot.shard, ALL):
        if lake.tables.has(named.table, named.modality, shard):
            return None
    if lake.tables.shards(named.table, named.modality) and slot.shard == ALL:
        return None
    lost = Slot(named.table, named.modality, ALL if slot.shard == ALL else slot.shard)
    return None if lake.tables.path(lost).exists() else lost


def catalog(lake: Lake, unit: str) -> Iterator[Problem]:
    stamps = [lake.tables.stamp(catalog_slot(one)) for one in lake.tables.modalities(CATALOG)]
    for problem in lake.catalog.damage(anew=True):
        yield unit, problem
        return
    if any(stamp is not None and stamp.num_rows for stamp in stamps) and not lake.catalog.count():
        yield unit, f"the table in {lake.catalog.root} is missing"
    listed = lake.catalog.root / LIST
    if not listed.exists() and lake.catalog.count() and read_memory(lake.root).get("format") == FORMAT:
        yield unit, f"{listed} is missing"  # lakes of format 1 have none


def refs(lake: Lake, unit: str) -> Iterator[Problem]:
    kind, name = unit.split("/", 1)
    known, logged = refs_of(lake), kind == "logs"
    try:
        if logged:
            yield from ((unit, problem) for problem in known.unlogged())
            return
        id_ = known.get(kind, name)
        if id_ is None:
            yield unit, f"'{name}' of the {kind} is missing, and its results are there"
        elif kind == "branches":
            known.log(name)
        if id_ is not None and not (lake.versions.root / "manifests" / f"{id_}.json").exists():
            yield unit, f"'{name}' of the {kind} names {id_}, of which there is no manifest"
    except MmlakeError as error:
        yield unit, str(error)


def versions(lake: Lake, unit: str) -> Iterator[Problem]:
    try:
        yield from ((unit, problem) for problem in lake.versions.verify(unit))
    except RefMissing:
        yield unit, f"manifest {unit} is missing in {lake.versions.root}"
    try:
        checked_json.loads((lake.versions.root / "drafts" / unit).read_bytes())
    except FileNotFoundError:
        pass
    except ValueError:
        yield unit, f"the mark of draft {unit} is damaged"


def pins(lake: Lake, unit: str) -> Iterator[Problem]:
    yield from ((unit, problem) for problem in verify_pins(lake, unit))


def chains(lake: Lake, unit: str) -> Iterator[Problem]:
    path, recorded = chain_path(lake, unit), set[str]()
    for name, id_ in version_ids(lake).items():
        if id_ == unit and result_path(lake, name, "provenance").exists():
            try:
                recorded.add(str(read_result(lake, name, "provenance")["sha256"]))
            except (MmlakeError, KeyError):
                continue  # a problem of the results
    if not path.exists():
        if recorded:
            yield unit, f"{path} is missing"
    elif recorded and digest_of(path.read_bytes()) not in recorded:
        yield unit, f"{path} is not what was written"


def shards(lake: Lake) -> Callable[[Lake, str], Iterator[Problem]]:
    """A check of the shards of versions that hashes what several versions share once."""
    return partial(_shards, hashed=hashed_shards(lake, begins_anew=True))


def _shards(lake: Lake, unit: str, *, hashed: HashedFiles) -> Iterator[Problem]:
    directory = lake.shards_dir / unit
    if not directory.is_dir():
        yield unit, f"the shards of version {unit} are missing in {lake.shards_dir}"
        return
    problems = verify_shards(directory, hashed=hashed, only_new=True) or mixture_problems(directory)
    if not problems:
        problems = list(_unlike_recorded(lake, directory, unit))
    yield from ((unit, f"{directory}: {problem}") for problem in problems)


def _unlike_recorded(lake: Lake, directory: Path, id_: str) -> Iterator[str]:
    """What the index says against the version's results, and the objects against what the folder links to."""
    index = ShardIndex.read(directory)
    facts = index.to_dict()["shards"]
    for name in (name for name, known in version_ids(lake).items() if known == id_):
        if result_path(lake, name, "training_shards").exists():
            recorded = read_result(lake, name, "training_shards")["shards"]
            if json.loads(canonical_json(facts)) != recorded:
                yield "index.json is not what was written; write the shards again"
    if index.manifest_id != id_ and not directory.is_symlink():
        yield "index.json names another version; write the shards again"
    else:
        made = lake.versions.read(id_)
        if (index.num_samples, index.num_items) != (made.num_samples, made.num_items):
            yield "index.json counts other samples than the version; write the shards again"
    objects = ShardObjects(lake.shards_dir)
    for entry in index.shards:
        wanted = [(objects.data(entry.plan, entry.format), entry.sha256)]
        wanted += [(objects.idx_of(entry), entry.idx_sha256)] if entry.idx_sha256 else []
        for path, sha256 in wanted:
            if not path.exists():
                yield f"object {path.name} is missing; write the shards again"
            elif not path.samefile(directory / f"{entry.name}{path.suffix}") and digest_of(path.read_bytes()) != sha256:
                yield f"object {path.name} is not what was written; write the shards again"


def results(lake: Lake, unit: str) -> Iterator[Problem]:
    name, file = unit.split("/", 1)
    path, step = lake.root / "results" / unit, file.partition(".")[0]
    if not path.exists():
        yield unit, f"{path} is missing"
    elif file.endswith(".parquet"):
        try:
            recorded = read_result(lake, name, step).get(f"{step.removeprefix('probe_')}_sha256")
        except MmlakeError:
            return  # a problem of the document
        if recorded is not None and recorded != digest_of(path.read_bytes()):
            yield unit, f"{path} is not what was written"
    else:
        try:
            document = checked_json.loads(path.read_bytes())
            stamp = lake.tables.stamp(slot_of(step, name)) if step in VERSION_STEPS else None
        except ValueError:
            yield unit, f"{path} is not what was written"
        except TableCorrupt:
            return  # a problem of the tables
        else:
            if stamp is not None and step == "manifest" and "id" not in document:
                yield unit, f"{path} was begun anew and is not whole"
            if stamp is None or step in _NOT_IN_A_STAMP:
                return
            if stamp.data_version != digest_of(canonical_json(document).encode()):
                yield unit, f"{path} is not what its stamp says"


def probes(lake: Lake, unit: str) -> Iterator[Problem]:
    path = lake.probes_dir / unit
    try:
        if unit == "pinned.json":
            checked_json.loads(path.read_bytes())
        elif path.suffix == ".jsonl":
            ProbeSet.read(lake.probes_dir, path.stem)
        elif path.suffix == VECTORS and _header_problem(path.read_bytes()):
            yield unit, f"{path} is not what was written"
    except FileNotFoundError:
        yield unit, f"{path} is missing, and versions were measured with it"
    except ValueError:
        yield unit, f"{path} is not what was written"
    except MmlakeError as error:
        yield unit, str(error)


def cuts(lake: Lake, unit: str) -> Iterator[Problem]:
    if unit == UNCUT_FILE:
        yield from ((unit, problem) for _, problem in documents(lake, f"cuts/{unit}"))
        return
    if not lake.cuts.is_sound(lake.cuts.directory / unit):
        yield unit, f"cut {lake.cuts.directory / unit} is not what was written"


def kept(lake: Lake, unit: str) -> Iterator[Problem]:
    path = lake.root / "kept" / unit
    is_as_written = {
        ".join": dedup.is_as_written,
        ".rows": lambda one: not _header_problem(one.read_bytes()),
        ".parquet": _is_stamped,
    }
    if path.suffix not in is_as_written:
        yield from ((unit, problem) for _, problem in documents(lake, f"kept/{unit}"))
    elif not is_as_written[path.suffix](path):
        yield unit, f"{path} is not what was written"


def _is_stamped(path: Path) -> bool:
    """Whether the rows are those of the stamp next to them."""
    try:
        stamp = checked_json.loads(path.with_name(f"{path.stem}.stamp.json").read_bytes())
    except (OSError, ValueError):
        return False
    return bool(stamp["data_version"] == digest_of(path.read_bytes()))


def reports(lake: Lake, unit: str) -> Iterator[Problem]:
    path = lake.root / "reports" / unit
    if not report.is_as_written(path.read_bytes()):
        yield unit, f"{path} is not what was written"


def migrated(lake: Lake, unit: str) -> Iterator[Problem]:
    if (lake.root / unit).exists():
        yield from documents(lake, unit)
    else:
        yield unit, f"{lake.root / unit} is missing, and there are versions of the release before"


def documents(lake: Lake, unit: str) -> Iterator[Problem]:
    path = lake.root / unit
    try:
        checked_json.loads(path.read_bytes())
    except FileNotFoundError:
        return
    except ValueError:
        yield unit, f"{path} is not what was written"


def eval_sets(lake: Lake, unit: str) -> Iterator[Problem]:
    side = Lake(lake.root / "decontaminate" / unit, settings=lake.settings, parts=lake.parts)
    problems = [problem for _, problem in landing(side, unit)]
    if not problems:
        problems = [problem for slot in table_units(side) for _, problem in tables(side, slot)]
        problems += [f"blob {digest} is {what}" for digest, what in check_blobs(side, named_blobs(side))]
        problems += [f"{path} is damaged" for path in side.store.broken_packs()]
        problems += [problem for one in kept_units(side) for _, problem in kept(side, one)]
        problems += [] if is_as_listed(side, unit.rpartition("/")[2]) else ["its list of files is not what was written"]
    yield from ((unit, f"the small lake {side.root}: {problem}") for problem in problems)


def _header_problem(data: bytes) -> bool:
    """Whether a file of one line of JSON and data is not what the SHA-256 in the line says."""
    header, _, rest = data.partition(b"\n")
    try:
        return bool(checked_json.loads(header)["sha256"] != digest_of(rest))
    except (ValueError, KeyError):
        return True
