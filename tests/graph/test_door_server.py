"""The web server of a deployment: who starts it without a token, and what it does with one."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mmlake.errors import SettingsError
from mmlake_assets.door_server import GuardedWebserver, refuse_open
from mmlake_assets.instance import dagster_home
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
TOKEN = "a-token-of-this-test"
START_S = 120


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "::", "lake.example"])
def test_an_address_that_others_reach_needs_a_token(host: str) -> None:
    with pytest.raises(SettingsError, match=f"would answer everybody who reaches {host}; set MMLAKE_UI_TOKEN"):
        refuse_open(host, "")
    refuse_open(host, TOKEN)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_this_machine_needs_none(host: str) -> None:
    refuse_open(host, "")


@pytest.mark.parametrize("token", ["short", "with a blank in it", "quotes;and;semicolons"])
def test_a_token_that_is_easily_guessed_or_no_cookie_is_refused(token: str) -> None:
    with pytest.raises(SettingsError, match="expected at least 16 letters"):
        refuse_open("127.0.0.1", token)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a real one, without code servers."""
    base, port = tmp_path_factory.mktemp("server"), free_port()
    (base / "workspace.yaml").write_text("load_from: []\n")
    environment = os.environ | {
        "DAGSTER_HOME": str(dagster_home(base)), "MMLAKE_UI_TOKEN": TOKEN, "MMLAKE_UI_NAMES": "lake.example",
        "PYTHONWARNINGS": "ignore",
    }  # fmt: skip
    words = [
        "--workspace",
        str(base / "workspace.yaml"),
        "--port",
        str(port),
        "--path-prefix",
        "/dagster",
        "--read-only",
    ]
    process = subprocess.Popen([sys.executable, "-m", "mmlake_assets.door_server", *words], env=environment, cwd=ROOT)
    try:
        until = time.monotonic() + START_S
        while time.monotonic() < until and not _listens(port):
            assert process.poll() is None
            time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        assert process.wait(30) in (0, -15)


def _listens(port: int) -> bool:
    try:
        return ask(port, "GET", "/dagster/server_info")[0] == 200
    except ConnectionError:
        return False


def ask(port: int, method: str, path: str, body: str = "", **headers: str) -> tuple[int, str, dict[str, str]]:
    """(status, text, headers) of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(
            method, path, body or None, {name.replace("_", "-"): value for name, value in headers.items()}
        )
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())
    finally:
        connection.close()


@pytest.mark.slow
def test_a_token_is_asked_for_and_opens_the_ui_under_its_prefix_and_name(server: int) -> None:
    assert ask(server, "GET", "/dagster/overview")[0] == 401
    assert ask(server, "GET", "/dagster/overview", Host="lake.example", Authorization=f"Bearer {TOKEN}")[0] == 200
    assert ask(server, "GET", "/dagster/overview", Host="other.example", Authorization=f"Bearer {TOKEN}")[0] == 421
    status, _, headers = ask(server, "GET", f"/dagster/overview?token={TOKEN}")
    assert (status, headers["location"]) == (303, "/dagster/overview")
    cookie = headers["set-cookie"].partition(";")[0]
    status, page, headers = ask(server, "GET", headers["location"], Cookie=cookie)
    assert (status, headers["x-frame-options"]) == (200, "SAMEORIGIN")
    assert "<html" in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/dagster/graphql%0a?query=%7Bversion%7D", 400),  # was executed: to the router, the same path
        ("/dagster/graphql%0d%0a?query=%7Bversion%7D", 400),
        ("/dagster/graphql?query=%7Bversion%7D", 405),
        ("/dagster//graphql?query=%7Bversion%7D", 405),
        ("/dagster/notebook?repoLocName=a&path=/tmp/a.ipynb", 403),
        ("/dagster/logs/..%2f..%2f..%2fetc/passwd/out", 404),  # was a traceback
        ("/dagster/download_debug/nobody", 404),
    ],
)
def test_no_address_executes_graphql_or_shows_a_file(server: int, path: str, status: int) -> None:
    assert ask(server, "GET", path, Authorization=f"Bearer {TOKEN}")[0] == status


@pytest.mark.slow
@pytest.mark.parametrize("body", ["[]", '[{"query": "{ version }"}]', "{}", "1", '{"query": 1}', "[" * 100_000, "{",
                                  '{"query": "{ version }", "variables": 1}'])  # fmt: skip
def test_a_body_that_is_no_question_is_answered_in_a_line(server: int, body: str) -> None:
    own = {"Origin": f"http://127.0.0.1:{server}", "Content_Type": "application/json"}
    status, answer, _ = ask(server, "POST", "/dagster/graphql", body, Authorization=f"Bearer {TOKEN}", **own)
    assert (status, answer.count("\n")) == (400, 1)


def test_the_door_knows_every_route_of_the_web_server(tmp_path: Path) -> None:
    """A release of Dagster that answers to another path is to be read before it is let through."""
    web = GuardedWebserver.__new__(GuardedWebserver)
    web._app_path_prefix, web.build_static_routes = "", list
    assert [route.path for route in web.build_routes()] == [
        "/server_info", "/dagit_info", "/graphql", "/graphql", "/logs/{path:path}", "/notebook", "/dagit/notebook",
        "/download_debug/{run_id:str}", "/report_asset_materialization/{asset_key:path}",
        "/report_asset_check/{asset_key:path}", "/report_asset_observation/{asset_key:path}", "/{path:path}", "/",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_viewer_answers_and_launches_nothing(server: int) -> None:
    own = {
        "Authorization": f"Bearer {TOKEN}",
        "Origin": f"http://127.0.0.1:{server}",
        "Content_Type": "application/json",
    }
    status, answer, _ = ask(server, "POST", "/dagster/graphql", '{"query": "{ version }"}', **own)
    assert (status, "1.13" in answer) == (200, True)
    deletion = '{"query": "mutation { deletePipelineRun(runId: \\"x\\") { __typename } }"}'
    assert "UnauthorizedError" in ask(server, "POST", "/dagster/graphql", deletion, **own)[1]
