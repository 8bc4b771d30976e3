"""A small web server on 127.0.0.1 that serves a tree of files as Apache, nginx or Python's http.server do, and fails
in the ways that it is asked to."""

from __future__ import annotations

import base64
import gzip
import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from urllib.parse import quote, unquote

from hub_server import Seen, _Handler

USER, PASSWORD = "reader", "pass-recognizable-0123"


@dataclass
class Site:
    """What the server holds and does, and what it saw."""

    url: str = ""  # with a slash at its end
    files: dict[str, bytes] = field(default_factory=dict)
    style: str = "python"  # of its directory pages: "python", "apache", "nginx"
    pages: dict[str, str] = field(default_factory=dict)  # directory -> a page of its own
    states_versions: bool = True  # ETag and Last-Modified
    has_head: bool = True
    has_ranges: bool = True
    is_chunked: bool = False  # files without Content-Length
    is_gzipped: bool = False  # files are compressed although identity was asked for
    login: tuple[str, str] | None = None
    refused: set[str] = field(default_factory=set)  # paths that answer 403
    redirects: dict[str, str] = field(default_factory=dict)
    own_headers: dict[str, str] = field(default_factory=dict)  # of files
    page_faults: list[tuple[str, object]] = field(default_factory=list)  # as faults, of pages
    # taken one per GET of a file: ("status", (code, headers)), ("cut", bytes)
    faults: list[tuple[str, object]] = field(default_factory=list)
    before_file: Callable[[], None] = lambda: None  # called before each body
    seen: list[Seen] = field(default_factory=list)

    def served(self, path: str) -> int:
        """Bytes of the file that left the server."""
        return sum(one.num_bytes for one in self.seen if one.path == f"/{path}")

    def asked(self, path: str, method: str = "GET") -> list[Seen]:
        return [one for one in self.seen if one.path == f"/{path}" and one.method == method]


class _SiteHandler(_Handler):
    hub: Site
    host = "site"

    def _serve(self, *, with_body: bool) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # a reader that has seen enough hangs up
            self._answer(with_body=with_body)

    def _answer(self, *, with_body: bool) -> None:
        path = unquote(self.path.partition("?")[0], errors="surrogateescape")
        self.one = Seen(
            self.host,
            self.command,
            path,
            self.path.partition("?")[2],
            {name.lower(): value for name, value in self.headers.items()},
        )
        self.hub.seen.append(self.one)
        self.with_body = with_body
        site = self.hub
        if (
            site.login is not None
            and self.one.headers.get("authorization")
            != "Basic " + base64.b64encode(":".join(site.login).encode()).decode()
        ):
            return self._send(401, b"login please", {"WWW-Authenticate": 'Basic realm="x"'})
        if path in site.redirects:
            return self._send(302, b"", {"Location": site.redirects[path]})
        name = path.removeprefix("/")
        if name in site.refused:
            return self._send(403, b"no")
        if name in site.files:
            return self._file(name, with_body=with_body)
        prefix = name if name.endswith("/") or not name else f"{name}/"
        if prefix not in site.pages and not any(one.startswith(prefix) for one in site.files):
            return self._send(404, b"nothing here")
        if prefix != name:
            return self._send(301, b"", {"Location": f"/{quote(prefix)}"})
        kind, value = site.page_faults.pop(0) if site.page_faults else ("", None)
        if kind == "status":
            return self._send(value[0], b"try later", value[1])
        return self._send(200, self._page(prefix).encode(), {"Content-Type": "text/html; charset=utf-8"}, cut=value)

    def _file(self, name: str, *, with_body: bool) -> None:
        site = self.hub
        if not with_body and not site.has_head:
            return self._send(405)
        cut = None
        if with_body and site.faults:
            kind, value = site.faults.pop(0)
            if kind == "status":
                return self._send(value[0], b"try later", value[1])
            cut = value
        if with_body:
            site.before_file()
        data, headers = site.files[name], {"Content-Type": "application/octet-stream"} | site.own_headers
        if site.states_versions:
            headers |= {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "Last-Modified": "Fri, 20 Nov 2026 10:00:00 GMT"}
        if site.is_gzipped:
            data = gzip.compress(data, mtime=0)
            headers["Content-Encoding"] = "gzip"
        if site.is_chunked:
            return self._chunked(data, headers, cut)
        return self._send_range(data, headers, cut) if site.has_ranges else self._send(200, data, headers, cut=cut)

    def _chunked(self, data: bytes, headers: dict[str, str], cut: int | None) -> None:
        self.one.status = 200
        self.send_response(200)
        for name, value in (headers | {"Transfer-Encoding": "chunked"}).items():
            self.send_header(name, value)
        self.end_headers()
        if not self.with_body:
            return
        sent = data if cut is None else data[:cut]
        self.one.num_bytes = len(sent)
        for start in range(0, len(sent), 50_000):
            piece = sent[start : start + 50_000]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if cut is None:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)

    def _page(self, directory: str) -> str:
        if directory in self.hub.pages:
            return self.hub.pages[directory]
        below = {
            one.removeprefix(directory).partition("/")[0] + ("/" if "/" in one.removeprefix(directory) else "")
            for one in self.hub.files
            if one.startswith(directory)
        }
        links = [
            f'<a href="{quote(name, errors="surrogateescape")}">{name[:20].encode(errors="replace").decode()}</a>'
            for name in sorted(below)
        ]
        if self.hub.style == "apache":
            order = "".join(f'<th><a href="?C={column};O=D">{column}</a></th>' for column in "NMSD")
            rows = "".join(f"<tr><td>{link}</td><td>2026-11-20 10:00</td><td>1.2K</td></tr>" for link in links)
            parent = quote("/" + directory.rstrip("/").rpartition("/")[0])
            return (
                "<!DOCTYPE HTML><html><head><title>Index of "
                f'/{directory}</title></head><body><table><tr>{order}</tr><tr><td><a href="{parent}/">Parent '
                f"Directory</a></td></tr>{rows}</table></body></html>"
            )
        if self.hub.style == "nginx":
            lines = "\r\n".join(f"{link}      20-Nov-2026 10:00     1234" for link in ['<a href="../">../</a>', *links])
            head = f"<html>\r\n<head><title>Index of /{directory}</title></head>\r\n"
            return f"{head}<body>\r\n<h1>Index</h1><hr><pre>{lines}</pre><hr></body>\r\n</html>\r\n"
        return f"<!DOCTYPE HTML><html><body><ul>{''.join(f'<li>{link}</li>' for link in links)}</ul></body></html>"


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: readers that hang up are part of the tests."""


@contextmanager
def serving_site(address: str = "127.0.0.1") -> Iterator[Site]:
    """An empty site."""
    site = Site()
    server = QuietServer((address, 0), type("_Bound", (_SiteHandler,), {"hub": site}))
    site.url = f"http://{address}:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
