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
from mmlake_assets.door_server import refuse_open
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
