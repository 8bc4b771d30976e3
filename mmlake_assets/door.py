"""The guard of the web server: an ASGI layer that lets through what the UI's own pages send, and no more.

Dagster's web server has no login, executes GraphQL that comes as GET, as a form or in the address, and answers to any
name. So any page that is open in a browser on this machine could start runs by it. Enters: a request. Leaves: the same
request, or an answer that says in a line what is refused. It knows neither Dagster nor a lake.
"""

import hmac
import re
import unicodedata
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import KW_ONLY, dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")  # names of this machine that no other site can take for its own
HEALTH = "/server_info"  # answers with release numbers; asked by health checks, which have no token
MIN_TOKEN = 16
_TOKEN = "token"  # of a query
_OPERATION = re.compile(rb"(op=\w*)?")  # by which the pages name what they ask for; nobody reads it
_POLICY_VIOLATION = 1008  # closes a web socket, RFC 6455
# of every answer: no other site may frame it, by which a click is stolen, nor take it as a script or picture
_HEADERS = (
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
)


@dataclass(frozen=True)
class _Refusal:
    """The answer to a request that is not let through."""

    status: int
    reason: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True)
class Door:
    """An ASGI application in front of another."""

    app: App
    _: KW_ONLY
    names: tuple[str, ...] = LOOPBACK  # host names that it answers to, without ports: a tunnel has another port
    prefix: str = ""  # of the paths of the application, as `/dagster`
    token: str = field(default="", repr=False)  # that every request must bring; empty: none

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, one web socket, or the start and end of the server."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self.app(scope, receive, _with_headers(send))
        elif scope["type"] == "http":
            await _answer(send, refusal)
        else:
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": refusal.reason[:120]})

    def _refusal(self, scope: Scope) -> _Refusal | None:
        """Why the request is not let through; None where it is."""
        hosts, origins = _all(scope, b"host"), _all(scope, b"origin")
        if len(hosts) != 1 or _name(hosts[0]) not in self.names:
            # a site that lets its own name point at this machine sends that name
            return _Refusal(421, "this server has another name")
        if len(origins) > 1 or any(not _is_own(origin, hosts[0]) for origin in origins):
            return _Refusal(403, "a page of another origin sent this")
        if _is_foreign_part(scope):
            return _Refusal(403, "a page of another site sent this")
        if any(unicodedata.category(sign) in ("Cc", "Zl", "Zp") for sign in scope["path"]):
            # to a router, `/graphql` and a line's end after it are the same path
            return _Refusal(400, "no page has control characters in its address")
        found = self._refused_method(scope, has_origin=bool(origins))
        return found or self._refused_token(scope)

    def _refused_method(self, scope: Scope, *, has_origin: bool) -> _Refusal | None:
        path, method = scope["path"], scope.get("method", "GET")
        is_graphql = path == f"{self.prefix}/graphql"
        if scope["type"] == "websocket":
            return None if is_graphql and has_origin else _Refusal(403, "web sockets are of the pages of this server")
        if any(part.startswith("report_asset_") for part in path.split("/")):
            return _Refusal(403, "assets are not reported by this server")
        if path.rstrip("/").rpartition("/")[2].lower() == "notebook":
            # it shows any notebook of this machine as a page of ours, whose scripts may launch
            return _Refusal(403, "notebooks are not shown by this server")
        if is_graphql and method == "POST":
            if _only(scope, b"content-type").partition(";")[0].strip().lower() != "application/json":
                return _Refusal(415, "GraphQL is JSON here: Content-Type: application/json")
            if not _OPERATION.fullmatch(scope["query_string"]):
                return _Refusal(400, "GraphQL is read from the body alone, not from the address")
            # JSON of another origin is asked for first (OPTIONS) and refused there; a program names the origin itself
            own = _only(scope, b"host")  # one of our names by now
            return None if has_origin else _Refusal(403, f"name the origin, as Origin: http://{own}")
        if method not in ("GET", "HEAD") or path.rstrip("/").rpartition("/")[2].lower() == "graphql":
            return _Refusal(405, "GraphQL comes by POST, everything else by GET", ((b"allow", b"GET, HEAD, POST"),))
        return None

    def _refused_token(self, scope: Scope) -> _Refusal | None:
        """Refuses who does not bring the token: as a cookie, as `Authorization: Bearer`, or once in the address, for
        which a cookie is given."""
        if not self.token or scope["path"] == f"{self.prefix}{HEALTH}":
            return None
        cookie = f"mmlake_{sha256(self.token.encode()).hexdigest()[:8]}"  # of another lake on another port: another
        given = [_only(scope, b"authorization").removeprefix("Bearer ")]
        for line in _all(scope, b"cookie"):
            given += [
                value for part in line.split(";") for name, _, value in [part.strip().partition("=")] if name == cookie
            ]
        if any(self._is_token(one) for one in given):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if scope["type"] == "http" and any(name == _TOKEN and self._is_token(value) for name, value in query):
            rest = urlencode([(name, value) for name, value in query if name != _TOKEN])
            # one slash: with two, the browser would take what follows for a host
            address = "/" + quote(scope["path"].lstrip("/")) + (f"?{rest}" if rest else "")
            kept = f"{cookie}={self.token}; Path={self.prefix or '/'}; HttpOnly; SameSite=Lax"
            return _Refusal(303, "", ((b"location", address.encode()), (b"set-cookie", kept.encode())))
        return _Refusal(401, "open the address that ends in ?token=..., or send Authorization: Bearer ...")

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("latin-1", "replace"), self.token.encode())


def is_token(text: str) -> bool:
    """Whether it is long enough to be none that is guessed, of signs that need no quoting in a cookie."""
    return len(text) >= MIN_TOKEN and text.isascii() and all(sign.isalnum() or sign in "-_.~" for sign in text)


def _all(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == header]


def _only(scope: Scope, header: bytes) -> str:
    """The value of the header; empty where there is none, or several."""
    found = _all(scope, header)
    return found[0] if len(found) == 1 else ""


def _name(host: str) -> str:
    """The name in a Host header, without its port; empty where it is no name."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises where it is no number
    except ValueError:
        return ""
    name = parts.hostname or ""
    name = f"[{name}]" if ":" in name else name
    return name if host.lower() in (name, f"{name}:{parts.port}") else ""  # no login, path or blank next to it


def _is_own(origin: str, host: str) -> bool:
    """Whether it is a page of the very host that was asked; a proxy may have taken its TLS off."""
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


def _is_foreign_part(scope: Scope) -> bool:
    """Whether a browser says that another site's page asks for more than to show a page of ours in its place: as a
    picture, script or frame."""
    site, mode, target = (_only(scope, name) for name in (b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest"))
    return site in ("cross-site", "same-site") and (mode, target) != ("navigate", "document")


def _with_headers(send: Send) -> Send:
    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            names = {name for name, _ in _HEADERS}
            kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in names]
            message = {**message, "headers": [*kept, *_HEADERS]}
        await send(message)

    return sent


async def _answer(send: Send, refusal: _Refusal) -> None:
    body = f"{refusal.reason}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    headers += [(b"cache-control", b"no-store"), *_HEADERS, *refusal.headers]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
