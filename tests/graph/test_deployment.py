"""A backfill through a real daemon and code server, and the UI in a real browser, all on one lake."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mmlake.lake import Lake
from mmlake.pipeline import refresh
from mmlake_assets.factory import BACKFILL_SHARDS
from mmlake_assets.partitions import SHARD_SETS
from tests import make
from tests.browsers import headless
from tests.graph.deployment import Deployment, deployed
from tests.lakes import copied

pytestmark = [pytest.mark.slow, pytest.mark.daemon]
NUM_SHARDS = BACKFILL_SHARDS + 2  # the second run is a short one
BACKFILL_S = 600
SHOTS = os.environ.get("MMLAKE_SHOTS")  # a folder: keep the pictures there

LAUNCH = (
    "mutation($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) { __typename ... on "
    "LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"
)
STATUS = "query($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }"
RUNS = (
    'query($id: String!) { runsOrError(filter: {tags: [{key: "dagster/backfill", value: $id}]}) { ... on Runs { '
    "results { runId status } } } }"
)


@pytest.fixture(scope="module")
def deployment(done, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    base = tmp_path_factory.mktemp("deployment")
    for own in copied(done, base):
        make.land(
            base / "landing",
            {f"many/n{number:03d}.jsonl": make.jsonl([make.prose(100 + number)]) for number in range(NUM_SHARDS)},
        )
        refresh(own.lake)
        own.instance.add_dynamic_partitions(
            SHARD_SETS["text"], [key for key in own.lake.registry.keys("text") if key.startswith("many/")]
        )
    with deployed(base / "lake", base / "landing") as made:
        yield made


def test_a_backfill_of_more_shards_of_one_modality_than_fit_a_run_takes_two(deployment: Deployment) -> None:
    keys = [key for key in Lake(deployment.lake).registry.keys("text") if key.startswith("many/")]
    assert len(keys) == NUM_SHARDS
    selection = [{"path": ["text", name]} for name in ("items", "blobs", "tracks")]
    launched = deployment.ask(
        LAUNCH, p={"assetSelection": selection, "partitionNames": [f"text|{key}" for key in keys]}
    )["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess", launched
    done = ("COMPLETED", "COMPLETED_SUCCESS", "COMPLETED_FAILED", "FAILED", "CANCELED")
    status = deployment.wait(
        lambda: next(
            iter({deployment.ask(STATUS, id=launched["backfillId"])["partitionBackfillOrError"]["status"]} & set(done)),
            None,
        ),
        seconds=BACKFILL_S,
    )
    runs = deployment.ask(RUNS, id=launched["backfillId"])["runsOrError"]["results"]
    assert status in ("COMPLETED", "COMPLETED_SUCCESS")
    assert [run["status"] for run in runs] == ["SUCCESS", "SUCCESS"]
    lake = Lake(deployment.lake)
    assert all(lake.tables.has("tracks", "text", key) for key in keys)


def test_the_workspace_has_every_asset_sensor_and_check(deployment: Deployment) -> None:
    data = deployment.ask(
        "{ assetNodes { assetKey { path } } repositoriesOrError { ... on RepositoryConnection { nodes { sensors { "
        "name } } } } }"
    )
    assert {sensor["name"] for node in data["repositoriesOrError"]["nodes"] for sensor in node["sensors"]} >= {
        "landing_zone",
        "automation",
        "publishing",
    }
    # alignments, speakers, components, captions of films and recordings; cross pairs but of films; scores but of texts
    of_some = 4 * 2 + 3 + 3
    assert len(data["assetNodes"]) == 4 * 14 + of_some + 1 + 9


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with headless() as made:
        yield made


def _see(browser, deployment: Deployment, path: str, *, words: list[str], name: str, tmp_path: Path) -> str:
    """The page's text once it shows the words; a picture of it goes to the folder."""
    browser.get(deployment.url + path)

    def shown() -> str | None:
        text = browser.find_element("tag name", "body").text
        return text if all(word.lower() in text.lower() for word in words) else None

    text = deployment.wait(shown, seconds=60)
    time.sleep(1.5)  # the graph is drawn after its words are there
    target = Path(SHOTS) if SHOTS else tmp_path
    target.mkdir(parents=True, exist_ok=True)
    assert browser.save_screenshot(str(target / f"{name}.png"))
    return text


@pytest.mark.browser
def test_the_asset_graph_is_drawn_in_groups(browser, deployment: Deployment, tmp_path: Path) -> None:
    text = _see(
        browser,
        deployment,
        "/asset-groups/",
        words=["text", "image", "video", "audio", "lake", "versions"],
        name="ui-graph",
        tmp_path=tmp_path,
    )
    assert "catalog" in text.lower()


@pytest.mark.browser
def test_the_partition_matrix_of_a_row_asset_is_shown(browser, deployment: Deployment, tmp_path: Path) -> None:
    text = _see(
        browser,
        deployment,
        "/assets/text/verdicts?view=partitions",
        words=["text/a.jsonl", "Materialized (2)"],
        name="ui-partitions",
        tmp_path=tmp_path,
    )
    assert f"Missing ({NUM_SHARDS})" in text or f"Materialized ({NUM_SHARDS + 2})" in text


@pytest.mark.browser
def test_an_asset_page_shows_its_counts_and_draws_its_plot(browser, deployment: Deployment, tmp_path: Path) -> None:
    _see(
        browser,
        deployment,
        "/assets/text/verdicts?view=events",
        words=["text/a.jsonl", "statuses"],
        name="ui-asset",
        tmp_path=tmp_path,
    )
    assert deployment.wait(lambda: browser.find_elements("css selector", "img[src^='data:image/svg+xml']"), seconds=60)


@pytest.mark.browser
def test_no_page_logs_an_error_of_ours(browser, deployment: Deployment) -> None:
    entries = [entry["message"] for entry in browser.get_log("browser")]
    assert [message for message in entries if "mmlake" in message.lower()] == []
