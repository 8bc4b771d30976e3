"""deploy/nginx.conf: what another site's page can make a browser send never reaches the web server.

The maps are read and applied here, everywhere; where an nginx is installed, the file is also run in front of a server
that answers everything.
"""

from __future__ import annotations

import http.client
import http.server
import re
import shutil
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.ports import free_port

CONF = (Path(__file__).parents[2] / "deploy/nginx.conf").read_text()
OWN = "http://{host}"
JSON = {"Content-Type": "application/json"}
MUTATION = "?query=mutation%20%7Bx%7D"

# method, path, headers; {host} is the name and port that was asked
ADMITTED = {
    "the page": ("GET", "/overview", {}),
    "a page with a query": ("GET", "/runs?q=x", {}),
    "graphql of our page": ("POST", "/graphql", {**JSON, "Origin": OWN}),
    "graphql with a charset": ("POST", "/graphql", {"Content-Type": "application/json; charset=utf-8", "Origin": OWN}),
    "graphql of a program": ("POST", "/graphql", JSON),
    "graphql as the pages of Dagster 1.13 send it": ("POST", "/graphql?op=RunsFeedRootQuery", {**JSON, "Origin": OWN}),
}
REFUSED = {
    "a GET mutation": ("GET", "/graphql" + MUTATION, {}, 405),
    "a GET mutation with an encoded name": ("GET", "/graphql?%71uery=mutation", {}, 405),
    "a GET mutation by another spelling of the path": ("GET", "//%67raphql" + MUTATION, {}, 405),
    "a GET mutation below the path": ("GET", "/graphql/" + MUTATION, {}, 405),
    "a form": ("POST", "/graphql" + MUTATION, {"Content-Type": "application/x-www-form-urlencoded"}, 405),
    "plain text": ("POST", "/graphql" + MUTATION, {"Content-Type": "text/plain"}, 405),
    "no type": ("POST", "/graphql" + MUTATION, {}, 405),
    "JSON with a query in the address": ("POST", "/graphql" + MUTATION, JSON, 405),
    "JSON with a query behind a name": ("POST", "/graphql?op=x&query=mutation", JSON, 405),
    "JSON only in a parameter": ("POST", "/graphql", {"Content-Type": "text/plain; application/json"}, 405),
    "another site": ("POST", "/graphql", {**JSON, "Origin": "http://elsewhere.example"}, 403),
    "a site whose name begins like ours": ("POST", "/graphql", {**JSON, "Origin": OWN + ".elsewhere.example"}, 403),
    "a page without an origin": ("POST", "/graphql", {**JSON, "Origin": "null"}, 403),
    "a report of an asset": ("POST", "/report_asset_materialization/catalog", {}, 403),
    "a name that is not ours": ("GET", "/", {"Host": "elsewhere.example"}, 421),
}


def _maps() -> dict[str, tuple[str, list[tuple[re.Pattern[str], str]], str]]:
    """Variable -> (what is looked up, patterns in order, default)."""
    found = {}
    for source, name, body in re.findall(r'^map "?([^"\n]+?)"? \$(\w+) \{\n(.*?)^\}', CONF, re.MULTILINE | re.DOTALL):
        rows = re.findall(r'^\s*(?:"~(\*?)(.*)"|(default))\s+(\w+);$', body, re.MULTILINE)
        patterns = [
            (re.compile(pattern, re.IGNORECASE if star else 0), value)
            for star, pattern, default, value in rows
            if not default
        ]
        found[name] = (source, patterns, next((value for *_, default, value in rows if default), ""))
    return found


def _looked_up(name: str, method: str, path: str, headers: dict[str, str], host: str) -> str:
    source, patterns, default = _maps()[name]
    values = {
        "http_origin": headers.get("Origin", "").format(host=host),
        "http_host": host,
        "request_method": method,
        "http_upgrade": headers.get("Upgrade", ""),
    }
    values |= {"content_type": headers.get("Content-Type", ""), "args": path.partition("?")[2]}
    text = re.sub(r"\$(\w+)", lambda match: values[match[1]], source)
    return next((value for pattern, value in patterns if pattern.search(text)), default)


@pytest.mark.parametrize("case", [name for name, request in ADMITTED.items() if "graphql" in request[1]])
def test_the_rules_admit(case):
    assert [_looked_up(name, *ADMITTED[case], "127.0.0.1:3000") for name in ("is_foreign", "is_graphql")] == ["0", "1"]


@pytest.mark.parametrize("case", [name for name, request in REFUSED.items() if request[3] == 405])
def test_the_rules_know_that_it_is_no_graphql_of_ours(case):
    assert _looked_up("is_graphql", *REFUSED[case][:3], "127.0.0.1:3000") == "0"


@pytest.mark.parametrize("case", [name for name, request in REFUSED.items() if "Origin" in request[2]])
def test_the_rules_know_a_foreign_origin(case):
    assert _looked_up("is_foreign", *REFUSED[case][:3], "127.0.0.1:3000") == "1"


def test_a_web_socket_of_our_page_is_admitted():
    headers = {"Upgrade": "websocket", "Origin": OWN}
    assert [
        _looked_up(name, "GET", "/graphql", headers, "127.0.0.1:3000") for name in ("is_foreign", "is_graphql")
    ] == ["0", "1"]


def test_a_web_socket_of_another_site_is_not():
    headers = {"Upgrade": "websocket", "Origin": "http://elsewhere.example"}
    assert _looked_up("is_foreign", "GET", "/graphql", headers, "127.0.0.1:3000") == "1"


class _Everything(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET

    def log_message(self, *args: object) -> None:
        """Say nothing."""


def _wait_for(port: int, child: subprocess.Popen[bytes], limit_s: float = 60.0) -> None:
    until = time.monotonic() + limit_s
    while time.monotonic() < until and child.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise RuntimeError(f"nginx did not listen on port {port} within {limit_s} s")


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    """host:port of a real nginx with our file, in front of a server that says yes to all."""
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Everything)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    rules = CONF.replace("webserver:3000", f"127.0.0.1:{upstream.server_port}").replace(
        "listen 8080", f"listen 127.0.0.1:{port}"
    )
    paths = "".join(
        f"{name}_temp_path {folder}/{name}; " for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"pid {folder}/pid; error_log {folder}/log; events {{}} http {{ access_log off; {paths}\n{rules}\n}}"
    )
    nginx = ["nginx", "-e", f"{folder}/log", "-c", f"{folder}/nginx.conf"]
    # no pipes and no daemon: one that inherits them would be waited for without end
    with subprocess.Popen([*nginx, "-g", "daemon off;"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            _wait_for(port, child)
            yield f"127.0.0.1:{port}"
        finally:
            child.terminate()
    upstream.shutdown()
    upstream.server_close()


def _status(host: str, method: str, path: str, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection(host, timeout=10)
    try:
        connection.request(method, path, headers={name: value.format(host=host) for name, value in headers.items()})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
@pytest.mark.parametrize("case", ADMITTED)
def test_nginx_lets_through(proxy, case):
    assert _status(proxy, *ADMITTED[case]) == 200


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
@pytest.mark.parametrize("case", REFUSED)
def test_nginx_refuses(proxy, case):
    *request, status = REFUSED[case]
    assert _status(proxy, *request) == status
