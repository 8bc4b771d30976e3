"""Damage to every kind of file of a lake: what fsck notices, and what is the same once it has repaired.

    python -m tests.damages --seed 13      # a line for each kind, and below it what was not noticed or not made again

A small lake is made first. Each damage is done alone and searched for; then a few at once are repaired, as a person
would: `fsck --repair`, and where that asks for it `mmlake run` and `fsck --repair` again.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from mmlake import checked_json
from mmlake.dedup.contamination.eval_sets import DecontaminateSettings
from mmlake.download.results import DownloadResult
from mmlake.lake import Lake
from mmlake.progress import silent
from mmlake.publish.ledger import lake_slots
from mmlake.records import digest_of
from mmlake.settings import Settings
from mmlake.sources import URL_LIST
from mmlake.steps.eval_sets import eval_units
from mmlake.tables import Slot
from mmlake.upkeep import KINDS, checked_all, checked_and_repaired, collect, kind_of, named
from mmlake.version_report import write_version_report
from tests import make
from tests.lakes import Done, Kept, copied

CHECKED = [kind.name for kind in KINDS if kind.units is not None]
# kinds and endings of files that may go at any time, or are written on demand: nobody can say that one is missing
MAY_GO = ("kept", "cuts", "retries", "condemned", "reports", "history", ".vectors", ".rows", ".files")
# without content of ours: Dagster's settings, the version hint that Lance writes and does not need, and SQLite's logs
NOT_OURS = ("dagster.yaml", "latest_version_hint", "-wal", "-shm", "-journal")
# named by the SHA-256 of their values: a bit that no value depends on (of a page's header, say) harms nothing
BY_VALUE = ("versions/segments/", "versions/packs/")
GARBAGE = b"nobody names this"  # a blob that `gc` would remove: nobody misses it
ALONE = ("memory", "refs")  # kinds whose files stand in for each other: two at once is more than one damage


def full(lake: Lake, landing: Path) -> Lake:
    """The lake with what only some commands write."""
    write_version_report(lake, "curated-v001")
    lake.retries.request(Slot("items", "text", "text/a.jsonl"), ["a#000000"])
    lake.retries.fulfilled(Slot("measures", "text", "text/a.jsonl"), ["a"], at="2026")
    lake.store.put(GARBAGE)
    collect(lake, now_s=1.0)
    migrated(lake)
    listed = replace(next(iter(lake.registry.known().values())), key="lists/a.urls", format=URL_LIST, modalities=())
    lake.registry.record([listed])
    answers = [DownloadResult(url=f"http://a.example/{number}", digest="a" * 64) for number in range(3)]
    lake.downloads.journal.record(answers, rules="r", policy="p", now_s=1.0)
    lake.downloads.close()
    cut = lake.cuts.directory / "ab" / f"{'ab' * 32}-0123456789abcdef.flac"
    cut.parent.mkdir(parents=True)
    said = {"sha256": digest_of(b"sound"), "size_bytes": 5, "facts": {"rate_hz": 16_000}}
    cut.with_name(f"{cut.name}.json").write_bytes(checked_json.dumps(said))
    cut.write_bytes(b"sound")
    compare(lake, landing.parent / "bench")
    return lake


def migrated(lake: Lake) -> None:
    """A version as the migration of an earlier release leaves it."""
    made = replace(lake.versions.read(lake.versions.resolve("curated")), message=f"migrated from {'a' * 64}")
    (lake.versions.root / "manifests" / f"{made.id}.json").write_text(made.to_json())
    (lake.versions.root / "migrated.json").write_bytes(checked_json.dumps({"a" * 64: made.id}))


def compare(lake: Lake, bench: Path) -> dict[str, str]:
    """The small lake of an eval set, made where it is not there: data version by table."""
    if not bench.exists():
        make.land(bench, {"0.png": make.picture(70), "1.png": make.picture(71)})
    sets = DecontaminateSettings(sets=(f"bench={bench}",))
    own = Lake(lake.root, settings=replace(Settings(), decontaminate=sets), executor=lake.executor, runner=lake.runner)
    eval_units(own, sets.parsed[0], "image")
    return data_versions(Lake(lake.root / "decontaminate" / "bench" / "image"))


def files_of(lake: Lake) -> list[str]:
    return sorted(path.relative_to(lake.root).as_posix() for path in lake.root.rglob("*") if path.is_file())


def damageable(lake: Lake, kind: str) -> list[str]:
    """The files of the kind that hold anything, and are ours."""
    mine = [path for path in files_of(lake) if (found := kind_of(path)) is not None and found.name == kind]
    return [path for path in mine if (lake.root / path).stat().st_size and not any(one in path for one in NOT_OURS)]


def wrong(lake: Lake, *kinds: str) -> list[str]:
    """What fsck finds, of those kinds or of all."""
    found = (checked_and_repaired(kind, lake, kind.units(lake)) for kind in named(kinds) if kind.units)
    return [problem for one in found for problem in one.problems] + [str(path) for path in lake.store.broken_packs()]


def repair(lake: Lake, *kinds: str) -> list[str]:
    """What is left wrong when fsck has repaired."""
    lake.store.rebuild_indexes()
    units = [(kind, kind.units(lake)) for kind in named(kinds) if kind.units]
    found = checked_all(lake, units, repair=True, advance_of=lambda kind: silent)
    return [problem for one in found for problem in one.left]


def flipped(data: bytes, rng: random.Random) -> bytes:
    # of a database most bytes of a page are free, and hold nothing
    start = data.find(b"checksum") if data.startswith(b"SQLite") else 0
    place = rng.randrange(start, start + 300) if start > 0 else rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "flip": flipped,
    "truncation": lambda data, rng: data[: rng.randrange(1, len(data))],
    "zero length": lambda data, rng: b"",
    "deletion": lambda data, rng: None,
}


def may_be(damage: str, kind: str, file: str) -> bool:
    """Whether fsck can be asked for that damage to that file."""
    if damage == "deletion":
        return kind not in MAY_GO and not file.endswith(MAY_GO) and digest_of(GARBAGE) not in file
    # a database of Dagster's runs opens where one of its values is flipped
    return damage != "flip" or kind != "history"


def damage(path: Path, what: str, rng: random.Random) -> bytes:
    """Do it; the bytes that were there."""
    data = path.read_bytes()
    harmed = DAMAGES[what](data, rng)
    path.unlink()  # another name of the same file stays whole
    if harmed is not None:
        path.write_bytes(harmed)
    return data


def damaged(lake: Lake, kind: str, *, count: int, rng: random.Random) -> Iterator[tuple[str, str]]:
    """(file, damage) of so many files of the kind, each damaged in every way, while it is."""
    mine = damageable(lake, kind)
    for file in rng.sample(mine, min(count, len(mine))):
        for what in DAMAGES:
            if may_be(what, kind, file):
                data = damage(lake.root / file, what, rng)
                yield file, what
                (lake.root / file).write_bytes(data)


def is_noticed(lake: Lake, kind: str) -> bool:
    """Whether fsck finds anything, first where it was done."""
    return bool(wrong(lake, kind) or wrong(lake))


def data_versions(lake: Lake) -> dict[str, str]:
    """Data version of every table; what a version cost and who made it are of the time."""
    found = {str(slot): lake.tables.stamp(slot) for slot in lake_slots(lake) if slot.modality != "all"}
    return {name: stamp.data_version for name, stamp in found.items() if stamp is not None}


def state(lake: Lake) -> dict[str, object]:
    """Everything that has an id."""
    return {
        "refs": (lake.versions.branches(), lake.versions.tags()),
        "versions": lake.versions.versions(),
        "catalog": lake.catalog.data_version(),
        "tables": data_versions(lake),
        "shards": {
            path.relative_to(lake.shards_dir).as_posix(): digest_of(path.read_bytes())
            for path in sorted(lake.shards_dir.rglob("*.tar"))
        },
    }


@dataclass
class Tally:
    """What became of the damages to one kind."""

    kind: str
    tried: int = 0
    noticed: int = 0
    harmless: int = 0  # the file still hashes to its name: the same values
    repaired: int = 0  # of those that were repaired, files that are sound again in a lake of the same ids
    same_bytes: int = 0  # of those, files with the same bytes
    asked: int = 0  # repairs
    remarks: list[str] = field(default_factory=list)


@contextmanager
def lake_of(kept: Kept | Done) -> Iterator[Done]:
    """A copy that may be changed."""
    with tempfile.TemporaryDirectory() as base:
        yield from copied(kept, Path(base))


def try_all(kept: Kept | Done, tally: Tally, *, count: int, flips: int, rng: random.Random) -> None:
    """Count which damages are noticed: to so many files in every way, and flipped bits alone on top."""
    with lake_of(kept) as done:
        for file, what in damaged(done.lake, tally.kind, count=count, rng=rng):
            _try(done, tally, file, what)
        mine = damageable(done.lake, tally.kind)
        for _ in range(flips):
            path = done.lake.root / (file := rng.choice(mine))
            data = damage(path, "flip", rng)
            _try(done, tally, file, "flip")
            path.write_bytes(data)


def _try(done: Done, tally: Tally, file: str, what: str) -> None:
    tally.tried += 1
    if is_noticed(done.lake, tally.kind):
        tally.noticed += 1
    elif what == "flip" and file.startswith(BY_VALUE):
        tally.harmless += 1
    else:
        tally.remarks.append(f"not noticed: {what} of {file}")


def rounds_of(lake: Lake, kind: str, *, count: int, rng: random.Random) -> list[dict[str, str]]:
    """File -> damage, of so many damages in all, a file once in each round."""
    # a manifest that only a migration could write is noticed and named, and a person copies it back
    migrated = set(checked_json.loads((lake.versions.root / "migrated.json").read_bytes()).values())
    files = [file for file in damageable(lake, kind) if Path(file).stem not in migrated]
    mine = rng.sample(files, min(count, len(files)))
    wanted = (
        [(mine[number % len(mine)], list(DAMAGES)[number % len(DAMAGES)]) for number in range(count)] if mine else []
    )
    if len(mine) < len(DAMAGES):  # every one of few files in every way
        wanted = [(file, what) for file in mine for what in DAMAGES][:count]
    rounds = list[dict[str, str]]()
    for file, what in wanted:
        if may_be(what, kind, file):
            free = next((one for one in rounds if file not in one), None) if kind not in ALONE else None
            rounds.append({file: what}) if free is None else free.update({file: what})
    return rounds


def put_back(kept: Kept | Done, tally: Tally, *, count: int, rng: random.Random) -> None:
    """Count what is the same once it has been repaired, and where that is asked for, run and repaired again."""
    with lake_of(kept) as done:
        before, rounds = state(done.lake), rounds_of(done.lake, tally.kind, count=count, rng=rng)
    for one in rounds:
        with lake_of(kept) as done:
            was = {file: damage(done.lake.root / file, what, rng) for file, what in one.items()}
            left = repair(done.lake)
            if left:
                done.again()
                left = repair(done.lake)
            compare(done.lake, kept.base / "bench")
            now, left = state(done.lake), left + wrong(done.lake)
            unlike = [name for name in before if before[name] != now[name]]
            tally.asked += len(one)
            tally.repaired += 0 if left or unlike else len(one)
            for file, data in was.items():
                path = done.lake.root / file
                tally.same_bytes += path.exists() and path.read_bytes() == data
            if left or unlike:
                named_now = ", ".join(f"{what} of {file}" for file, what in one.items())
                tally.remarks.append(f"not as before ({named_now}): {unlike} {left[:3]}")


def replayed(
    kept: Kept | Done, *, kinds: tuple[str, ...], files: int, flips: int, repairs: int, seed: int
) -> Iterator[Tally]:
    """A tally of each kind. files: of a kind, damaged in every way. flips: of the catalog, on top. repairs: damages of
    a kind that are repaired."""
    for kind in kinds or CHECKED:
        tally = Tally(kind)
        try_all(kept, tally, count=files, flips=flips if kind == "catalog" else 0, rng=random.Random(f"{seed} {kind}"))
        put_back(kept, tally, count=repairs, rng=random.Random(f"{seed} {kind} repair"))
        yield tally


def main() -> None:
    from tests.lakes import _run

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--files", type=int, default=4, help="files of each kind that are damaged in every way")
    parser.add_argument("--flips", type=int, default=60, help="flipped bits in files of the catalog, on top")
    parser.add_argument("--repairs", type=int, default=4, help="damages of each kind that are repaired")
    parser.add_argument("--kind", action="append", default=[])
    parser.add_argument("--lake", type=Path, help="folder of a lake and its landing zone that a call before this made")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        base = given.lake or Path(scratch) / "made"
        if not base.exists():
            base.mkdir(parents=True)
            _run(base)
            full(Lake(base / "lake", landing=base / "landing"), base / "landing")
        print(f"{'kind':12} {'tried':>6} {'noticed':>8} {'harmless':>9} {'repaired':>9} {'of':>4} {'same bytes':>11}")
        every = Tally("all")
        kept = Kept(base, {})
        for one in replayed(
            kept, kinds=tuple(given.kind), files=given.files, flips=given.flips, repairs=given.repairs, seed=given.seed
        ):
            for each in ("tried", "noticed", "harmless", "repaired", "asked", "same_bytes"):
                setattr(every, each, getattr(every, each) + getattr(one, each))
            _print(one)
        _print(every)


def _print(one: Tally) -> None:
    counts = (one.tried, one.noticed, one.harmless, one.repaired, one.asked, one.same_bytes)
    print("{:12} {:6} {:8} {:9} {:9} {:4} {:11}".format(one.kind, *counts), flush=True)
    for remark in one.remarks:
        print(f"    {remark}", flush=True)


if __name__ == "__main__":
    main()
