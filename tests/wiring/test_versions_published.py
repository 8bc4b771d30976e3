"""From tables to versions: when a new one is made, what is not done again, and how an interrupted one ends."""

from __future__ import annotations

import pytest

from mmlake import publish
from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.modalities import MODALITIES
from mmlake.publish.version import publish_version
from mmlake.publish.version_names import earlier_versions
from mmlake.steps import corpus_steps, row_steps
from mmlake.tables import Slot, Stamp, Tables
from mmlake.versions import VersionStore
from mmlake.versions.refs import Refs
from tests import make

LENIENT = {"quality": {"bounds": {"text_too_short": [1, float("inf")]}}}  # lets the short text in


def written(site, names) -> dict[str, bytes]:
    """The stamps of the text tables, byte for byte."""
    return {
        str(path): path.read_bytes()
        for name in names
        for path in sorted((site.root / "tables" / name / "text").rglob("*.stamp.json"))
    }


def begun(lake, *names: str) -> None:
    """Versions of these names, as far as names go."""
    for name in names:
        lake.tables.mark(
            Slot("manifest", "all", name),
            Stamp(
                data_version=name,
                schema_version=1,
                num_rows=0,
                size_bytes=0,
                code_version="1",
                settings_digest="",
                inputs={},
            ),
        )


def test_the_first_version_of_a_recipe_is_number_one(site) -> None:
    assert publish.next_version(site.lake(), "curated") == "curated-v001"


def test_names_count_up_within_their_recipe(site) -> None:
    begun(lake := site.lake(), "curated-v001", "curated-v002", "everything-v007")
    assert (publish.next_version(lake, "curated"), publish.next_version(lake, "everything")) == (
        "curated-v003",
        "everything-v008",
    )


def test_the_thousandth_version_comes_after_the_one_before(site) -> None:
    """As text, v1000 stands before v999."""
    begun(lake := site.lake(), "curated-v999", "curated-v1000", "curated-v998")
    assert publish.version_names(lake, "curated") == ["curated-v998", "curated-v999", "curated-v1000"]
    assert publish.next_version(lake, "curated") == "curated-v1001"
    assert earlier_versions(lake, "curated-v1000") == ["curated-v998", "curated-v999"]


def test_other_tags_are_no_versions(site) -> None:
    lake = site.lake()
    begun(lake, "golden", "curated-v1", "curated-v001-final", "curated-v001")
    assert publish.version_names(lake) == ["curated-v001"]


@pytest.mark.parametrize(
    "name", ["curated", "curated-v1", "curated-v0000001", "Curated-v001", "-v001", "curated-v001\n"]
)
def test_a_name_without_a_branch_and_number_is_refused(name) -> None:
    with pytest.raises(SettingsError, match="is not <branch>-v<number>"):
        publish.branch_of(name)


def test_a_version_of_no_recipe_that_nobody_asked_for_is_refused(site) -> None:
    with pytest.raises(SettingsError, match="recipes are everything, curated"):
        publish.request_of(site.lake(), "nosuch-v001")


def test_the_same_catalog_keeps_its_version(site) -> None:
    assert site.publish() == site.publish() == "curated-v001"


def test_a_finished_version_is_complete(site) -> None:
    name = site.publish()
    assert publish.version_is_complete(site.lake(), name)


def test_a_version_without_one_of_its_steps_is_not_complete(site) -> None:
    lake, name = site.lake(), site.publish()
    lake.tables.remove(Slot("decision", "all", name))
    assert not publish.version_is_complete(lake, name)


def test_a_version_whose_step_was_made_from_something_else_is_not_complete(site) -> None:
    lake, name = site.lake(), site.publish()
    scores = lake.tables.stamp(Slot("probe_scores", "all", name))
    lake.tables.mark(
        Slot("probe_scores", "all", name),
        Stamp(**{field: getattr(scores, field) for field in scores.__slots__} | {"data_version": "other"}),
    )
    assert not publish.version_is_complete(lake, name)


def test_a_new_bound_judges_anew_and_makes_no_vector_hash_or_picture_again(site) -> None:
    """Verdicts and what selects are made again; everything that costs decoding keeps its stamp, times included."""
    site.publish()
    kept = ("items", "blobs", "tracks", "measures", "fingerprints", "embeddings")
    before = written(site, kept)
    later = {name: written(site, [name]) for name in ("verdicts", "duplicate_clusters")}
    assert site.publish(**LENIENT) == "curated-v002"
    assert written(site, kept) == before
    assert [name for name, stamps in later.items() if written(site, [name]) == stamps] == []


def test_a_new_bound_of_duplicates_makes_no_fingerprint_again(site) -> None:
    site.publish()
    before = written(site, ["fingerprints"])
    pairs = written(site, ["near_duplicates"])
    site.publish(dedup={"text_jaccard": 0.6})
    assert written(site, ["fingerprints"]) == before
    assert written(site, ["near_duplicates"]) != pairs


def test_a_new_bound_lets_the_item_into_the_next_version_alone(site) -> None:
    first, second = site.publish(), site.publish(**LENIENT)
    versions = site.lake().versions
    assert [versions.read(name).num_items for name in (first, second)] == [2, 3]
    assert versions.read(second).parents == (versions.read(first).id,)


def test_a_bound_that_changes_no_verdict_makes_no_version(site) -> None:
    site.publish()
    assert site.publish(quality={"flagged_weight": 0.4}) == "curated-v001"


def test_a_second_run_makes_no_table(site) -> None:
    made = site.tables()
    over_shards = sum(len(corpus_steps(row)) for row in MODALITIES.values())
    assert (made, site.tables()) == (len(row_steps(MODALITIES["text"])) + over_shards, 0)


def test_a_named_version_is_immutable(site) -> None:
    """Materializing an old version again after the lake went on leaves its contents, its source and its chain as
    they were."""
    name, lake = site.publish(), site.lake()
    held, chain = lake.versions.read(name), publish.read_result(lake, name, "provenance")
    stamp = lake.tables.stamp(Slot("manifest", "all", name))
    site.land("text/b.jsonl", [make.prose(5)])
    publish_version(lake := site.catalogued(), name)
    assert lake.versions.read(name) == held
    assert lake.tables.stamp(Slot("manifest", "all", name)).inputs == stamp.inputs
    assert publish.read_result(lake, name, "provenance") == chain


def test_an_old_version_made_again_does_not_pass_for_the_new_catalog(site) -> None:
    name = site.publish()
    site.land("text/b.jsonl", [make.prose(5)])
    publish_version(site.catalogued(), name)
    assert site.publish() == "curated-v002"
    assert site.lake().versions.read("curated-v002").num_items == 3


class Killed(BaseException):
    """Stands for the end of the process: no border catches it."""


def killed(site, monkeypatch, owner, name: str, when, *, first: bool = False) -> None:
    """Publish, and die where `name` of the owner is called with arguments that `when` picks. first: it does its work
    first."""
    real = getattr(owner, name)

    def deadly(*arguments, **fields):
        chosen = when(*arguments)
        if first or not chosen:
            made = real(*arguments, **fields)
        if chosen:
            raise Killed
        return made

    lake = site.catalogued()
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, deadly)
        with pytest.raises(Killed):
            publish_version(lake, publish.needs_version(lake, "curated")[0])


def killed_before_stamp(site, monkeypatch, step: str) -> None:
    killed(site, monkeypatch, Tables, "mark", lambda tables, slot, stamp: slot.table == step)


STAMPS = (
    "manifest",
    "diversity",
    "training_shards",
    "probe_scores",
    "decision",
    "publication",
    "stage_costs",
    "precompute_plan",
    "provenance",
)
SAME_ALWAYS = ("diversity", "probe_scores", "decision")


@pytest.fixture(scope="module")
def undisturbed(published_site) -> dict[str, str]:
    """The outcome of a publishing that nothing interrupted."""
    return outcome(Lake(published_site / "lake", landing=published_site / "landing"), "curated-v001")


def outcome(lake, name: str) -> dict[str, str]:
    """What a version is and says, without its id, in which the time is."""
    said = {step: lake.tables.stamp(Slot(step, "all", name)).data_version for step in SAME_ALWAYS}
    return said | {"tree": lake.versions.read(name).tree}


def test_a_publishing_killed_before_any_stamp_ends_the_same(site, monkeypatch, undisturbed) -> None:
    """One lake, killed once before each stamp in turn: the version that comes out is the one that nothing disturbed."""
    for step in STAMPS:
        killed_before_stamp(site, monkeypatch, step)
        lake = site.lake()
        assert not publish.version_is_complete(lake, "curated-v001")
        # a branch never points at a draft, whenever the writer dies
        assert ("curated" in lake.versions.branches()) is not lake.versions.is_draft("curated-v001")
    assert site.publish() == "curated-v001"
    lake = site.lake()
    assert outcome(lake, "curated-v001") == undisturbed
    assert lake.versions.read("curated").tree == undisturbed["tree"]
    assert len(lake.versions.versions()) == 1


@pytest.mark.parametrize("moved", [False, True], ids=["before the branch moves", "after"])
def test_a_publishing_killed_between_check_and_stamp_ends_the_same(site, monkeypatch, undisturbed, moved) -> None:
    killed(site, monkeypatch, VersionStore, "publish", lambda *arguments: True, first=moved)
    versions = site.lake().versions
    assert versions.branches() == ({"curated": versions.resolve("curated-v001")} if moved else {})
    assert versions.is_draft("curated-v001") is not moved
    assert site.publish() == "curated-v001"
    assert versions.branches() == {"curated": versions.resolve("curated-v001")}
    assert versions.read("curated").tree == undisturbed["tree"]
    assert (versions.is_draft("curated"), len(versions.versions()), len(versions.log("curated"))) == (False, 1, 1)


def test_a_version_killed_before_its_name_is_taken_up_under_the_same_id(site, monkeypatch) -> None:
    killed(site, monkeypatch, Refs, "create", lambda refs, kind, name, to: kind == "tags")
    (id_,) = site.lake().versions.versions()
    site.publish()
    assert site.lake().versions.tags() == {"curated-v001": id_}


def test_a_killed_publishing_does_not_pass_for_a_catalog_that_came_later(site, monkeypatch) -> None:
    """Named but not stamped, then the lake goes on: the name keeps the old contents, so a new version must come."""
    killed_before_stamp(site, monkeypatch, "manifest")
    site.land("text/b.jsonl", [make.prose(5)])
    assert site.publish() == "curated-v002"
    assert [site.lake().versions.read(name).num_items for name in ("curated-v001", "curated-v002")] == [2, 3]


def test_a_version_that_was_never_scored_does_not_keep_later_ones_from_a_decision(site, monkeypatch) -> None:
    killed_before_stamp(site, monkeypatch, "training_shards")
    site.land("text/b.jsonl", [make.prose(5)])
    name = site.publish()
    assert publish.read_result(site.lake(), name, "decision")["baseline"] is None


def test_a_new_source_priority_chooses_survivors_anew(site) -> None:
    site.land("text/a.jsonl", [make.prose(3) + " Amended since."])
    site.land("books/b.jsonl", [make.prose(3)])
    kept = [_survivor_after(site, preferred) for preferred in ("text", "books", "text")]
    assert kept[0] != kept[1]
    assert kept[0] == kept[2]


def _survivor_after(site, preferred: str) -> str:
    for source in ("text", "books"):
        make.land(site.zone, {f"{source}/_source.json": b'{"priority": %d}' % (1 if source == preferred else 50)})
    site.tables()
    clusters = site.lake().tables.read(Slot("duplicate_clusters", "text"), columns=["digest", "is_survivor"])
    (survivor,) = clusters.filter(clusters.column("is_survivor")).column("digest").to_pylist()
    return survivor
