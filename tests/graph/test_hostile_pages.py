"""A page of another site, in a real browser, at the real UI: whatever it tries, nothing is launched; the UI's own pages
launch, backfill and stream logs through the same door."""

from __future__ import annotations

import http.client
import http.server
import json
import threading
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

pytestmark = [pytest.mark.slow, pytest.mark.daemon]
RUN_S = 180
NAMES = {"repositoryLocationName": "mmlake_assets.definitions", "repositoryName": "__repository__"}
LAUNCH = (
    "mutation($p: ExecutionParams!) { launchPipelineExecution(executionParams: $p) { __typename ... on "
    "LaunchRunSuccess { run { runId } } ... on PythonError { message } ... on RunConfigValidationInvalid { errors { "
    "message } } } }"
)
BACKFILL = (
    "mutation($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) { __typename ... on "
    "LaunchBackfillSuccess { backfillId } } }"
)
RUNS = (
    "{ runsOrError { ... on Runs { results { runId } } } partitionBackfillsOrError { ... on PartitionBackfills { "
    "results { id } } } }"
)
LOGS = (
    "subscription($id: ID!) { pipelineRunLogs(runId: $id, cursor: null) { __typename ... on "
    "PipelineRunLogsSubscriptionSuccess { messages { __typename } } } }"
)
# each way by which a page can make a browser send something to another host
PAGE = Path(__file__).with_name("hostile_page.html").read_text()


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    base = tmp_path_factory.mktemp("hostile-pages")
    make.land(base / "landing", {"text/a.jsonl": make.jsonl([make.prose(1)])})
    with deployed(base / "lake", base / "landing") as made:
        yield made


def _launched(deployment: Deployment) -> list[str]:
    """The ids of all runs and backfills, the newest first."""
    data = deployment.ask(RUNS)
    runs = [run["runId"] for run in data["runsOrError"]["results"]]
    return runs + [one["id"] for one in data["partitionBackfillsOrError"]["results"]]


def _params(**config: Any) -> dict[str, Any]:
    """A run of the job that every lake has, of all that it has."""
    return {"selector": {**NAMES, "pipelineName": "lake_samples"}, "mode": "default", "runConfigData": config}


@pytest.fixture(scope="module")
def hostile(deployment: Deployment) -> Iterator[str]:
    """Address of a site that serves the page under every name."""
    asked = json.dumps({"query": LAUNCH, "variables": {"p": _params()}})
    page = PAGE.replace("ADDRESS", json.dumps(deployment.url)).replace("ASKED", asked)

    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://elsewhere.example:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.browser
@pytest.mark.parametrize("name", ["elsewhere.example", "127.0.0.1", "localhost"])
def test_a_page_of_another_site_launches_nothing(deployment: Deployment, hostile: str, name: str) -> None:
    """Also one that another server of this machine serves: to a browser, that is the same site."""
    before = _launched(deployment)
    with headless("--host-resolver-rules=MAP elsewhere.example 127.0.0.1") as browser:
        browser.get(hostile.replace("elsewhere.example", name))
        found = json.loads(deployment.wait(lambda: browser.title if browser.title != "waiting" else "", seconds=60))
        log = " ".join(entry["message"] for entry in browser.get_log("browser"))
    assert {name for name, outcome in found.items() if outcome == "failed"} == {
        "get", "read", "json", "plain", "address", "report", "picture", "script", "socket",
    }  # fmt: skip
    # they were sent, and it is the door that answered
    assert log.count("ERR_BLOCKED_BY_RESPONSE.NotSameOrigin") >= 6
    assert "WebSocket handshake: Unexpected response code: 403" in log
    assert _launched(deployment) == before


@pytest.mark.browser
def test_a_name_that_a_site_made_point_here_shows_nothing_of_the_ui(deployment: Deployment) -> None:
    """DNS rebinding: the page would be of the same origin as the UI."""
    with headless("--host-resolver-rules=MAP elsewhere.example 127.0.0.1") as browser:
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
    asked = json.dumps({"query": LAUNCH, "variables": {"p": _params()}})
    address = f"/graphql?query={quote(LAUNCH)}&variables={quote(json.dumps({'p': _params()}))}"
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
    answer = deployment.ask(LAUNCH, p=_params(**config))["launchPipelineExecution"]
    assert answer["__typename"] == "RunConfigValidationInvalid"
    assert not (tmp_path / "theirs").exists()


def test_the_ui_launches_and_streams_logs_through_the_door(deployment: Deployment) -> None:
    """What the hostile page asks for, asked by a page of our own; then a web socket with the events of the run."""
    launched = deployment.ask(LAUNCH, p=_params())["launchPipelineExecution"]
    assert launched["__typename"] == "LaunchRunSuccess", launched
    assert launched["run"]["runId"] in _launched(deployment)
    assert "RunSuccessEvent" in _streamed(deployment, launched["run"]["runId"])


def test_the_ui_backfills_through_the_door(deployment: Deployment) -> None:
    lake = Lake(deployment.lake, landing=deployment.lake.parent / "landing")
    refresh(lake)
    with open_instance(deployment.lake) as instance:
        instance.add_dynamic_partitions(SHARD_SETS["text"], ["text/a.jsonl"])
    before = set(_launched(deployment))
    selection = {"assetSelection": [{"path": ["text", "items"]}], "partitionNames": ["text|text/a.jsonl"]}
    launched = deployment.ask(BACKFILL, p=selection)["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess"
    deployment.wait(lambda: len(set(_launched(deployment)) - before) == 2, seconds=RUN_S)  # the backfill and its run
    deployment.wait(lambda: lake.tables.has("items", "text", "text/a.jsonl"), seconds=RUN_S)


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
