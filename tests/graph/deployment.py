"""A real deployment for tests: web server, daemon and code server on a lake, and its GraphQL interface."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmlake_assets.instance import EVENT_BATCHES, dagster_home
from tests.ports import free_port

START_S = 120
POLL_S = 0.5


@dataclass(frozen=True)
class Deployment:
    """Where it listens, and whose it is."""

    url: str
    lake: Path
    log: Path

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """The data of a GraphQL answer."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        headers = {"Content-Type": "application/json", "Origin": self.url}
        request = urllib.request.Request(f"{self.url}/graphql", data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)
        assert "errors" not in answer, answer
        return answer["data"]

    def wait(self, ready: Any, *, seconds: float) -> Any:
        """What `ready()` gives as soon as it is true; fails with the end of the log after that long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if found := ready():
                return found
            time.sleep(POLL_S)
        raise AssertionError(f"not there after {seconds} s; the log ends with:\n{self.log.read_text()[-4000:]}")


@contextmanager
def deployed(lake: Path, landing: Path, **changed: str) -> Iterator[Deployment]:
    """What `mmlake ui` becomes, on the lake, in a process group of its own that is stopped as a whole: its children
    outlive it otherwise. changed: variables of its environment."""
    port = free_port()
    environment = os.environ | {
        "DAGSTER_HOME": str(dagster_home(lake)), "MMLAKE_LAKE": str(lake), "MMLAKE_LANDING": str(landing),
        "MMLAKE_AUTOMATION": "off", "MMLAKE_DEVICE": "cpu", "PYTHONWARNINGS": "ignore",
        **EVENT_BATCHES,
        **changed,
    }  # fmt: skip
    command = [sys.executable, "-m", "mmlake_assets.door_services", "--log-level", "info", "--port", str(port)]
    with (lake / "dev.log").open("w") as log:
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=Path(__file__).parents[2],
        )
    made = Deployment(f"http://127.0.0.1:{port}", lake, lake / "dev.log")
    try:
        made.wait(lambda: _answers(made), seconds=START_S)
        yield made
    finally:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def _answers(made: Deployment) -> bool:
    try:
        return bool(
            made.ask("{ repositoriesOrError { ... on RepositoryConnection { nodes { name } } } }")[
                "repositoriesOrError"
            ].get("nodes")
        )
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
