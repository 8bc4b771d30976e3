"""Servers that the tests start: S3 in a process of its own, and a proxy before it that breaks what it is asked to
break."""

from __future__ import annotations

import http.client
import os
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from tests.ports import free_port
from tests.remote.ceph import ceph_gateway


@contextmanager
def s3_server(key_id: str, secret: str) -> Iterator[str]:
    """The endpoint of an S3 server that knows these keys: moto in a process of its own; where MMLAKE_TEST_S3 is "ceph",
    a Ceph gateway; where it is an address, that, with keys from AWS_*."""
    if given := os.environ.get("MMLAKE_TEST_S3"):
        with ceph_gateway(key_id, secret) if given == "ceph" else nullcontext(given) as endpoint:
            yield endpoint
        return
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def wait_for(port: int, process: subprocess.Popen[bytes], *, limit_s: float = 300.0) -> None:
    until = time.monotonic() + limit_s
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/data.json", timeout=5):
            return
        time.sleep(0.05)
    raise RuntimeError(f"the S3 server on port {port} did not answer within {limit_s} s")


@dataclass
class Fault:
    """What happens to the next requests of that kind."""

    method: str = "GET"
    key: str = ""  # a part of the path and query, unquoted
    times: int = 1
    status: int | None = None  # answered at once; nothing reaches the storage
    code: str = "ServiceUnavailable"  # the S3 error code of that answer
    retry_after: str | None = None
    cut_after: int | None = None  # bytes of the body that come before the connection is closed
    lost_answer: bool = False  # the storage does it, the answer never comes
    is_reset: bool = False  # the connection is closed while the request is on its way; nothing reaches the storage
    length_off: int = 0  # added to the Content-Length that is reported, after which the connection is closed
    etag: str | None = None  # in place of the true one
    delay_s: float = 0.0
    drop_headers: tuple[str, ...] = ()  # of the request: a store that does not know them
    flipped_byte: int | None = None  # of the body that comes, or that is sent, a bit of which changes on the way
    is_stored_so: bool = False  # the storage has checked what was sent: the flip is its own


@dataclass
class Proxy:
    """A proxy before a server; `faults` may be changed at any time."""

    endpoint: str
    faults: list[Fault] = field(default_factory=list)
    seen: list[tuple[str, str]] = field(default_factory=list)  # (method, path and query), unquoted
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, method: str, key: str = "") -> int:
        return sum(1 for seen_method, path in self.seen if seen_method == method and key in path)

    def fault_for(self, method: str, path: str) -> Fault | None:
        with self.lock:
            self.seen.append((method, path))
            for fault in self.faults:
                if fault.times > 0 and fault.method == method and fault.key in path:
                    fault.times -= 1
                    return fault
        return None


def _flipped(body: bytes, at: int) -> bytes:
    """The body with one bit of that byte flipped; it wraps around."""
    if not body:
        return body
    data = bytearray(body)
    data[at % len(data)] ^= 1
    return bytes(data)


def _signed_anew(method: str, url: str, headers: dict[str, str], body: bytes) -> dict[str, str]:
    """The headers of such a request as a client with the keys of AWS_* would sign them."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.session import Session

    kept = {
        name: value
        for name, value in headers.items()
        if name.lower() not in ("authorization", "content-md5", "x-amz-date", "x-amz-content-sha256")
        and not name.lower().startswith(("x-amz-checksum-", "x-amz-sdk-"))
    }
    request = AWSRequest(method=method, url=url, headers=kept, data=body)
    S3SigV4Auth(Session().get_credentials(), "s3", os.environ["AWS_DEFAULT_REGION"]).add_auth(request)
    return dict(request.headers.items())


@contextmanager
def proxy_before(upstream: str) -> Iterator[Proxy]:
    target = urlsplit(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else a body waits 40 ms for the acknowledgement of its head

        def log_message(self, format: str, *args: object) -> None:
            pass

        def _serve(self) -> None:
            with proxy.lock:
                proxy.at_once += 1
                proxy.most_at_once = max(proxy.most_at_once, proxy.at_once)
            try:
                self._forward(proxy.fault_for(self.command, unquote(self.path)))
            except (ConnectionError, TimeoutError):
                self.close_connection = True
            finally:
                with proxy.lock:
                    proxy.at_once -= 1

        def _forward(self, fault: Fault | None) -> None:
            if fault and fault.is_reset:
                self.rfile.read(min(1 << 16, int(self.headers.get("Content-Length") or 0)))
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                self.close_connection = True
                return
            body = self._body()
            if fault and fault.delay_s:
                time.sleep(fault.delay_s)
            if fault and fault.status is not None:
                self._refuse(fault)
                return
            dropped = {"transfer-encoding", "content-length", "connection", *(fault.drop_headers if fault else ())}
            headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
            headers["Content-Length"] = str(len(body))
            if fault and fault.flipped_byte is not None and self.command != "GET":
                body = _flipped(body, fault.flipped_byte)
            if fault and (fault.drop_headers or fault.is_stored_so):
                headers = _signed_anew(self.command, f"{upstream}{self.path}", headers, body)
            connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=30)
            try:
                connection.request(self.command, self.path, body=body, headers=headers)
                answer = connection.getresponse()
                data = answer.read()
            finally:
                connection.close()
            if fault and fault.lost_answer:
                self.close_connection = True
                return
            self._answer(answer, data, fault)

        def _answer(self, answer: http.client.HTTPResponse, data: bytes, fault: Fault | None) -> None:
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, fault.etag if fault and fault.etag and name.lower() == "etag" else value)
            stated = (
                answer.getheader("Content-Length")
                if self.command == "HEAD"
                else str(len(data) + (fault.length_off if fault else 0))
            )
            if answer.status != 204:
                self.send_header("Content-Length", stated or "0")
            self.end_headers()
            if fault and fault.cut_after is not None:
                self.wfile.write(data[: fault.cut_after])
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            if fault and fault.flipped_byte is not None and self.command == "GET":
                data = _flipped(data, fault.flipped_byte)
            self.wfile.write(data)
            if fault and fault.length_off:
                self.close_connection = True

        def _refuse(self, fault: Fault) -> None:
            data = (
                f"<?xml version='1.0'?><Error><Code>{fault.code}</Code><Message>secret text of a "
                "server</Message></Error>"
            ).encode()
            self.send_response_only(fault.status or 503)
            if fault.retry_after is not None:
                self.send_header("Retry-After", fault.retry_after)
            self.send_header("Content-Length", str(0 if self.command == "HEAD" else len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def _body(self) -> bytes:
            if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        proxy = Proxy(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join()
