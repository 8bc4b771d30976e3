"""The units of each kind of file: what there is to be checked, also where its files are gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mmlake import checked_json
from mmlake.cuts import UNCUT_FILE
from mmlake.errors import MmlakeError
from mmlake.lake import Lake
from mmlake.lake_memory import COPY, NAME
from mmlake.publish.catalog import FORMER
from mmlake.publish.ledger import lake_slots
from mmlake.publish.results import made_from, read_result, result_path
from mmlake.publish.selected import UNCUT
from mmlake.publish.version import VERSION_STEPS, unfinished_steps
from mmlake.publish.version_names import slot_of
from mmlake.steps import OVER_ALL
from mmlake.tables import Slot
from mmlake.versions import utc_now
from mmlake.versions.migration import MIGRATED
from mmlake.versions.refs import Refs

_ROWS = ".parquet"


def refs_of(lake: Lake) -> Refs:
    """The refs of the lake's versions, for those who put back what is damaged."""
    return Refs(lake.versions.root, clock=utc_now)


def version_ids(lake: Lake) -> dict[str, str]:
    """Name of a published version -> its id, as its tag or its results say it, whichever can be read."""
    known, found = refs_of(lake), dict[str, str]()
    for name in sorted({*known.names("tags"), *_names_of(lake)}):
        with suppress(MmlakeError):
            if (id_ := known.get("tags", name)) is not None:
                found[name] = id_
                continue
        with suppress(MmlakeError, KeyError):
            found[name] = str(read_result(lake, name, "manifest")["id"])
    return found


def _names_of(lake: Lake) -> list[str]:
    stamped = lake.tables.shards("manifest", OVER_ALL)
    return sorted({*stamped, *(path.name for path in (lake.root / "results").glob("*") if path.is_dir())})


def chain_path(lake: Lake, id_: str) -> Path:
    """Where the chain of the version lies."""
    return lake.root / "versions" / "chains" / f"{id_}.jsonl"


def files_below(root: Path, *patterns: str) -> list[str]:
    """The files that match, as paths below the root, sorted."""
    found = {path for pattern in patterns for path in root.glob(pattern) if path.is_file()}
    return sorted(path.relative_to(root).as_posix() for path in found)


def memories(lake: Lake) -> list[str]:
    return [NAME, COPY]


def one(lake: Lake) -> list[str]:
    """The one unit of a kind that is checked as a whole."""
    return ["all"]


def tables(lake: Lake) -> list[str]:
    """Every slot that has a stamp or rows, or whose stamp is named by something that came after it."""
    rows = files_below(lake.tables.root, f"*/*/**/*{_ROWS}")
    held = {str(Slot(*path.removesuffix(_ROWS).split("/", 2))) for path in rows}
    return sorted(held | {str(slot) for slot in lake_slots(lake)} | {str(slot) for slot in _stamped_once(lake)})


def _stamped_once(lake: Lake) -> Iterator[Slot]:
    """The slots without rows of their own (catalog, samples, steps of versions) that had a stamp, as what came after
    them says: a stamp names what it was made from, and a version is published when its steps have been made.

    A step of a draft may have a result and no stamp: its writer died, or a check has refused it.
    """
    for name in _names_of(lake):
        with suppress(MmlakeError):
            made = made_from(lake, name) or {}
            held = (Slot.parse(text) for text, version in made.items() if version and text != UNCUT)
            yield from (slot for slot in held if slot != FORMER)
        for step in VERSION_STEPS:
            with suppress(MmlakeError):
                stamp = lake.tables.stamp(slot_of(step, name))
                inputs = stamp.inputs if stamp is not None and step != "manifest" else {}
                yield from (Slot(Slot.parse(text).table, OVER_ALL, name) for text, version in inputs.items() if version)
        with suppress(MmlakeError):
            if not lake.versions.is_draft(name):
                yield from (slot_of(step, name) for step in VERSION_STEPS if result_path(lake, name, step).exists())
                yield from (slot_of(step, name) for step in unfinished_steps(lake, name))


def refs(lake: Lake) -> list[str]:
    known = refs_of(lake)
    branches, tags = known.names("branches"), set(known.names("tags"))
    tags |= {name for name in _names_of(lake) if result_path(lake, name, "training_shards").exists()}
    logs = ["logs/made"] if branches or tags else []
    return logs + [f"branches/{name}" for name in branches] + [f"tags/{name}" for name in sorted(tags)]


def versions(lake: Lake) -> list[str]:
    """The id of every version that has a manifest, or that something names."""
    known, named = refs_of(lake), set(version_ids(lake).values())
    for branch in known.names("branches"):
        named |= {move.after for move in known.logged(branch)}
    return sorted(named | set(lake.versions.versions()))


def pinned(lake: Lake) -> list[str]:
    return sorted({*lake.versions.versions(), *_stems(lake, "versions/pins/*.json")})


def chained(lake: Lake) -> list[str]:
    return sorted({*version_ids(lake).values(), *_stems(lake, "versions/chains/*.jsonl")})


def shards(lake: Lake) -> list[str]:
    """The id of every version that has shards, or had them."""
    ids = version_ids(lake)
    made = {ids[name] for name in lake.tables.shards("training_shards", OVER_ALL) if name in ids}
    return sorted(made | {path.parent.name for path in lake.shards_dir.glob("*/index.json")})


def results(lake: Lake) -> list[str]:
    found = set(files_below(lake.root / "results", "*/*.json", "*/*.parquet"))
    for name in _names_of(lake):
        for step in VERSION_STEPS:
            if lake.tables.has(*_place(slot_of(step, name))):
                found |= {f"{name}/{step}.json"} | ({f"{name}/{step}.parquet"} if step == "probe_scores" else set())
        # earlier releases wrote no requests and no checksums; any document says which, as some may be damaged
        documents = (lake.root / "results" / name).glob("*.json")
        if any(checked_json.has_checksum(path.read_bytes()) for path in documents):
            found.add(f"{name}/request.json")
    return sorted(found)


def probes(lake: Lake) -> list[str]:
    """Every file of the frozen probes, and those that results say there must be."""
    found = set(files_below(lake.probes_dir, "*"))
    for name in _names_of(lake):
        with suppress(MmlakeError, KeyError):
            found |= {f"{read_result(lake, name, 'probe_scores')['probe_set']}.jsonl", "pinned.json"}
    return sorted(found)


def cuts(lake: Lake) -> list[str]:
    held = files_below(lake.cuts.directory, "??/*")
    cut = sorted({name.removesuffix(".json") for name in held if not name.endswith(("/lock", ".part"))})
    return cut + files_below(lake.cuts.directory, UNCUT_FILE)


def kept(lake: Lake) -> list[str]:
    return files_below(
        lake.root / "kept", "**/*.join", "**/*.rows", "**/*.files", "*.hashed", "aside/**/*.*", "begun/**/*.*"
    )


def retries(lake: Lake) -> list[str]:
    return [f"retries/{name}" for name in files_below(lake.retries.root, "**/*.json")]


def migrated(lake: Lake) -> list[str]:
    path = "versions/migrated.json"
    return [path] if (lake.root / path).exists() or converted_ids(lake) else []


def converted_ids(lake: Lake) -> dict[str, str]:
    """Id in the release before -> id of today, as the versions themselves say what they were converted from."""
    found = dict[str, str]()
    for id_ in lake.versions.versions():
        with suppress(MmlakeError):
            before = MIGRATED.fullmatch(lake.versions.read(id_).message)
            if before is not None:
                found[before["id"]] = id_
    return found


def condemned(lake: Lake) -> list[str]:
    return files_below(lake.root, "condemned.json")


def reports(lake: Lake) -> list[str]:
    return files_below(lake.root / "reports", "*.html")


def eval_sets(lake: Lake) -> list[str]:
    """The small lake of every eval set and modality. What probes ask for, next to them, is written where it differs."""
    root, modalities = lake.root / "decontaminate", lake.parts.modalities
    return sorted(path.relative_to(root).as_posix() for path in root.glob("*/*") if path.name in modalities)


def _stems(lake: Lake, pattern: str) -> set[str]:
    return {path.stem for path in lake.root.glob(pattern)}


def _place(slot: Slot) -> tuple[str, str, str]:
    return slot.table, slot.modality, slot.shard
