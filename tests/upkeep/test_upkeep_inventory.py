"""Every file of a lake is of one kind, damage to any file is noticed, and what can be had again is."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mmlake import checked_json
from mmlake.download.results import DownloadResult
from mmlake.errors import BlobCorrupt, MmlakeError, SettingsError, TableCorrupt
from mmlake.lake import Lake
from mmlake.publish import pinned_probes, unfinished_steps, version_names
from mmlake.publish.results import result_path
from mmlake.publish.version import VERSION_STEPS
from mmlake.publish.version_names import slot_of
from mmlake.records import digest_of
from mmlake.summary import summarize, version_label
from mmlake.tables import Slot
from mmlake.upkeep import kind_of, named
from mmlake.upkeep.names import refs_of
from mmlake.versions import drafts
from tests.damages import BY_VALUE, CHECKED, damaged, files_of, flipped, full, is_noticed, repair, state, wrong
from tests.lakes import Done, Kept, copied, done_once
from tests.once import once

FILES_OF_A_KIND = 2  # `python -m tests.damages` tries more, and repairs


@pytest.fixture(scope="module")
def full_lake(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A small lake with what only some commands write, made once; copies of it are damaged."""
    kept = done_once(tmp_path_factory)

    def fill(base: Path) -> None:
        for name in ("lake", "landing"):
            shutil.copytree(kept.base / name, base / name)
        with Lake(base / "lake", landing=base / "landing") as lake:
            lake.remember_landing()
            full(lake, base / "landing")

    return Kept(once(tmp_path_factory, "full-lake", fill), kept.versions)


@pytest.fixture
def filled(full_lake: Kept, tmp_path: Path) -> Iterator[Done]:
    """A copy of it, which the test may change."""
    yield from copied(full_lake, tmp_path)


def test_every_file_of_a_lake_is_of_one_kind(filled) -> None:
    lake = filled.lake
    assert [path for path in files_of(lake) if kind_of(path) is None] == []
    assert wrong(lake) == []


def test_there_is_no_kind_of_that_name() -> None:
    with pytest.raises(SettingsError, match="'ref'.*refs"):
        named(["ref"])


@pytest.mark.parametrize("kind", CHECKED)
def test_damage_to_any_file_of_the_kind_is_noticed(filled, kind) -> None:
    lake, unnoticed, count = filled.lake, [], 0
    for file, what in damaged(lake, kind, count=FILES_OF_A_KIND, rng=random.Random(kind)):
        count += 1
        if not is_noticed(filled.lake, kind):
            unnoticed.append((file, what))
    assert [(file, what) for file, what in unnoticed if what != "flip" or not file.startswith(BY_VALUE)] == []
    assert count >= 2


def harm(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    if "packs" in path.parts:  # a bit of the footer of Parquet that no value depends on may lie there
        del data[len(data) // 2 :]
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


def test_a_directory_in_the_place_of_a_file_is_named_and_what_lies_behind_it_is_checked(own) -> None:
    stamp = sorted(own.lake.tables.root.rglob("*.stamp.json"))[0]
    stamp.unlink()
    stamp.mkdir()
    assert f"{stamp} is a directory where a file belongs; move it away, then repair" in wrong(own.lake)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("catalog/text/ALL", "catalog/image/ALL"),
        ("manifest/all/curated-v001", "manifest/all/everything-v001"),
        ("provenance/all/curated-v001", "provenance/all/everything-v001"),
    ],
)
def test_stamps_that_changed_places_are_noticed(own, one: str, other: str) -> None:
    """There are no rows next to them that would not fit."""
    paths = [own.lake.tables.root / f"{name}.stamp.json" for name in (one, other)]
    texts = [path.read_bytes() for path in paths]
    for path, text in zip(paths, reversed(texts), strict=True):
        path.write_bytes(text)
    assert len([problem for problem in wrong(own.lake, "tables") if "is that of" in problem]) == 2


def test_any_stamp_that_is_gone_is_noticed_and_those_of_versions_are_made_again(own) -> None:
    """That of the catalog, of samples and of the steps of versions, too, next to which there are no rows."""
    before, tables = state(own.lake), own.lake.tables.root
    for stamp in (stamps := [path for path in tables.rglob("*.stamp.json") if not is_of_rows(path)]):
        data = stamp.read_bytes()
        stamp.unlink()
        assert len(wrong(own.lake, "tables")) == 1, stamp
        stamp.write_bytes(data)
    assert len(stamps) == 4 + 1 + 2 * len(VERSION_STEPS)
    for stamp in stamps:
        if "-v001" in stamp.name:  # `mmlake run` makes catalog and samples again
            stamp.unlink()
    assert repair(own.lake) == wrong(own.lake) == []
    assert state(own.lake) == before


def test_steps_of_a_published_version_that_never_began_are_named_and_made_by_the_next_run(own) -> None:
    """Its writer died as the branch had moved, so that nothing but the version itself says that there is more to do."""
    lake, name = own.lake, "everything-v001"
    late = list(VERSION_STEPS)[list(VERSION_STEPS).index("publication") + 1 :]
    for step in late:
        lake.tables.remove(slot_of(step, name))
        result_path(lake, name, step).unlink()
    assert unfinished_steps(lake, name) == late
    assert [problem.split(" has")[0] for problem in wrong(lake, "tables")] == [
        str(slot_of(step, name)) for step in sorted(late)
    ]
    assert [version_label(row) for row in summarize(lake).versions] == ["curated-v001", "everything-v001 (unfinished)"]
    own.again(recipes=["curated"])
    assert [version_label(row) for row in summarize(lake).versions] == ["curated-v001", name]
    assert wrong(own.lake) == []
    assert own.again(recipes=["curated"]).runs == []


def is_of_rows(stamp: Path) -> bool:
    return stamp.with_name(stamp.name.replace(".stamp.json", ".parquet")).exists()


def test_a_refused_draft_has_results_without_stamps_and_is_not_damaged(own) -> None:
    id_, name = own.lake.versions.resolve("curated"), "curated-v001"
    own.lake.tables.remove(slot_of("publication", name))
    assert wrong(own.lake, "tables") != []
    drafts.Drafts(own.lake.versions.root / "drafts").mark(id_)
    assert wrong(own.lake, "tables") == []


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


def test_a_manifest_that_is_gone_is_selected_again_and_costs_its_refs_nothing(own) -> None:
    lake = own.lake
    path = lake.versions.root / "manifests" / f"{lake.versions.resolve('curated')}.json"
    refs = {one: one.read_bytes() for name in ("refs", "logs") for one in (path.parents[1] / name).rglob("*.json*")}
    data = path.read_bytes()
    path.unlink()
    assert [line.rpartition(": ")[2] for line in repair(own.lake, "refs")] == [
        "the ref is sound; `mmlake fsck --kind versions --repair` for its manifest"
    ] * 2
    assert repair(own.lake) == wrong(own.lake) == []
    assert {one: one.read_bytes() for one in refs} | {path: path.read_bytes()} == refs | {path: data}


def test_a_list_of_the_catalogs_files_that_is_gone_is_made_anew_from_rows_that_are_sound(own) -> None:
    path, before = own.lake.catalog.root / "files.json", own.lake.catalog.data_version()
    path.unlink()
    assert [problem for problem in wrong(own.lake) if problem == f"{path} is missing"]
    assert repair(own.lake) == wrong(own.lake) == []
    assert path.exists() and own.lake.catalog.data_version() == before


@pytest.mark.parametrize("missing_bytes", [1, 1000])
def test_a_registry_that_lacks_a_part_of_its_last_page_is_cut_off(own, missing_bytes) -> None:
    path = own.lake.registry.path
    path.write_bytes(path.read_bytes()[:-missing_bytes])
    assert wrong(own.lake, "landing") and repair(own.lake) == wrong(own.lake) == []


def test_a_request_that_is_gone_is_missed_while_the_manifest_next_to_it_is_damaged(own) -> None:
    folder = own.lake.root / "results" / "curated-v001"
    data = (folder / "request.json").read_bytes()
    (folder / "request.json").unlink()
    (folder / "manifest.json").write_bytes(b"")
    assert repair(own.lake) == wrong(own.lake) == []
    assert (folder / "request.json").read_bytes() == data


def test_a_branch_whose_log_is_lost_too_is_put_back_at_its_newest_version(own) -> None:
    """And not at the one that it was made with, which is all that the log of refs knows."""
    root, newest = own.lake.versions.root, own.lake.versions.resolve("everything")
    refs_of(own.lake).create("tags", "curated-v002", newest)
    refs_of(own.lake).move("curated", newest, action="advance", expect=None)
    (root / "logs" / "curated.jsonl").unlink()
    (root / "refs" / "branches" / "curated.json").write_bytes(b"")
    assert repair(own.lake, "refs") == []
    assert own.lake.versions.resolve("curated") == newest
    assert wrong(own.lake, "refs") == []


def test_what_became_of_versions_of_the_release_before_is_read_from_these(filled) -> None:
    lake = filled.lake
    path = lake.root / "versions" / "migrated.json"
    whole = path.read_bytes()
    path.unlink()
    assert repair(lake, "migrated") == []
    assert path.read_bytes() == whole


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
