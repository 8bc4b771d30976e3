"""Every file of a lake is of one kind, damage to any file is noticed, and what can be had again is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mmlake import checked_json
from mmlake.download.results import DownloadResult
from mmlake.errors import BlobCorrupt, MmlakeError, SettingsError, TableCorrupt
from mmlake.lake import Lake
from mmlake.progress import silent
from mmlake.publish import pinned_probes, version_names
from mmlake.records import digest_of
from mmlake.tables import Slot
from mmlake.upkeep import KINDS, checked_all, checked_and_repaired, collect, kind_of, named
from mmlake.version_report import write_version_report

CHECKED = [kind.name for kind in KINDS if kind.units is not None]
# kinds and endings of files that may go at any time, or are written on demand: nobody can say that one is missing
MAY_GO = ("kept", "cuts", "retries", "condemned", "reports", "history", "migrated", ".vectors")
# files without content of ours: Dagster's settings; a database of its runs opens where one of its values is flipped
NOT_OURS = ("dagster/",)
# kinds that this small lake has no files of, and the one that is not ours: tests of their own below
ABSENT = ("downloads", "eval-sets", "cuts", "history")
# named by the SHA-256 of their values: a bit that no value depends on (of a page's header, say) harms nothing
BY_VALUE = ("versions/segments/", "versions/packs/")
FILES_OF_A_KIND = 4


def full(lake: Lake) -> Lake:
    """The lake with what only some commands write."""
    write_version_report(lake, "curated-v001")
    lake.retries.request(Slot("items", "text", "text/a.jsonl"), ["a#000000"])
    lake.retries.fulfilled(Slot("measures", "text", "text/a.jsonl"), ["a"], at="2026")
    lake.store.put(b"nobody names this")
    collect(lake, now_s=1.0)
    (lake.root / "versions" / "migrated.json").write_bytes(checked_json.dumps({"a" * 64: "b" * 64}))
    return lake


def files_of(lake: Lake) -> list[str]:
    return sorted(path.relative_to(lake.root).as_posix() for path in lake.root.rglob("*") if path.is_file())


def wrong(lake: Lake, *kinds: str) -> list[str]:
    """What fsck finds, of those kinds or of all."""
    found = (checked_and_repaired(kind, lake, kind.units(lake)) for kind in named(kinds))
    return [problem for one in found for problem in one.problems] + [str(path) for path in lake.store.broken_packs()]


def repair(lake: Lake, *kinds: str) -> list[str]:
    """What is left wrong when fsck has repaired."""
    lake.store.rebuild_indexes()
    units = [(kind, kind.units(lake)) for kind in named(kinds)]
    found = checked_all(lake, units, repair=True, advance_of=lambda kind: silent)
    return [problem for one in found for problem in one.left]


def flipped(data: bytes, rng: random.Random) -> bytes:
    # of a database most bytes of a page are free, and hold nothing
    start = data.find(b"checksum") if data.startswith(b"SQLite") else 0
    place = rng.randrange(start, start + 300) if start else rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "flip": flipped,
    "truncation": lambda data, rng: data[: rng.randrange(1, len(data))],
    "zero length": lambda data, rng: b"",
    "deletion": lambda data, rng: None,
}


def test_every_file_of_a_lake_is_of_one_kind(own) -> None:
    lake = full(own.lake)
    assert [path for path in files_of(lake) if kind_of(path) is None] == []
    assert wrong(lake) == []


def test_there_is_no_kind_of_that_name() -> None:
    with pytest.raises(SettingsError, match="'ref'.*refs"):
        named(["ref"])


def tried(lake: Lake, kind: str) -> Iterator[tuple[str, str, Path, bytes]]:
    """(file, damage, its path, its bytes), once the damage is done."""
    rng = random.Random(kind)
    mine = [path for path in files_of(lake) if kind_of(path).name == kind and not path.startswith(NOT_OURS)]
    mine = [path for path in mine if (lake.root / path).stat().st_size and "latest_version_hint" not in path]
    for file in rng.sample(mine, min(FILES_OF_A_KIND, len(mine))):
        path, data = lake.root / file, (lake.root / file).read_bytes()
        for damage, harm in DAMAGES.items():
            if damage == "deletion" and (kind in MAY_GO or path.suffix in MAY_GO):
                continue
            harmed = harm(data, rng)
            path.unlink()  # another name of the same file stays whole
            if harmed is not None:
                path.write_bytes(harmed)
            yield file, damage, path, data
            path.write_bytes(data)


@pytest.mark.parametrize("kind", [name for name in CHECKED if name not in ABSENT])
def test_damage_to_any_file_of_the_kind_is_noticed(own, kind) -> None:
    lake, unnoticed, count = full(own.lake), [], 0
    for file, damage, _, _ in tried(lake, kind):
        count += 1
        fresh = own.lake
        if not (wrong(fresh, kind) or wrong(fresh)):
            unnoticed.append((file, damage))
    assert [(file, damage) for file, damage in unnoticed if damage != "flip" or not file.startswith(BY_VALUE)] == []
    assert count >= 3


def state(lake: Lake) -> dict[str, object]:
    """Everything that has an id."""
    return {
        "refs": (lake.versions.branches(), lake.versions.tags()),
        "problems": [problem for id_ in lake.versions.versions() for problem in lake.versions.verify(id_)],
        "versions": lake.versions.versions(),
        "catalog": lake.catalog.data_version(),
        "tables": {
            str(slot): stamp.data_version
            for table in ("items", "measures", "tracks", "embeddings", "near_duplicates", "duplicate_clusters")
            for modality in lake.parts.modalities
            for slot, stamp in lake.tables.stamps(table, modality).items()
        },
    }


def harm(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()  # training shards have two names
    path.write_bytes(data)


def test_tables_blobs_and_catalog_are_the_same_after_repair_and_run(own) -> None:
    lake, before = own.lake, state(own.lake)
    frame = lake.tables.concat("tracks", "video", columns=["keyframes"])["keyframes"][0][0]["digest"].as_py()
    lake.store.remove(frame)
    harm(lake.tables.path(Slot("measures", "image", "image/a.tar")))
    harm(lake.tables.path(Slot("items", "text", "text/a.jsonl")))
    lake.tables.path(Slot("duplicate_clusters", "text")).unlink()
    harm(next((lake.root / "catalog").glob("catalog.lance/data/*.lance")))
    assert len({problem.split(":")[0] for problem in repair(own.lake)}) >= 5  # all wait for the run
    own.again()
    assert state(own.lake) == before
    assert wrong(own.lake) == []


def first(lake: Lake, pattern: str) -> str:
    return min(lake.root.glob(pattern)).relative_to(lake.root).as_posix()


def test_files_of_versions_are_put_back_with_the_same_bytes(own) -> None:
    lake = own.lake
    id_ = lake.versions.resolve("curated")
    harmed = [
        "lake.json",
        "versions/refs/branches/curated.json",
        f"versions/trees/{lake.versions.read(id_).tree}.json",
        f"versions/manifests/{lake.versions.resolve('everything')}.json",
        f"versions/chains/{id_}.jsonl",
        f"versions/pins/{id_}.json",
        f"shards/{id_}/index.json",
        f"shards/{id_}/text-000000.tar",
        "results/curated-v001/manifest.json",
        "results/curated-v001/decision.json",
        "results/curated-v001/request.json",
        "results/curated-v001/probe_scores.parquet",
        "evals/pinned.json",
        f"evals/{pinned_probes(lake).digest}.jsonl",
        *(first(lake, pattern) for pattern in ("versions/packs/*/*", "versions/segments/*/*")),
    ]
    before = {name: (lake.root / name).read_bytes() for name in harmed}
    for name in harmed:
        harm(lake.root / name)
    for name in ("versions/refs/tags/curated-v001.json", "versions/refs/branches/everything.json"):
        before[name] = (lake.root / name).read_bytes()
        (lake.root / name).unlink()
    assert repair(own.lake) == []
    unlike = {name for name, data in before.items() if (own.lake.root / name).read_bytes() != data}
    assert unlike <= {record := "results/curated-v001/manifest.json"}
    old, new = (checked_json.loads(data) for data in (before[record], (own.lake.root / record).read_bytes()))
    assert old | {"landing": new["landing"]} == new  # this lake is a copy, and says where its own landing zone is
    assert wrong(own.lake) == []
    assert version_names(own.lake) == ["curated-v001", "everything-v001"]


def test_a_damaged_ref_is_an_error_and_no_other_answer(own) -> None:
    branch = own.lake.versions.root / "refs" / "branches" / "curated.json"
    ids = own.lake.versions.branches()
    branch.write_text(branch.read_text().replace(ids["curated"], ids["everything"]))
    with pytest.raises(BlobCorrupt, match="fsck --kind refs --repair"):
        own.lake.versions.resolve("curated")
    branch.unlink()
    with pytest.raises(BlobCorrupt, match="is gone"):
        own.lake.versions.resolve("curated")


def test_the_catalog_never_answers_from_a_changed_file_and_a_run_heals_it(own) -> None:
    before = own.lake.catalog.data_version()
    for path in (own.lake.root / "catalog" / "catalog.lance" / "_versions").glob("*.manifest"):
        path.write_bytes(b"")  # as a power cut leaves what was not synced
    for ask in (lambda lake: lake.catalog.search("text"), lambda lake: lake.catalog.read(["digest"])):
        with pytest.raises(TableCorrupt, match="mmlake run"):
            ask(own.lake)
    own.again()
    assert own.lake.catalog.data_version() == before


def test_what_cannot_be_made_again_stays_and_is_named(own) -> None:
    lake, slot = own.lake, Slot("items", "image", "image/b.tar")
    Path(own.resource.landing, "image", "b.tar").unlink()
    own.again()
    harm(lake.tables.path(slot))
    data = lake.tables.path(slot).read_bytes()
    assert ["no longer in the landing zone" in problem for problem in repair(own.lake, "tables")] == [True]
    assert lake.tables.path(slot).read_bytes() == data
    with pytest.raises(MmlakeError):
        own.lake.tables.read(slot)


def test_a_damaged_result_of_a_download_is_noticed_and_the_journal_begins_anew(own) -> None:
    lake, path = own.lake, own.lake.root / "downloads.sqlite"
    answers = [DownloadResult(url=f"http://a.example/{number}", digest="a" * 64) for number in range(3)]
    lake.downloads.journal.record(answers, rules="r", policy="p", now_s=1.0)
    lake.downloads.close()
    assert wrong(own.lake, "downloads") == []
    whole = path.read_bytes()
    for harmed in (flipped(whole, random.Random(1)), whole[: len(whole) // 2], b"no database"):
        path.write_bytes(harmed)
        assert wrong(own.lake, "downloads") != []
    assert repair(own.lake, "downloads") == wrong(own.lake, "downloads") == []


def test_a_damaged_cut_is_noticed_and_goes(own) -> None:
    cut = own.lake.cuts.directory / "ab" / f"{'ab' * 32}-0123456789abcdef.flac"
    cut.parent.mkdir(parents=True)
    said = cut.with_name(f"{cut.name}.json")
    said.write_bytes(checked_json.dumps({"sha256": digest_of(b"sound"), "size_bytes": 5, "facts": {"rate_hz": 16_000}}))
    cut.write_bytes(b"sound")
    assert wrong(own.lake, "cuts") == []
    said.write_bytes(said.read_bytes().replace(b"16000", b"16001"))
    assert len(wrong(own.lake, "cuts")) == 1
    assert repair(own.lake, "cuts") == []
    assert not cut.exists()


@pytest.mark.parametrize("keep", [0, 5000], ids=["zero length", "truncation"])
def test_damage_to_dagsters_history_is_named_as_dagsters(own, keep) -> None:
    path = max((own.lake.root / "dagster" / "history" / "runs").glob("*-*.db"))
    path.write_bytes(path.read_bytes()[:keep])
    assert ["it is Dagster's" in problem for problem in repair(own.lake, "history")] == [True]
