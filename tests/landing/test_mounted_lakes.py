"""Lakes on several landing zones: what is remembered and pinned, what comes and goes, and one that cannot be
reached."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import dagster as dg
import pytest
from hub_server import NAME, TOKEN, Hub
from site_server import serving_site

from mmlake import __version__, checked_json
from mmlake.errors import RemoteUnavailable, SettingsError
from mmlake.item_provenance import story_of
from mmlake.lake import FORMAT, Lake
from mmlake.pipeline import refresh
from mmlake.remote import hub as remote_hub
from mmlake.remote.backoff import Budget, Retries
from mmlake.steps import ROW_STEPS, run_step
from mmlake.tables import Slot
from mmlake.upkeep import repair_blobs
from mmlake_assets.instance import open_instance
from mmlake_assets.run import run_lake
from mmlake_assets.sensors import landing_zone
from mmlake_resources import CudaExecutorResource, LakeResource
from tests import make

ADDRESS = f"hf://datasets/{NAME}"
CARD = b"---\nlicense: odc-by\n---\n"


@pytest.fixture
def places(hub: Hub, tmp_path: Path) -> dict[str, str]:
    """A directory, and a data set on the hub."""
    hub.commit({"README.md": CARD, "a.jsonl": make.jsonl([make.prose(1)])})
    return {"notes": str(make.land(tmp_path / "notes", {"b.jsonl": make.jsonl([make.prose(2)])})), "web": ADDRESS}


@pytest.fixture
def outage(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes the hub answer nothing but 503 from then on, to callers that do not wait between their tries."""
    monkeypatch.setattr(remote_hub, "Retries", partial(Retries, sleep=lambda seconds: None, budget=Budget()))

    def begin() -> None:
        hub.is_down = True

    return begin


def keys(lake: Lake) -> list[str]:
    return lake.registry.keys("text")


def memory(lake: Lake) -> dict[str, object]:
    return checked_json.loads((lake.root / "lake.json").read_bytes())


def test_places_and_pins_are_remembered_by_name(hub: Hub, places: dict[str, str], tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", landing=places)
    refresh(lake)
    sha = hub.refs["main"]
    assert memory(lake)["landing"] == {"notes": places["notes"], "web": f"{ADDRESS}@{sha}"}
    assert memory(lake)["asked"] == {"web": ADDRESS}
    again = Lake(lake.root)
    assert [shard.key for shard in refresh(again).new] == [] and keys(again) == ["notes/b.jsonl", "web/a.jsonl"]
    assert again.origin()["zones"] == {
        "notes": {"location": places["notes"]},
        "web": {"location": f"{ADDRESS}@{sha}", "revision": sha},
    }


def test_every_process_reads_the_pinned_revision_until_the_name_is_given_again(
    hub: Hub, places: dict[str, str], tmp_path: Path
) -> None:
    refresh(Lake(tmp_path / "lake", landing=places))
    hub.commit({"README.md": CARD, "a.jsonl": make.jsonl([make.prose(1), make.prose(3)])})
    assert refresh(Lake(tmp_path / "lake", landing=places)).unchanged == 2
    other = Lake(tmp_path / "lake", landing={"notes": places["notes"]})
    other.pin_landing()
    assert refresh(other).changed == ()
    newer = Lake(tmp_path / "lake", landing={"web": ADDRESS})
    newer.pin_landing()
    assert [shard.key for shard in refresh(newer).changed] == ["web/a.jsonl"]
    assert memory(newer)["landing"]["web"] == f"{ADDRESS}@{hub.refs['main']}"


def test_source_licence_and_pin_are_reported_of_an_item(hub: Hub, places: dict[str, str], tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", landing=places)
    refresh(lake)
    for key in keys(lake):
        run_step(ROW_STEPS["items"], lake, "text", key)
    rows = lake.tables.concat("items", "text").to_pylist()
    assert {(row["source"], row["licence"]) for row in rows} == {("notes", "NOASSERTION"), (NAME, "ODC-By-1.0")}
    story = story_of(Lake(lake.root), rows[0]["digest"]).to_text()
    assert f"  notes: {places['notes']}\n" in story
    assert f"  web: {ADDRESS}@{hub.refs['main']}, revision {hub.refs['main']}\n" in story


def test_one_more_can_be_named_later_and_nothing_is_read_again(places: dict[str, str], tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", landing={"notes": places["notes"]})
    refresh(lake)
    lake.remember_landing()
    more = make.land(tmp_path / "more", {"c.jsonl": make.jsonl([make.prose(4)])})
    grown = Lake(lake.root, landing={"more": more})
    assert ([shard.key for shard in refresh(grown).new], refresh(grown).unchanged) == (["more/c.jsonl"], 2)
    grown.remember_landing()
    assert keys(Lake(lake.root)) == ["more/c.jsonl", "notes/b.jsonl"]


def test_one_that_is_taken_away_is_gone_like_deleted_files(places: dict[str, str], tmp_path: Path) -> None:
    refresh(Lake(tmp_path / "lake", landing=places))
    fewer = Lake(tmp_path / "lake", landing={"web": ""})
    listing = refresh(fewer)
    fewer.remember_landing()
    assert (listing.gone, listing.failures) == (("web/a.jsonl",), ())
    assert memory(fewer) == {"format": FORMAT, "release": __version__, "landing": {"notes": places["notes"]}}
    with pytest.raises(SettingsError, match="no landing zone left"):
        refresh(Lake(tmp_path / "lake", landing={"notes": ""}))


def test_another_address_under_a_name_counts_as_other_contents(places: dict[str, str], tmp_path: Path) -> None:
    first = Lake(tmp_path / "lake", landing={"notes": places["notes"]})
    refresh(first)
    first.remember_landing()
    moved = make.land(
        tmp_path / "moved", {"b.jsonl": make.jsonl([make.prose(5)]), "c.jsonl": make.jsonl([make.prose(6)])}
    )
    listing = refresh(Lake(tmp_path / "lake", landing={"notes": moved}))
    assert ([shard.key for shard in listing.changed], [shard.key for shard in listing.new]) == (
        ["notes/b.jsonl"],
        ["notes/c.jsonl"],
    )


def test_a_lake_has_one_without_a_name_or_several_with_names(places: dict[str, str], tmp_path: Path) -> None:
    Lake(tmp_path / "plain", landing=places["notes"]).remember_landing()
    with pytest.raises(SettingsError, match="one landing zone without a name.*make another lake with --lake"):
        _ = Lake(tmp_path / "plain", landing=places).landing
    refresh(Lake(tmp_path / "named", landing=places))
    with pytest.raises(
        SettingsError, match=r"has the landing zones \['notes', 'web'\] by name.*--landing NAME=ADDRESS"
    ):
        _ = Lake(tmp_path / "named", landing=places["notes"]).landing


@pytest.mark.parametrize("landing", [{}, {"a": 3}, {"a": None}, ["a"]])
def test_a_damaged_memory_of_several_is_named(tmp_path: Path, landing: object) -> None:
    (tmp_path / "lake.json").write_text(json.dumps({"landing": landing}))
    with pytest.raises(SettingsError, match=r"lake\.json does not say where the landing zone is"):
        _ = Lake(tmp_path).landing


def test_a_scan_opens_no_more_new_shards_of_all_than_it_may(places: dict[str, str], tmp_path: Path) -> None:
    make.land(Path(places["notes"]), {f"{number}.jsonl": make.jsonl([make.prose(number)]) for number in range(3)})
    lake = Lake(tmp_path / "lake", landing=places)
    assert [len(refresh(lake, at_most=3).new) for _ in range(3)] == [3, 2, 0]


def test_what_is_just_named_wrongly_is_an_error_at_once(places: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="landing zone 'typo': .* is not a directory"):
        Lake(tmp_path / "lake", landing={**places, "typo": tmp_path / "nothing"}).pin_landing()
    with pytest.raises(SettingsError, match="landing zone 'typo': "):
        Lake(tmp_path / "lake", landing={**places, "typo": "hf://datasets/acme/none"}).pin_landing()


def test_shards_of_one_that_cannot_be_reached_stay_what_they_were(
    places: dict[str, str], outage: Callable[[], None], tmp_path: Path
) -> None:
    refresh(Lake(tmp_path / "lake", landing=places))
    make.land(Path(places["notes"]), {"new.jsonl": make.jsonl([make.prose(7)])})
    outage()
    lake = Lake(tmp_path / "lake", landing=places)
    lake.pin_landing()
    listing = refresh(lake)
    assert ([shard.key for shard in listing.new], listing.gone, listing.unseen) == (
        ["notes/new.jsonl"],
        (),
        {"web/a.jsonl"},
    )
    assert [str(error).partition(":")[0] for error in listing.failures] == ["landing zone 'web'"]
    assert keys(lake) == ["notes/b.jsonl", "notes/new.jsonl", "web/a.jsonl"]
    assert run_step(ROW_STEPS["items"], lake, "text", "notes/new.jsonl").stamp.num_rows == 1
    with pytest.raises(RemoteUnavailable, match="landing zone 'web'"):
        run_step(ROW_STEPS["items"], lake, "text", "web/a.jsonl")


def test_a_directory_that_is_not_there_any_more_takes_no_shard_away(places: dict[str, str], tmp_path: Path) -> None:
    refresh(Lake(tmp_path / "lake", landing=places))
    Path(places["notes"]).rename(tmp_path / "unmounted")
    lake = Lake(tmp_path / "lake")
    listing = refresh(lake)
    lake.remember_landing()
    assert (listing.gone, listing.unseen) == ((), {"notes/b.jsonl"})
    assert "landing zone 'notes'" in str(listing.failures[0])
    assert memory(lake)["landing"]["notes"] == places["notes"]


def test_none_that_can_be_reached_is_an_error(
    places: dict[str, str], outage: Callable[[], None], tmp_path: Path
) -> None:
    outage()
    with pytest.raises(RemoteUnavailable, match="landing zone 'web'"):
        refresh(Lake(tmp_path / "lake", landing={"web": ADDRESS}))


def test_the_address_of_one_that_was_never_reached_is_not_remembered(
    places: dict[str, str], outage: Callable[[], None], tmp_path: Path
) -> None:
    """It was never inspected, so nobody knows whether it holds a credential."""
    outage()
    lake = Lake(tmp_path / "lake", landing=places)
    refresh(lake)
    lake.remember_landing()
    assert memory(lake) == {"format": FORMAT, "release": __version__, "landing": {"notes": places["notes"]}}


def test_an_address_that_leads_nowhere_is_not_remembered_and_replaces_none(
    places: dict[str, str], tmp_path: Path
) -> None:
    with serving_site() as site:
        site.files = {"c.jsonl": make.jsonl([make.prose(8)])}
        first = Lake(tmp_path / "lake", landing={"notes": places["notes"], "site": site.url}, limit=5)
        refresh(first)
        assert memory(first)["landing"] == {"notes": places["notes"], "site": site.url}
        wrong = Lake(tmp_path / "lake", landing={"site": f"{site.url}gone/", "typo": f"{site.url}nothing/"})
        listing = refresh(wrong)
        wrong.remember_landing()
        assert [str(error).partition(":")[0] for error in listing.failures] == [
            "landing zone 'site'",
            "landing zone 'typo'",
        ]
        assert memory(wrong)["landing"] == {"notes": places["notes"], "site": site.url}


def test_a_name_that_the_lake_does_not_have_cannot_be_taken_away_by_hand(
    places: dict[str, str], tmp_path: Path
) -> None:
    refresh(Lake(tmp_path / "lake", landing=places))
    with pytest.raises(SettingsError, match=r"no landing zone 'nots' to take away, but \['notes', 'web'\]"):
        Lake(tmp_path / "lake", landing={"nots": ""}).pin_landing()
    with pytest.raises(SettingsError, match="no landing zone 'notes' to take away: none has a name"):
        Lake(tmp_path / "other", landing={"notes": ""}).pin_landing()


def test_a_changed_blob_is_read_again_from_its_own_landing_zone(places: dict[str, str], tmp_path: Path) -> None:
    make.land(Path(places["notes"]), {"pics/a.png": make.picture(1)})
    lake = Lake(tmp_path / "lake", landing=places)
    refresh(lake)
    run_step(ROW_STEPS["items"], lake, "image", "notes/pics")
    digest = lake.tables.read(Slot("items", "image", "notes/pics")).column("digest").to_pylist()[0]
    lake.store.remove(digest)
    assert [one.outcome for one in repair_blobs(Lake(lake.root), {digest: "missing"})] == ["repaired"]


def test_no_file_of_the_lake_holds_the_token(
    hub: Hub, places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.gated = True
    lake = Lake(tmp_path / "lake", landing=places)
    lake.pin_landing()
    refresh(lake)
    run_step(ROW_STEPS["items"], lake, "text", "web/a.jsonl")
    files = [path for base in (lake.root, tmp_path / "cache") for path in base.rglob("*") if path.is_file()]
    assert files and not [path for path in files if TOKEN.encode() in path.read_bytes()]


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral(tempdir=str(tmp_path / "home")) as one:
        yield one


def test_the_sensor_registers_what_it_reaches_and_its_tick_fails_where_that_is_all(
    places: dict[str, str], outage: Callable[[], None], tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    resource = LakeResource(root=str(tmp_path / "lake"), landings=places, settle_s=0.0)
    refresh(resource.open())
    outage()

    def tick() -> dg.SensorResult | dg.SkipReason:
        with dg.build_sensor_context(instance=instance, resources={"lake": resource}) as context:
            return landing_zone(context)

    (request,) = tick().dynamic_partitions_requests
    assert set(request.partition_keys) == {"notes/b.jsonl", "web/a.jsonl"}
    instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
    with pytest.raises(RemoteUnavailable, match="landing zone 'web'"):
        tick()


@pytest.mark.slow
def test_a_run_reads_the_others_publishes_nothing_and_ends_in_the_error(
    places: dict[str, str], outage: Callable[[], None], hub: Hub, tmp_path: Path
) -> None:
    (tmp_path / "notes" / "b.jsonl").unlink()
    make.land(tmp_path / "notes", {"a.png": make.picture(1)})  # the vector of an image needs no model to be loaded
    resource = LakeResource(root=str(tmp_path / "lake"), landings=places)
    refresh(resource.open())
    outage()
    with (
        open_instance(tmp_path / "lake") as instance,
        pytest.raises(RemoteUnavailable, match="landing zone 'web'.*nothing is published until all can be inspected"),
    ):
        run_lake(
            resource,
            CudaExecutorResource(device="cpu"),
            instance,
            recipes=("everything",),
            phase=lambda name, total: None,
        )
    tables = resource.open().tables
    assert tables.has("items", "image", "notes") and not tables.has("items", "text", "web/a.jsonl")
    assert resource.open().versions.tags() == {}
    hub.is_down = False
    assert refresh(resource.open()).failures == ()
