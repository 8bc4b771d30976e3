"""A site with a page that tries each way by which a page can make a browser send something to the UI."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("hostile_page.html").read_text()


@contextmanager
def hostile_site(url: str, asked: dict[str, Any]) -> Iterator[str]:
    """Address of a site that serves the page under every name. url: of the UI. asked: what the page asks of it."""
    page = PAGE.replace("ADDRESS", json.dumps(url)).replace("ASKED", json.dumps(asked))

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
