"""A small hub on 127.0.0.1: the API and resolve addresses that a data set is read through, and a content network at
another port.

It serves what `commit` put into it, pages its trees, signs the content network's addresses, and fails in the ways that
it is asked to.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit

NAME = "acme/corpus"
TOKEN = "hf_" + "secretsecretsecret"


@dataclass
class Seen:
    """One request as the server saw it."""

    host: str  # "hub" or "cdn"
    method: str
    path: str  # without the query
    query: str
    headers: dict[str, str]
    status: int = 0
    num_bytes: int = 0  # of the body that was sent


@dataclass
class Hub:
    """What the server holds and does, and what it saw."""

    url: str = ""
    cdn_url: str = ""
    name: str = NAME
    others: list[Hub] = field(default_factory=list)  # data sets of other names on the same server
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)  # commit -> path -> bytes
    refs: dict[str, str] = field(default_factory=dict)
    lfs_from_bytes: int = 64  # files from this size on are in large file storage and so at the content network
    page_size: int = 1000
    gated: bool = False
    stated: dict[str, str] = field(default_factory=dict)  # path -> a SHA-256 that the tree states although it is wrong
    faults: list[tuple[str, object]] = field(default_factory=list)  # taken one per request that matches: (kind, value)
    faults_at: str = "cdn"  # "hub", "cdn" or "tree"
    is_down: bool = False  # every request is answered with 503
    signature: int = 0  # the one that the content network takes; counting it up expires what was signed before
    seen: list[Seen] = field(default_factory=list)

    def sibling(self, name: str) -> Hub:
        """Another data set on the same server."""
        other = Hub(url=self.url, cdn_url=self.cdn_url, name=name, commits=self.commits)
        self.others.append(other)
        return other

    def commit(self, files: dict[str, bytes], *, ref: str = "main") -> str:
        """The hash of a new commit that holds these files; the branch moves to it."""
        sha = hashlib.sha1(
            repr(sorted((path, hashlib.sha1(data).hexdigest()) for path, data in files.items())).encode()
        ).hexdigest()
        self.commits[sha] = files
        self.refs[ref] = sha
        return sha

    def served(self, path: str) -> int:
        """Bytes of the file that left the server, wherever from."""
        return sum(one.num_bytes for one in self.seen if one.path.endswith(path))

    def asked(self, part: str) -> list[Seen]:
        return [one for one in self.seen if part in one.path]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits 40 ms for the acknowledgement of its head
    hub: Hub
    host = "hub"

    def log_message(self, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._serve(with_body=False)

    def do_GET(self) -> None:
        self._serve(with_body=True)

    def _serve(self, *, with_body: bool) -> None:
        parts = urlsplit(self.path)
        self.one = Seen(
            self.host,
            self.command,
            unquote(parts.path),
            parts.query,
            {name.lower(): value for name, value in self.headers.items()},
        )
        self.hub.seen.append(self.one)
        self.with_body = with_body
        if self.hub.is_down:
            return self._send(503, b"try later")
        where = "tree" if "/tree/" in parts.path else self.host
        if self.hub.faults and self.hub.faults_at == where:
            kind, value = self.hub.faults.pop(0)
            if kind == "status":
                status, headers = value
                return self._send(status, b"try later", headers)
            if kind == "cut":
                return self._route(parts, cut=value)
        return self._route(parts)

    def _route(self, parts, cut: int | None = None) -> None:
        raise NotImplementedError

    def _send(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None, *, cut: int | None = None
    ) -> None:
        self.one.status = status
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.with_body:
            sent = body if cut is None else body[:cut]
            self.one.num_bytes = len(sent)
            self.wfile.write(sent)
        if cut is not None:
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)

    def _send_range(self, data: bytes, headers: dict[str, str], cut: int | None) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.one.headers.get("range", ""))
        if wanted is None:
            return self._send(200, data, headers, cut=cut)
        start, end = int(wanted[1]), min(int(wanted[2]) + 1, len(data))
        if start >= len(data):
            return self._send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
        return self._send(
            206,
            data[start:end],
            headers | {"Content-Range": f"bytes {start}-{end - 1}/{len(data)}", "Accept-Ranges": "bytes"},
            cut=cut,
        )


class _HubHandler(_Handler):
    def _route(self, parts, cut: int | None = None) -> None:
        path = unquote(parts.path)
        hub = self.data_set = next(
            (one for one in self.hub.others if path.removeprefix("/api").startswith(f"/datasets/{one.name}/")), self.hub
        )
        if hub.gated and self.one.headers.get("authorization") != f"Bearer {TOKEN}":
            return self._send(
                401, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access to dataset is restricted"}
            )
        if not path.removeprefix("/api").startswith(f"/datasets/{hub.name}/"):
            return self._send(401, b"", {"X-Error-Code": "RepoNotFound"})
        if found := re.fullmatch(rf"/api/datasets/{hub.name}/revision/(.+)", path):
            sha = self._sha(found[1])
            return (
                self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
                if sha is None
                else self._json({"id": hub.name, "sha": sha, "siblings": [], "tags": []})
            )
        if found := re.fullmatch(rf"/api/datasets/{hub.name}/tree/([0-9a-f]{{40}})(?:/(.+))?", path):
            return self._tree(found[1], found[2] or "", parse_qs(parts.query))
        if found := re.fullmatch(rf"/datasets/{hub.name}/resolve/([^/]+)/(.+)", path):
            return self._resolve(found[1], found[2], cut)
        return self._send(404, b"", {"X-Error-Code": "EntryNotFound"})

    def _sha(self, revision: str) -> str | None:
        return revision if revision in self.hub.commits else self.data_set.refs.get(revision)

    def _json(self, document: object, headers: dict[str, str] | None = None) -> None:
        self._send(200, json.dumps(document).encode(), {"Content-Type": "application/json"} | (headers or {}))

    def _tree(self, sha: str, directory: str, query: dict[str, list[str]]) -> None:
        files = self.hub.commits.get(sha)
        if files is None:
            return self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
        listed = [
            self._entry(path, data) for path, data in files.items() if not directory or path.startswith(f"{directory}/")
        ]
        if not listed:
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        folders = sorted({path.rpartition("/")[0] for path in files if "/" in path})
        entries = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": folder} for folder in folders] + listed
        start = int(query.get("cursor", ["0"])[0])
        page = entries[start : start + self.hub.page_size]
        more = {}
        if start + self.hub.page_size < len(entries):
            below = f"/{quote(directory, safe='')}" if directory else ""
            more = {
                "Link": (
                    f"<{self.hub.url}/api/datasets/{self.data_set.name}/tree/{sha}{below}?recursive=true&"
                    f'expand=false&cursor={start + self.hub.page_size}>; rel="next"'
                )
            }
        return self._json(page, more)

    def _entry(self, path: str, data: bytes) -> dict[str, object]:
        if len(data) < self.hub.lfs_from_bytes:
            return {
                "type": "file",
                "oid": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest(),
                "size": len(data),
                "path": path,
            }
        sha256 = self.hub.stated.get(path, hashlib.sha256(data).hexdigest())
        return {
            "type": "file",
            "oid": hashlib.sha1(sha256.encode()).hexdigest(),
            "size": len(data),
            "path": path,
            "lfs": {"oid": sha256, "size": len(data), "pointerSize": 134},
        }

    def _resolve(self, revision: str, path: str, cut: int | None) -> None:
        sha = self._sha(revision)
        data = self.hub.commits.get(sha or "", {}).get(path)
        if data is None:
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        headers = {"X-Repo-Commit": str(sha), "ETag": f'"{hashlib.sha1(data).hexdigest()}"'}
        if len(data) < self.hub.lfs_from_bytes:
            return self._send_range(data, headers, cut)
        linked = {"X-Linked-Etag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Linked-Size": str(len(data))}
        signed = f"{self.hub.cdn_url}/{sha}/{quote(path)}?Signature=sig{self.hub.signature}&Expires=1"
        return self._send(302, b"", headers | linked | {"Location": signed})


class _CdnHandler(_Handler):
    host = "cdn"

    def _route(self, parts, cut: int | None = None) -> None:
        _, sha, path = unquote(parts.path).split("/", 2)
        if parse_qs(parts.query).get("Signature") != [f"sig{self.hub.signature}"]:
            return self._send(403, b"<Error>expired</Error>")
        return self._send_range(self.hub.commits[sha][path], {}, cut)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: connections that the test cut are no news."""


@contextmanager
def serving() -> Iterator[Hub]:
    """A hub and its content network, each at a port of its own, until the block ends."""
    hub = Hub()
    servers = [_Server(("127.0.0.1", 0), type("Handler", (kind,), {"hub": hub})) for kind in (_HubHandler, _CdnHandler)]
    hub.url, hub.cdn_url = (f"http://127.0.0.1:{server.server_address[1]}" for server in servers)
    threads = [
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True) for server in servers
    ]
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()
