"""A chat endpoint that says what a test wants: the right thing, late, too much, nothing, or nonsense."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


@dataclass
class ChatServer:
    """What was asked of the server, and what it answers: `answers` one after the other, the last one again and
    again."""

    base_url: str
    answers: list[Answer]
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, request: dict[str, Any], headers: dict[str, str]) -> Answer:
        """The answer to this request."""
        with self.lock:
            self.requests.append(request)
            self.headers.append(headers)
            return self.answers[min(len(self.requests), len(self.answers)) - 1]


def completion(content: Any, *, finish_reason: str = "stop") -> bytes:
    """The body of a good response with this message."""
    message = {"role": "assistant", "content": content}
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}).encode()


def says(content: Any, *, finish_reason: str = "stop") -> Answer:
    """The message; what is no text is its JSON."""
    text = content if isinstance(content, str) else json.dumps(content)
    return body(completion(text, finish_reason=finish_reason))


def replies(make: Callable[[dict[str, Any]], Any]) -> Answer:
    """The message that the function makes of the request."""

    def answer(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        says(make(request))(handler, request)

    return answer


def body(content: bytes, *, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> Answer:
    """These bytes, whatever they are."""

    def answer(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        handler.send_response(status)
        for name, value in (("Content-Length", str(len(content))), *headers):
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def cut_after(content: bytes, *, promised: int) -> Answer:
    """Fewer bytes than the header promises."""

    def answer(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(promised))
        handler.end_headers()
        handler.wfile.write(content)
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)

    return answer


def hangs_up(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
    """Nothing at all."""
    handler.connection.shutdown(socket.SHUT_RDWR)


def drips(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
    """A byte every 50 ms, ten minutes of them, each in time for a socket's own timeout."""
    handler.send_response(200)
    handler.send_header("Content-Length", "12000")
    handler.end_headers()
    with suppress(OSError):
        for _ in range(12_000):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)


def floods(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
    """Bytes without end and without a length."""
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while True:
            handler.wfile.write(b"x" * 65_536)


@contextmanager
def chat_server(*answers: Answer) -> Iterator[ChatServer]:
    """A server on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            request = json.loads(self.rfile.read(length))
            request["path"] = self.path
            with suppress(OSError):
                found.next(request, dict(self.headers.items()))(self, request)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found = ChatServer(f"http://127.0.0.1:{server.server_address[1]}/v1", list(answers))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
