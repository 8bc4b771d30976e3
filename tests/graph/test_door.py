"""The guard of the web server: what pages of other sites, other names and other methods send never reaches the
application; what the UI's own pages send does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mmlake_assets.door import LOOPBACK, Door, is_token

HOST = "127.0.0.1:3000"
OWN = f"http://{HOST}"
JSON = {"content-type": "application/json"}
MUTATION = "query=mutation%20%7BlaunchRun%7D"
TOKEN = "0123456789abcdef"


def knock(
    method: str, path: str, headers: dict[str, str] | None = None, *, query: str = "", kind: str = "http", **door: Any
) -> tuple[int, dict[str, str]]:
    """(status, headers) of the answer: 200 where the application answered, for a web socket 101, or 403 where it was
    closed before it was opened."""
    sent: list[dict[str, Any]] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-frame-options", b"ALLOWALL")]})
        await send({"type": "http.response.body", "body": b"reached"})

    async def receive() -> Any:
        raise AssertionError("the door reads no body")

    async def send(message: Any) -> None:
        sent.append(message)

    given = {"host": HOST} | (headers or {})
    pairs = [
        (name.encode(), value.encode()) for name, values in given.items() for value in values.split("\n") if values
    ]
    scope = {"type": kind, "path": path, "query_string": query.encode(), "headers": pairs}
    if kind == "http":
        scope["method"] = method
    asyncio.run(Door(application, **door)(scope, receive, send))
    if kind == "websocket":
        return {"websocket.accept": 101, "websocket.close": 403}[sent[0]["type"]], {}
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


ELSEWHERE = "http://elsewhere.example"


def typed(content_type: str) -> dict[str, str]:
    """Headers of a body of our own page."""
    return {"content-type": content_type, "origin": OWN}


def fetched(site: str, mode: str, target: str) -> dict[str, str]:
    """What a browser adds of its own."""
    return {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": target}


ADMITTED = {
    "a page": ("GET", "/overview", {}, ""),
    "a page opened from another site": ("GET", "/runs", fetched("cross-site", "navigate", "document"), ""),
    "a page with a query": ("GET", "/runs", {}, "q=graphql"),
    "a script of a page": ("GET", "/_next/a.js", fetched("same-origin", "no-cors", "script"), ""),
    "a head": ("HEAD", "/", {}, ""),
    "graphql": ("POST", "/graphql", {**JSON, "origin": OWN}, ""),
    "graphql with a charset": ("POST", "/graphql", typed("Application/JSON; charset=utf-8"), ""),
    "graphql with the name that the pages give it": ("POST", "/graphql", {**JSON, "origin": OWN}, "op=RunsQuery"),
    "graphql through a proxy with TLS": ("POST", "/graphql", {**JSON, "origin": f"https://{HOST}"}, ""),
    "an asset that is called graphql": ("GET", "/assets/graphql/partitions", {}, ""),
}  # fmt: skip
REFUSED = {
    "a GET mutation": ("GET", "/graphql", {}, MUTATION, 405),
    "a GET of a query": ("GET", "/graphql", {"origin": OWN}, "query={version}", 405),
    "the GraphiQL page": ("GET", "/graphql", {"accept": "text/html"}, "", 405),
    "a GET below the path": ("GET", "/graphql/", {}, MUTATION, 405),
    "a GET below another prefix": ("GET", "/dagster/GraphQL", {}, MUTATION, 405),
    "a POST elsewhere": ("POST", "/dagster/graphql", {**JSON, "origin": OWN}, "", 405),
    "a form": ("POST", "/graphql", typed("application/x-www-form-urlencoded"), MUTATION, 415),
    "a form of parts": ("POST", "/graphql", typed("multipart/form-data; boundary=x"), "", 415),
    "plain text": ("POST", "/graphql", typed("text/plain"), MUTATION, 415),
    "plain text that names JSON": ("POST", "/graphql", typed("text/plain; application/json"), "", 415),
    "GraphQL as text": ("POST", "/graphql", typed("application/graphql"), "", 415),
    "no type": ("POST", "/graphql", {"origin": OWN}, MUTATION, 415),
    "two types": ("POST", "/graphql", typed("application/json\ntext/plain"), "", 415),
    "JSON with a query in the address": ("POST", "/graphql", {**JSON, "origin": OWN}, MUTATION, 400),
    "JSON with a query behind a name": ("POST", "/graphql", {**JSON, "origin": OWN}, "op=x&" + MUTATION, 400),
    "JSON without an origin": ("POST", "/graphql", JSON, "", 403),
    "JSON of a sandboxed page": ("POST", "/graphql", {**JSON, "origin": "null"}, "", 403),
    "JSON of another site": ("POST", "/graphql", {**JSON, "origin": ELSEWHERE}, "", 403),
    "JSON of a site whose name begins like ours": ("POST", "/graphql", {**JSON, "origin": OWN + ".example"}, "", 403),
    "JSON of a site whose name ends like ours": ("POST", "/graphql", {**JSON, "origin": "http://a." + HOST}, "", 403),
    "JSON of another port of this machine": ("POST", "/graphql", {**JSON, "origin": "http://127.0.0.1:8888"}, "", 403),
    "JSON of another name of this machine": ("POST", "/graphql", {**JSON, "origin": "http://localhost:3000"}, "", 403),
    "JSON of a file": ("POST", "/graphql", {**JSON, "origin": "file://"}, "", 403),
    "JSON of two origins": ("POST", "/graphql", {**JSON, "origin": f"{OWN}\nhttp://elsewhere.example"}, "", 403),
    "a preflight of another site": ("OPTIONS", "/graphql", {"origin": ELSEWHERE}, "", 403),
    "a preflight of our own pages": ("OPTIONS", "/graphql", {"origin": OWN}, "", 405),
    "a GET of another site": ("GET", "/", {"origin": ELSEWHERE}, "", 403),
    "a picture of another site": ("GET", "/", fetched("cross-site", "no-cors", "image"), "", 403),
    "a frame of another site": ("GET", "/", fetched("cross-site", "navigate", "iframe"), "", 403),
    "a script of another port": ("GET", "/", fetched("same-site", "no-cors", "script"), "", 403),
    "a report of an asset": ("POST", "/report_asset_materialization/catalog", {**JSON, "origin": OWN}, "", 403),
    "a report of an asset graphql": ("POST", "/report_asset_check/graphql", {**JSON, "origin": OWN}, "", 403),
    "a GET mutation before a line's end": ("GET", "/graphql\n", {}, MUTATION, 400),
    "a POST before a line's end": ("POST", "/graphql\n", {**JSON, "origin": OWN}, "", 400),
    "a path with a zero": ("GET", "/graphql\0", {}, MUTATION, 400),
    "a notebook of this machine": ("GET", "/notebook", {}, "repoLocName=a&path=/tmp/a.ipynb", 403),
    "a notebook by its old path": ("GET", "/dagit/notebook", {}, "repoLocName=a&path=/tmp/a.ipynb", 403),
    "a deletion": ("DELETE", "/", {"origin": OWN}, "", 405),
}  # fmt: skip


@pytest.mark.parametrize("case", ADMITTED)
def test_what_the_pages_and_people_send_is_let_through(case: str) -> None:
    *request, query = ADMITTED[case]
    assert knock(*request, query=query)[0] == 200


@pytest.mark.parametrize("case", REFUSED)
def test_what_others_send_is_refused(case: str) -> None:
    *request, query, status = REFUSED[case]
    assert knock(*request, query=query)[0] == status


@pytest.mark.parametrize("host", ["127.0.0.1:3000", "localhost:3000", "LocalHost", "[::1]:3000", "127.0.0.1:8080"])
def test_the_names_of_this_machine_are_answered_on_any_port_since_a_tunnel_has_its_own(host: str) -> None:
    assert knock("GET", "/", {"host": host})[0] == 200
    assert knock("POST", "/graphql", {**JSON, "host": host, "origin": f"http://{host}"})[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "elsewhere.example", "elsewhere.example:3000", "127.0.0.1.nip.io:3000", "localhost.elsewhere.example",
        "localhost.", "0.0.0.0:3000", "127.0.0.2", "127.1", "2130706433", "[::ffff:127.0.0.1]:3000", "::1",
        "127.0.0.1:x", "me@127.0.0.1", "127.0.0.1:3000@elsewhere.example", "127.0.0.1 elsewhere.example", "127.0.0.1:",
        "", "127.0.0.1:3000\nelsewhere.example",
    ],
)  # fmt: skip
def test_a_name_that_a_site_made_point_at_this_machine_is_refused(host: str) -> None:
    """DNS rebinding: the page's own origin is then that of the host, so the origin alone proves nothing."""
    origin = {"origin": f"http://{host}"} if host and "\n" not in host else {}
    assert knock("GET", "/", {"host": host})[0] == 421
    assert knock("POST", "/graphql", {**JSON, **origin, "host": host})[0] == 421
    assert knock("GET", "/graphql", {**origin, "host": host}, kind="websocket")[0] == 403


@pytest.mark.parametrize(
    ("path", "origin", "status"),
    [
        ("/graphql", OWN, 101),
        ("/graphql", "http://elsewhere.example", 403),
        ("/graphql", "null", 403),
        ("/graphql", "http://127.0.0.1:8888", 403),
        ("/graphql", "", 403),
        ("/other", OWN, 403),
    ],
)
def test_a_web_socket_is_of_our_own_pages(path: str, origin: str, status: int) -> None:
    """Browsers let any page open one to any host: nobody else asks for the origin."""
    assert knock("GET", path, {"origin": origin}, kind="websocket")[0] == status


def test_paths_count_below_their_prefix() -> None:
    headers = {**JSON, "origin": OWN}
    assert knock("POST", "/dagster/graphql", headers, prefix="/dagster")[0] == 200
    assert knock("POST", "/graphql", headers, prefix="/dagster")[0] == 405
    assert knock("GET", "/dagster/graphql", {}, query=MUTATION, prefix="/dagster")[0] == 405
    assert knock("GET", "/dagster/graphql", {"origin": OWN}, kind="websocket", prefix="/dagster")[0] == 101


def test_more_names_are_answered_where_they_are_given() -> None:
    names = (*LOOPBACK, "lake.example")
    assert knock("GET", "/", {"host": "lake.example"}, names=names)[0] == 200
    assert knock("GET", "/", {"host": "other.example"}, names=names)[0] == 421


@pytest.mark.parametrize("request_", [("GET", "/", {}), ("GET", "/", {"host": "elsewhere.example"})])
def test_no_answer_can_be_framed_or_taken_by_another_site(request_: tuple[str, str, dict[str, str]]) -> None:
    """Neither what the application says, whose own word is replaced, nor a refusal."""
    _, headers = knock(*request_)
    assert headers["x-frame-options"] == "SAMEORIGIN"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_with_a_token_nothing_but_the_release_numbers_is_answered_without_it() -> None:
    assert knock("GET", "/", token=TOKEN)[0] == 401
    assert knock("POST", "/graphql", {**JSON, "origin": OWN}, token=TOKEN)[0] == 401
    assert knock("GET", "/graphql", {"origin": OWN}, kind="websocket", token=TOKEN)[0] == 403
    assert knock("GET", "/server_info", token=TOKEN)[0] == 200


@pytest.mark.parametrize("word", [TOKEN[:-1], TOKEN + "0", "", "é" * 16])
def test_another_token_is_refused(word: str) -> None:
    assert knock("GET", "/", {"authorization": f"Bearer {word}"}, token=TOKEN)[0] == 401
    assert knock("GET", "/", query=f"token={word}", token=TOKEN)[0] == 401


def test_the_token_comes_once_in_the_address_and_then_as_a_cookie() -> None:
    status, headers = knock("GET", "/runs", query=f"a=b&token={TOKEN}", token=TOKEN)
    assert (status, headers["location"]) == (303, "/runs?a=b")
    cookie, *attributes = headers["set-cookie"].split("; ")
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Lax"]
    for request in [("GET", "/", {}), ("POST", "/graphql", {**JSON, "origin": OWN})]:
        method, path, given = request
        assert knock(method, path, given | {"cookie": f"other=1; {cookie}"}, token=TOKEN)[0] == 200
    assert knock("GET", "/graphql", {"origin": OWN, "cookie": cookie}, kind="websocket", token=TOKEN)[0] == 101
    assert knock("GET", "/", {"authorization": f"Bearer {TOKEN}"}, token=TOKEN)[0] == 200


def test_a_token_in_an_address_leads_nowhere_else() -> None:
    _, headers = knock("GET", "//elsewhere.example/a", query=f"token={TOKEN}", token=TOKEN)
    assert headers["location"] == "/elsewhere.example/a"


def test_a_token_admits_no_other_origin() -> None:
    headers = {**JSON, "origin": ELSEWHERE, "authorization": f"Bearer {TOKEN}"}
    assert knock("POST", "/graphql", headers, token=TOKEN)[0] == 403


@pytest.mark.parametrize(
    ("text", "expected"), [(TOKEN, True), (TOKEN[:-1], False), (TOKEN + ";", False), ("é" * 16, False)]
)
def test_a_token_is_long_and_needs_no_quoting(text: str, expected: bool) -> None:
    assert is_token(text) == expected


def test_the_start_of_the_server_passes() -> None:
    seen = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    asyncio.run(Door(application)({"type": "lifespan"}, None, None))
    assert seen == ["lifespan"]
