"""A backfill through a real daemon and code server, and the UI in a real browser, all on one lake.

A page of another site, in that browser, launches nothing, whatever it tries; the UI's own pages launch, backfill and
stream logs through the same door. One deployment and one browser for all: each is seconds of CPU time to start.
"""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from mmlake.lake import Lake
from mmlake.pipeline import refresh
from mmlake_assets.instance import open_instance
from mmlake_assets.partitions import SHARD_SETS
from tests import make
from tests.browsers import headless
from tests.graph.deployment import Deployment, deployed
from tests.graph.hostile_site import hostile_site
from tests.lakes import copied

pytestmark = [pytest.mark.slow, pytest.mark.daemon]
RUN_SHARDS = 8
NUM_SHARDS = RUN_SHARDS + 2  # the second run is a short one
BACKFILL_S = 600
RUN_S = 180
SHOTS = os.environ.get("MMLAKE_SHOTS")  # a folder: keep the pictures there

NAMES = {"repositoryLocationName": "mmlake_assets.definitions", "repositoryName": "__repository__"}
LAUNCH_RUN = (
    "mutation($p: ExecutionParams!) { launchPipelineExecution(executionParams: $p) { __typename ... on "
    "LaunchRunSuccess { run { runId } } ... on PythonError { message } ... on RunConfigValidationInvalid { errors { "
    "message } } } }"
)
LAUNCH_BACKFILL = (
    "mutation($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) { __typename ... on "
    "LaunchBackfillSuccess { backfillId } } }"
)
LAUNCHED = (
    "{ runsOrError { ... on Runs { results { runId } } } partitionBackfillsOrError { ... on PartitionBackfills { "
    "results { id } } } }"
)
LOGS = (
    "subscription($id: ID!) { pipelineRunLogs(runId: $id, cursor: null) { __typename ... on "
    "PipelineRunLogsSubscriptionSuccess { messages { __typename } } } }"
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
    with deployed(base / "lake", base / "landing", MMLAKE_BACKFILL_SHARDS=str(RUN_SHARDS)) as made:
        yield made


def test_a_backfill_of_more_shards_of_one_modality_than_fit_a_run_takes_two(deployment: Deployment) -> None:
    keys = [key for key in Lake(deployment.lake).registry.keys("text") if key.startswith("many/")]
    assert len(keys) == NUM_SHARDS
    selection = [{"path": ["text", name]} for name in ("items", "blobs", "tracks")]
    launched = deployment.ask(
        LAUNCH_BACKFILL, p={"assetSelection": selection, "partitionNames": [f"text|{key}" for key in keys]}
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
    with headless("--host-resolver-rules=MAP elsewhere.example 127.0.0.1") as made:
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


def _launched(deployment: Deployment) -> list[str]:
    """The ids of all runs and backfills, the newest first."""
    data = deployment.ask(LAUNCHED)
    runs = [run["runId"] for run in data["runsOrError"]["results"]]
    return runs + [one["id"] for one in data["partitionBackfillsOrError"]["results"]]


def _params(**config: Any) -> dict[str, Any]:
    """A run of the job that every lake has, of all that it has."""
    return {"selector": {**NAMES, "pipelineName": "lake_samples"}, "mode": "default", "runConfigData": config}


@pytest.fixture(scope="module")
def hostile(deployment: Deployment) -> Iterator[str]:
    with hostile_site(deployment.url, {"query": LAUNCH_RUN, "variables": {"p": _params()}}) as address:
        yield address


@pytest.mark.browser
@pytest.mark.parametrize("name", ["elsewhere.example", "127.0.0.1", "localhost"])
def test_a_page_of_another_site_launches_nothing(browser, deployment: Deployment, hostile: str, name: str) -> None:
    """Also one that another server of this machine serves: to a browser, that is the same site."""
    before = _launched(deployment)
    browser.get_log("browser")  # what pages before this one said
    browser.get(hostile.replace("elsewhere.example", name))
    title = deployment.wait(lambda: browser.title if browser.title.startswith("{") else "", seconds=60)
    found = json.loads(title)
    log = " ".join(entry["message"] for entry in browser.get_log("browser"))
    assert {name for name, outcome in found.items() if outcome == "failed"} == {
        "get", "read", "json", "plain", "address", "report", "picture", "script", "socket",
    }  # fmt: skip
    # they were sent, and it is the door that answered
    assert log.count("ERR_BLOCKED_BY_RESPONSE.NotSameOrigin") >= 6
    assert "WebSocket handshake: Unexpected response code: 403" in log
    assert _launched(deployment) == before


@pytest.mark.browser
def test_a_name_that_a_site_made_point_here_shows_nothing_of_the_ui(browser, deployment: Deployment) -> None:
    """DNS rebinding: the page would be of the same origin as the UI."""
    browser.get(deployment.url.replace("127.0.0.1", "elsewhere.example") + "/overview")
    assert browser.find_element("tag name", "body").text == "this server has another name"
    sent = browser.execute_async_script(
        "const done = arguments[1]; fetch('/graphql', {method: 'POST', headers: {'Content-Type': "
        "'application/json'}, body: arguments[0]}).then(a => done(a.status), () => done('failed'))",
        json.dumps({"query": "{version}"}),
    )
    assert sent == 421


def _status(deployment: Deployment, method: str, path: str, headers: dict[str, str], body: str = "") -> int:
    connection = http.client.HTTPConnection(deployment.url.removeprefix("http://"), timeout=30)
    try:
        connection.request(method, path, body or None, headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_real_server_refuses_what_dagster_would_execute(deployment: Deployment) -> None:
    """A GET with a foreign origin launched a run in a lake of its own choice."""
    before = _launched(deployment)
    asked = json.dumps({"query": LAUNCH_RUN, "variables": {"p": _params()}})
    address = f"/graphql?query={quote(LAUNCH_RUN)}&variables={quote(json.dumps({'p': _params()}))}"
    own, typed = {"Origin": deployment.url}, {"Content-Type": "application/json"}
    assert _status(deployment, "GET", address, {"Origin": "http://elsewhere.example"}) == 403
    assert _status(deployment, "GET", address, own) == 405
    assert _status(deployment, "GET", address.replace("/graphql", "/%67raphql"), {}) == 405
    assert _status(deployment, "GET", address.replace("/graphql", "/graphql%0a"), {}) == 400
    assert _status(deployment, "POST", address, own | {"Content-Type": "text/plain"}) == 415
    assert _status(deployment, "POST", "/graphql", typed, asked) == 403
    assert _status(deployment, "POST", "/graphql", typed | {"Origin": "null"}, asked) == 403
    assert _status(deployment, "POST", "/graphql", own | typed | {"Host": "elsewhere.example"}, asked) == 421
    assert _status(deployment, "POST", "/report_asset_materialization/catalog", own | typed, "{}") == 403
    assert _launched(deployment) == before


def test_a_request_cannot_choose_the_lake(deployment: Deployment, tmp_path: Path) -> None:
    config = {"resources": {"lake": {"config": {"root": str(tmp_path / "theirs"), "landing": "/etc"}}}}
    answer = deployment.ask(LAUNCH_RUN, p=_params(**config))["launchPipelineExecution"]
    assert answer["__typename"] == "RunConfigValidationInvalid"
    assert not (tmp_path / "theirs").exists()


def test_the_ui_launches_and_streams_logs_through_the_door(deployment: Deployment) -> None:
    """What the hostile page asks for, asked by a page of our own; then a web socket with the events of the run."""
    launched = deployment.ask(LAUNCH_RUN, p=_params())["launchPipelineExecution"]
    assert launched["__typename"] == "LaunchRunSuccess", launched
    assert launched["run"]["runId"] in _launched(deployment)
    assert "RunSuccessEvent" in _streamed(deployment, launched["run"]["runId"])


def test_the_ui_backfills_through_the_door(deployment: Deployment) -> None:
    landing = make.land(deployment.lake.parent / "landing", {"late/a.jsonl": make.jsonl([make.prose(99)])})
    lake = Lake(deployment.lake, landing=landing)
    refresh(lake)
    with open_instance(deployment.lake) as instance:
        instance.add_dynamic_partitions(SHARD_SETS["text"], ["late/a.jsonl"])
    assert not lake.tables.has("items", "text", "late/a.jsonl")
    before = set(_launched(deployment))
    selection = {"assetSelection": [{"path": ["text", "items"]}], "partitionNames": ["text|late/a.jsonl"]}
    launched = deployment.ask(LAUNCH_BACKFILL, p=selection)["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess"
    deployment.wait(lambda: len(set(_launched(deployment)) - before) == 2, seconds=RUN_S)  # the backfill and its run
    deployment.wait(lambda: lake.tables.has("items", "text", "late/a.jsonl"), seconds=RUN_S)


def _streamed(deployment: Deployment, run: str) -> list[str]:
    """The kinds of the run's events, as its page is sent them."""
    from websockets.sync.client import connect

    kinds: list[str] = []
    address = deployment.url.replace("http", "ws") + "/graphql"
    with connect(address, origin=deployment.url, subprotocols=["graphql-ws"]) as socket:
        socket.send(json.dumps({"type": "connection_init"}))
        socket.send(json.dumps({"type": "start", "id": "1", "payload": {"query": LOGS, "variables": {"id": run}}}))
        until = time.monotonic() + RUN_S
        while time.monotonic() < until and not {"RunSuccessEvent", "RunFailureEvent"} & set(kinds):
            data = json.loads(socket.recv(timeout=RUN_S)).get("payload", {}).get("data") or {}
            kinds += [one["__typename"] for one in data.get("pipelineRunLogs", {}).get("messages", ())]
    return kinds
