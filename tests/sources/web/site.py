"""A web site on 127.0.0.1 that does what a test sets, and counts who comes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from mmlake import sources
from mmlake.records import SourceRef
from mmlake.store import BlobStore
from tests.sources.source_builders import SETTINGS, land, sha

Page = Callable[["Visit"], None]


class Visit(BaseHTTPRequestHandler):
    """One request; a page answers it by `reply` or byte by byte."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits 40 ms for the acknowledgement of its head
    server: _Server

    def reply(
        self, body: bytes = b"", *, status: int = 200, headers: dict[str, str] | None = None, length: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body) if length is None else length), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        site = self.server.site
        with site.lock:
            (site.visits if self.command == "GET" else site.heads)[self.path] += 1
            site.agents.add(self.headers["User-Agent"])
            site.num_now += 1
            site.most_at_once = max(site.most_at_once, site.num_now)
        try:
            site.pages.get(self.path, lambda visit: visit.reply(status=404))(self)
        except OSError:
            self.close_connection = True  # the client left
        finally:
            with site.lock:
                site.num_now -= 1

    def log_message(self, *arguments: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    site: Site

    def handle_error(self, request: object, client_address: object) -> None:
        pass


class Site:
    """pages: path -> what answers it; everything else is 404. visits: how often each path was asked for. heads: how
    often its head alone was."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.visits: Counter[str] = Counter()
        self.heads: Counter[str] = Counter()
        self.agents: set[str] = set()
        self.lock, self.num_now, self.most_at_once = threading.Lock(), 0, 0
        self._server = _Server(("127.0.0.1", 0), Visit)
        self._server.site = self
        self.port = self._server.server_port

    def url(self, path: str, *, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def serve(self, path: str, body: bytes, **headers: str) -> str:
        """The address of a page that always answers this. Headers are named as keywords: `X_Robots_Tag`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = lambda visit: visit.reply(body, headers=named)
        return self.url(path)

    def does(self, path: str, page: Page) -> str:
        """The address of a page that answers as the function does."""
        self.pages[path] = page
        return self.url(path)

    @property
    def asked(self) -> dict[str, int]:
        """Visits without those of robots.txt."""
        return {path: count for path, count in sorted(self.visits.items()) if path != "/robots.txt"}


@contextmanager
def running() -> Iterator[Site]:
    site = Site()
    thread = threading.Thread(target=site._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site._server.shutdown()
        site._server.server_close()
        thread.join()


# Waits between tries are short; what limits one try is long, since on a busy machine a thread of this process may get
# no turn for seconds.
QUICK = {
    "allowed_networks": ("127.0.0.0/8",),
    "max_pause_s": 0.05,
    "idle_timeout_s": 30.0,
    "total_timeout_s": 60.0,
    "connect_timeout_s": 30.0,
}


def downloads_at(root: Path, **changes: object) -> sources.JournalledDownloads:
    """The downloads of a lake at the directory, patient for tests only."""
    lookup = changes.pop("lookup", None)
    return sources.JournalledDownloads(
        root / "downloads.sqlite",
        store=BlobStore(root / "store"),
        settings=sources.WebSettings(**{**QUICK, **changes}),
        lookup=lookup,
    )


def rows_of_lists(
    root: Path,
    *,
    settings: sources.SourceSettings = SETTINGS,
    downloads: sources.JournalledDownloads | None = None,
    **changes: object,
) -> list[dict]:
    """All rows of the lists in the landing zone root/in, in order, each in exactly one modality's table, their bytes
    in the store."""
    own = downloads or downloads_at(root, **changes)
    store, rows = BlobStore(root / "store"), []
    for shard in sources.scan(root / "in", settings=settings):
        found = [
            row
            for modality in shard.modalities
            for row in sources.ingest(
                shard, modality, landing=root / "in", store=store, settings=settings, downloads=own
            ).to_pylist()
        ]
        assert sorted(row["item_id"] for row in found) == [f"{shard.key}#{at:06d}" for at in range(len(found))]
        for row in found:
            assert (row["status"] == "ok") == (row["error_code"] is None)
            assert row["digest"] is None or sha(store.read(row["digest"])) == row["digest"]
            assert SourceRef.from_json(row["source_ref"]).path == shard.path
        rows.extend(sorted(found, key=lambda row: row["item_id"]))
    if downloads is None:
        own.close()
    return rows


def listed(root: Path, *urls: str, name: str = "a.urls") -> Path:
    """The directory whose landing zone `in` has a list of these addresses."""
    land(root / "in", {name: "".join(f"{url}\n" for url in urls).encode()})
    return root
