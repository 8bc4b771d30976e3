"""Files of one kind made again from what they are derived from, or given up with the reason.

Enters: units that a check found wrong. Leaves: for each what became of it. Nothing that cannot be had again is removed:
it stays as it is for a person to copy back.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress

from mmlake import checked_json, publish, versions
from mmlake.errors import MmlakeError
from mmlake.lake import Lake
from mmlake.lake_memory import COPY, NAME, read_memory, write_memory
from mmlake.pipeline import refresh
from mmlake.progress import silent
from mmlake.publish.catalog import NAME as CATALOG
from mmlake.publish.catalog import forget_catalog
from mmlake.publish.catalog_probes import catalog_probes
from mmlake.publish.pins import has_readable_pins, pin, verify_pins
from mmlake.publish.probe_vectors import pin_probes
from mmlake.publish.requests import rewrite_request
from mmlake.publish.results import read_result, result_path, write_result
from mmlake.publish.version import VERSION_STEPS, run_version_step
from mmlake.publish.version_names import branch_of, slot_of, version_names
from mmlake.publish.version_outputs import build_version, manifest, provenance_chain, training_shards
from mmlake.recipes import Recipe
from mmlake.records import digest_of
from mmlake.steps import OVER_ALL
from mmlake.store import write_atomically
from mmlake.tables import Slot
from mmlake.upkeep.names import chain_path, converted_ids, refs_of, version_ids
from mmlake.upkeep.repair import Repair
from mmlake.version_report import write_version_report
from mmlake.versions.refs import Refs

REPAIRED, REQUESTED, REPLACED, LOST = "repaired", "requested", "replaced", "lost"
_ORDER = {name: number for number, name in enumerate(VERSION_STEPS)}
_AT_NEXT_RUN = "`mmlake run` makes it again"


def memory(lake: Lake, units: list[str]) -> Iterator[Repair]:
    source = lake.root / (COPY if NAME in units else NAME)
    if len(units) == 2 or not source.exists():
        yield from (Repair(unit, LOST, "both copies are damaged; give --landing again") for unit in units)
        return
    if NAME in units:
        (lake.root / NAME).write_bytes(source.read_bytes())
    write_memory(lake.root, read_memory(lake.root))
    yield from (Repair(unit, REPAIRED) for unit in units)


def landing(lake: Lake, units: list[str]) -> Iterator[Repair]:
    for suffix in ("", "-journal"):
        lake.registry.path.with_name(lake.registry.path.name + suffix).unlink(missing_ok=True)
    try:
        refresh(lake)
        yield Repair(units[0], REPAIRED)
    except MmlakeError:
        yield Repair(units[0], REQUESTED, "the landing zone does not answer; `mmlake run` lists it again")


def downloads(lake: Lake, units: list[str]) -> Iterator[Repair]:
    lake.downloads.close()
    for suffix in ("", "-wal", "-shm"):
        (lake.root / f"downloads.sqlite{suffix}").unlink(missing_ok=True)
    lake.__dict__.pop("downloads", None)
    lake.downloads.journal.counts()
    yield Repair(units[0], REPLACED, "it begins anew; an address is requested again when its table is made again")


def tables(lake: Lake, units: list[str]) -> Iterator[Repair]:
    slots, known = [Slot.parse(unit) for unit in units], lake.registry.known()
    for slot in sorted(slots, key=lambda one: (_ORDER.get(one.table, -1), str(one))):
        if slot.modality == OVER_ALL and slot.table in VERSION_STEPS:
            lake.tables.remove(slot)
            yield _step_again(lake, str(slot), slot.table, slot.shard)
        elif slot.shard == "ALL" or slot.modality == OVER_ALL or slot.table == CATALOG or slot.shard in known:
            lake.tables.remove(slot)
            yield Repair(str(slot), REQUESTED, _AT_NEXT_RUN)
        else:
            yield Repair(str(slot), LOST, f"shard {slot.shard} is no longer in the landing zone; land it again")


def catalog(lake: Lake, units: list[str]) -> Iterator[Repair]:
    if not lake.catalog.damage(anew=True) and lake.catalog.count():
        lake.catalog.settle()
        yield Repair(units[0], REPAIRED, "all rows are as they were written; their files are listed anew")
        return
    forget_catalog(lake)
    yield Repair(units[0], REQUESTED, "`mmlake run` makes it again from the tables")


def refs(lake: Lake, units: list[str]) -> Iterator[Repair]:
    known, ids = refs_of(lake), version_ids(lake)
    for unit in sorted(units, reverse=True):  # tags, the log of what was made, branches
        if unit.startswith("logs/"):
            known.relog()
            yield Repair(unit, REPAIRED)
        else:
            yield _ref_again(lake, known, unit, ids)


def _ref_again(lake: Lake, known: Refs, unit: str, ids: dict[str, str]) -> Repair:
    kind, name = unit.split("/", 1)
    id_ = known.made(kind).get(name) or (ids.get(name) if kind == "tags" else None)
    moves = known.logged(name) if kind == "branches" else []
    with suppress(MmlakeError):
        if known.get(kind, name) is not None:
            if kind == "tags" or _has_log(known, name):
                return Repair(unit, LOST, "the ref is sound; `mmlake fsck --kind versions --repair` for its manifest")
            known.restart_log(name)
            return Repair(unit, REPLACED, "the branch is where it was; its log begins anew")
    if kind == "branches" and not moves:
        # where it was made is not where it is
        id_ = next((ids[one] for one in reversed(version_names(lake, name)) if one in ids), id_)
    if not moves and not id_:
        return Repair(unit, LOST, f"no log says which version it named; `mmlake {kind[:-1]}` makes it again")
    known.restore(kind, name, moves[0].after if moves else str(id_), move=moves[0].move if moves else 1)
    if kind == "branches" and not _has_log(known, name):
        known.restart_log(name)
        return Repair(unit, REPLACED, "its log is lost and begins anew; the branch is at its newest version")
    return Repair(unit, REPAIRED)


def _has_log(known: Refs, branch: str) -> bool:
    try:
        return bool(known.log(branch))
    except MmlakeError:
        return False


def migrated(lake: Lake, units: list[str]) -> Iterator[Repair]:
    for unit in units:
        if found := converted_ids(lake):
            write_atomically(lake.root / unit, checked_json.dumps(found))
            yield Repair(unit, REPAIRED)
        else:
            yield Repair(unit, LOST, "no version says what it was made from; delete it to give up the earlier ids")


def version_files(lake: Lake, units: list[str]) -> Iterator[Repair]:
    ids = version_ids(lake)
    for id_ in units:
        names = [name for name, known in ids.items() if known == id_]
        draft = lake.versions.root / "drafts" / id_
        if draft.exists():
            versions.drafts.Drafts(draft.parent).mark(id_)
        reason = _built_again(lake, id_, names[0]) if names and _is_wrong(lake, id_) else None
        if reason is None and not _is_wrong(lake, id_):
            yield Repair(id_, REPAIRED)
        else:
            yield Repair(id_, LOST, reason or "no published version has this id; copy it back")


def _is_wrong(lake: Lake, id_: str) -> bool:
    try:
        return bool(lake.versions.verify(id_))
    except MmlakeError:
        return True


def _built_again(lake: Lake, id_: str, name: str) -> str | None:
    """Why the files of the version cannot be written once more; None where they were."""
    try:
        begun, asked = read_result(lake, name, "manifest"), publish.request_of(lake, name)
        if begun.get("made_from") != publish.selected_from(lake):
            return "the tables that it was selected from have been made again; copy it back"
        stamp = lake.tables.stamp(slot_of("manifest", name))
        known = set(lake.versions.versions())
        _, made = build_version(lake, name, asked, begun, run_id=stamp.run_id if stamp else "", is_new=False)
        if made.id != id_:
            if made.id not in known:
                (lake.versions.root / "manifests" / f"{made.id}.json").unlink()
            return "selecting again gives another version; copy it back"
    except (MmlakeError, KeyError) as error:
        return f"it cannot be selected again: {error}"
    return None


def pins(lake: Lake, units: list[str]) -> Iterator[Repair]:
    for id_ in units:
        path = lake.root / "versions" / "pins" / f"{id_}.json"
        before = path.read_bytes() if path.exists() else None
        try:
            if before is not None and not _is_as_recorded(lake, id_, before):
                path.unlink()
            pin(lake, id_, lake.versions.samples(id_))
            problems = verify_pins(lake, id_)
        except MmlakeError as error:
            problems = [str(error)]
        if problems and before is not None:
            path.write_bytes(before)
        yield Repair(id_, LOST, problems[0]) if problems else Repair(id_, REPAIRED)


def _is_as_recorded(lake: Lake, id_: str, data: bytes) -> bool:
    """Whether the pins of the version are those that its results record, or can be read where these record none."""
    for name, known in version_ids(lake).items():
        if known == id_ and result_path(lake, name, "manifest").exists():
            recorded = read_result(lake, name, "manifest").get("pins")
            if recorded is not None:
                return bool(recorded == digest_of(data))
    return has_readable_pins(lake, id_)


def chains(lake: Lake, units: list[str]) -> Iterator[Repair]:
    for id_ in units:
        name = next((name for name, known in version_ids(lake).items() if known == id_), None)
        path = chain_path(lake, id_)
        if name is None:
            yield Repair(id_, LOST, "no published version has this id")
            continue
        recorded = read_result(lake, name, "provenance")["sha256"]
        path.unlink(missing_ok=True)
        provenance_chain(lake, name, silent)
        if digest_of(path.read_bytes()) == recorded:
            yield Repair(id_, REPAIRED)
        else:
            yield Repair(id_, REPLACED, "tables have been made again since: it names those of now")


def shards(lake: Lake, units: list[str]) -> Iterator[Repair]:
    ids = version_ids(lake)
    for id_ in units:
        name = next((name for name, known in ids.items() if known == id_), None)
        if name is None:
            yield Repair(id_, LOST, f"version {id_[:12]} has no name; write its shards again, or remove the folder")
            continue
        try:
            training_shards(lake, name, silent)
            yield Repair(id_, REPAIRED)
        except MmlakeError as error:
            yield Repair(id_, LOST, str(error))


def results(lake: Lake, units: list[str]) -> Iterator[Repair]:
    def place(unit: str) -> tuple[str, int]:
        name, file = unit.split("/", 1)
        step = file.partition(".")[0]
        return name, _ORDER.get(step, -1)  # the request comes first

    for unit in sorted(units, key=place):
        name, file = unit.split("/", 1)
        step = file.partition(".")[0]
        if step == "request":
            yield _request_again(lake, unit, name)
        elif step in VERSION_STEPS:
            (lake.root / "results" / unit).unlink(missing_ok=True)
            if step == "manifest":
                _begin_again(lake, name)
            yield _step_again(lake, unit, step, name)
        else:
            yield Repair(unit, LOST, "no step of this release makes it; remove it")


def _request_again(lake: Lake, unit: str, name: str) -> Repair:
    try:
        made = lake.versions.read(version_ids(lake)[name])
    except (MmlakeError, KeyError):
        return Repair(unit, LOST, f"version {name} cannot be read, whose recipe it held")
    request = publish.Request(recipe=Recipe.from_dict(made.recipe.body), branch=branch_of(name), message=made.message)
    rewrite_request(lake, name, request)
    return Repair(unit, REPAIRED)


def _begin_again(lake: Lake, name: str) -> None:
    """Write down what the version was begun with, as the version itself says it."""
    made, asked = lake.versions.read(version_ids(lake)[name]), publish.request_of(lake, name)
    stamp = lake.tables.stamp(slot_of("manifest", name))
    begun = {
        "version": name,
        "made_from": dict(stamp.inputs) if stamp else publish.selected_from(lake),
        "landing": lake.origin(),
        "branch": asked.branch,
        "recipe_digest": asked.recipe.digest,
        "base": made.parents[0] if made.parents else None,
        "created_at": made.created_at,
    }
    write_result(lake, name, "manifest", begun)


def _step_again(lake: Lake, unit: str, step: str, version: str) -> Repair:
    """The step of a version run once more; its stamp stays where the outcome is the same."""
    made, path = VERSION_STEPS[step], result_path(lake, version, step)
    found = path.read_bytes() if path.exists() else None
    try:
        before = lake.tables.stamp(slot_of(step, version))
        if before is not None:
            result = (manifest if step == "manifest" else made.make)(lake, version, silent)
        if before is None or before.data_version != result.data_version:
            run_version_step(made, lake, version)
    except (MmlakeError, KeyError) as error:
        return Repair(unit, REQUESTED, f"{_AT_NEXT_RUN}: {error}")
    is_same = found in (None, path.read_bytes()) if before is None else before.data_version == result.data_version
    return Repair(unit, REPAIRED) if is_same else Repair(unit, REPLACED, "it says what holds now")


def probes(lake: Lake, units: list[str]) -> Iterator[Repair]:
    for unit in sorted(units, key=lambda one: not one.endswith(".jsonl")):
        path = lake.probes_dir / unit
        if unit == "pinned.json":
            yield _pinned_again(lake, unit)
        elif unit.endswith(".jsonl"):
            made = catalog_probes(lake)
            if made.digest == path.stem:
                path.unlink(missing_ok=True)
                made.write(lake.probes_dir)
                yield Repair(unit, REPAIRED)
            else:
                yield Repair(unit, LOST, "the catalog gives other probes now; copy the frozen set back")
        else:
            path.unlink()
            yield Repair(unit, REPAIRED, "its vectors are encoded again when they are needed")


def _pinned_again(lake: Lake, unit: str) -> Repair:
    from mmlake.evaluate import ProbeSet

    for name in sorted(version_ids(lake), reverse=True):
        try:
            digest = str(read_result(lake, name, "probe_scores")["probe_set"])
            (lake.probes_dir / unit).unlink(missing_ok=True)
            pin_probes(lake, ProbeSet.read(lake.probes_dir, digest))
            return Repair(unit, REPAIRED)
        except (MmlakeError, KeyError):
            continue
    return Repair(unit, LOST, "no version was measured with probes that are there")


def kept(lake: Lake, units: list[str]) -> Iterator[Repair]:
    for unit in units:
        (lake.root / "kept" / unit).unlink()
        yield Repair(unit, REPAIRED, "the next join, table or count is made as a whole")


def cuts(lake: Lake, units: list[str]) -> Iterator[Repair]:
    for unit in units:
        for name in (unit, f"{unit}.json"):
            (lake.cuts.directory / name).unlink(missing_ok=True)
        yield Repair(unit, REPAIRED, "it is cut again when it is needed")


def forgotten(remark: str) -> Callable[[Lake, list[str]], Iterator[Repair]]:
    """What removes files that may go. remark: what that means."""

    def remove(lake: Lake, units: list[str]) -> Iterator[Repair]:
        for unit in units:
            (lake.root / unit).unlink()
            yield Repair(unit, REPLACED, remark)

    return remove


def reports(lake: Lake, units: list[str]) -> Iterator[Repair]:
    for unit in units:
        try:
            write_version_report(lake, unit.removesuffix(".html"))
            yield Repair(unit, REPAIRED)
        except MmlakeError as error:
            yield Repair(unit, LOST, str(error))


def eval_sets(lake: Lake, units: list[str]) -> Iterator[Repair]:
    for unit in units:
        shutil.rmtree(lake.root / "decontaminate" / unit)
        yield Repair(unit, REPAIRED, "it is made again from the eval set when that is compared next")
