"""A client of an OpenAI-compatible chat endpoint: texts and pictures in, the text of the answer out.

The server is believed in nothing: its answers are bounded in time and size, and what they say is checked by whoever
asked. Proxies of the environment and redirects are never followed, since items and the key must reach no other host.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

from mmlake.errors import RemoteUnavailable, SettingsError, UnreadableItem
from mmlake.remote.backoff import TRANSIENT_STATUSES, Budget, Policy, Retries, Transient, retry_after_s

_LOG = logging.getLogger(__name__)
UNANSWERED, MALFORMED, REFUSED = 3801, 3802, 3803  # codes of the catalogue
_PATH = "/chat/completions"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_OVERLOADED = 529  # what some gateways say instead of 503
_READ_BYTES = 65_536
_LOGGED_CHARS = 200  # of what a server says about a refusal


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointSettings:
    """Which server is asked, and how long. No key: that comes from the environment alone."""

    base_url: str = ""
    # such as "http://127.0.0.1:8000/v1"; "" where there is none
    model: str = ""
    # the server's name of the model
    key_variable: str = "MMLAKE_ENDPOINT_KEY"
    # environment variable that holds the key; where it is not set, no key is sent
    timeout_s: float = 120.0
    # of one try, from connecting to the last byte: a model on a busy machine writes some tokens a second
    tries: int = 4
    # of one request, the first included
    concurrency: int = 4
    # requests at once
    max_tokens: int = 1024
    # of one answer; what is longer is cut by the server, and refused here
    max_answer_bytes: int = 1_000_000
    # a thousand tokens take 5 kB
    max_unanswered: int = 8
    # requests in a row that got no answer after all tries; then the server counts as down: the run ends where it never
    # answered, else what is left is rows to retry
    json_mode: bool = True
    # whether the server is asked to write JSON alone; some servers do not know the field
    seed: int = 0
    # of sampling, for servers that have one; the temperature is 0
    body: Mapping[str, Any] = field(default_factory=dict)
    # fields of the request that replace ours, such as {temperature = 1}; one that is "" is left out

    def __post_init__(self) -> None:
        """Refuse what no run could use."""
        for name in ("timeout_s", "tries", "concurrency", "max_tokens", "max_answer_bytes", "max_unanswered"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"endpoint.{name}={getattr(self, name)} must be above 0; correct the setting")


@dataclass(frozen=True, slots=True)
class Picture:
    """A part of a question."""

    jpeg: bytes


class Endpoint:
    """One model on one server. Threads may share it."""

    def __init__(
        self,
        settings: EndpointSettings,
        *,
        model: str = "",
        environment: Mapping[str, str] = os.environ,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """model: instead of the settings'. Raises SettingsError for an address, a model or a key that cannot be
        used."""
        self._settings, self.model = settings, model or settings.model
        self._url, self._key = _address(settings.base_url), environment.get(settings.key_variable, "")
        if not self.model:
            raise SettingsError("endpoint.model is empty; set it to the name that the server has for its model")
        if not (self._key.isascii() and self._key.isprintable()):
            raise SettingsError(
                f"the variable {settings.key_variable} holds a key with characters that no header can have; export it "
                "without line breaks"
            )
        if self._key and self._url.scheme == "http" and self._url.hostname not in _LOOPBACK:
            raise SettingsError(
                f"endpoint.base_url={settings.base_url} would send the key of {settings.key_variable} unencrypted to "
                "another machine; use https, a tunnel to 127.0.0.1, or unset the variable"
            )
        self._retries = Retries(Policy(tries=settings.tries), budget=Budget(), sleep=sleep)
        self._lock, self._num_answered, self._num_unanswered, self._is_down = threading.Lock(), 0, 0, False

    def ask(self, parts: Sequence[str | Picture], *, instructions: str) -> str:
        """The text of the answer. Raises UnreadableItem where this question gets none that can be used, and
        RemoteUnavailable or SettingsError where no question would."""
        if self._is_down:
            raise UnreadableItem(UNANSWERED, "not asked: the server has not answered the questions before it")
        body = self._body(parts, instructions)
        try:
            content = self._retries.call(lambda: self._once(body), what=f"endpoint {self._url.netloc}")
        except _Refused as error:
            self._answered()
            raise error.public() from None
        except RemoteUnavailable as error:
            if self._is_gone():
                raise
            cause = error.__cause__
            reason = cause.reason if isinstance(cause, Transient) else type(cause).__name__
            raise UnreadableItem(
                UNANSWERED, f"no answer in {self._settings.tries} tries, the last failed by {reason}"
            ) from None
        self._answered()
        return _text_of(content)

    def _answered(self) -> None:
        with self._lock:
            self._num_answered, self._num_unanswered = self._num_answered + 1, 0

    def _is_gone(self) -> bool:
        """Whether a question without an answer shows that the server answers nobody. One that did answer before counts
        as down from now on: what it said is not lost, and what is left can be asked in another run."""
        with self._lock:
            self._num_unanswered += 1
            is_over = self._num_unanswered >= self._settings.max_unanswered
            self._is_down = is_over and self._num_answered > 0
            return is_over and not self._num_answered

    def _body(self, parts: Sequence[str | Picture], instructions: str) -> bytes:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": instructions},
                {"role": "user", "content": [_part(part) for part in parts]},
            ],
            "temperature": 0,
            "seed": self._settings.seed,
            "max_tokens": self._settings.max_tokens,
            "stream": False,
        }
        if self._settings.json_mode:
            body["response_format"] = {"type": "json_object"}
        body |= self._settings.body
        return json.dumps({name: value for name, value in body.items() if value != ""}).encode()

    def _once(self, body: bytes) -> bytes:
        """The bytes of a good response. Raises Transient, and _Refused for what another try would not change."""
        with _deadline(self._connection(), self._settings.timeout_s) as (connection, left_s):
            connection.request("POST", f"{self._url.path}{_PATH}", body, self._headers())
            with connection.getresponse() as response:
                if response.status != 200:
                    raise self._failure(response)
                if (response.getheader("Content-Encoding") or "identity").lower() != "identity":
                    raise _Refused(UnreadableItem(MALFORMED, "the answer is compressed, which was not asked for"))
                return self._content(response, left_s)

    def _connection(self) -> http.client.HTTPConnection:
        host, timeout_s = self._url.hostname or "", self._settings.timeout_s
        if self._url.scheme == "https":
            return http.client.HTTPSConnection(
                host, self._url.port, timeout=timeout_s, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(host, self._url.port, timeout=timeout_s)

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
        return headers | ({"Authorization": f"Bearer {self._key}"} if self._key else {})

    def _content(self, response: http.client.HTTPResponse, left_s: Callable[[], float]) -> bytes:
        content, limit = bytearray(), self._settings.max_answer_bytes
        while piece := response.read(min(_READ_BYTES, limit + 1 - len(content))):
            content += piece
            if len(content) > limit:
                raise _Refused(UnreadableItem(MALFORMED, f"answer_bytes={len(content)} or more not in [0, {limit}]"))
        # `read` of some bytes does not say that there should have been more
        if response.length or left_s() <= 0:
            raise Transient("an answer that was cut")
        return bytes(content)

    def _failure(self, response: http.client.HTTPResponse) -> Exception:
        """What to raise for a status that is no success."""
        status = response.status
        where = f"endpoint {self._url.scheme}://{self._url.netloc}{self._url.path}"
        if status in TRANSIENT_STATUSES or status == _OVERLOADED:
            wait_s = retry_after_s(response.getheader("Retry-After"), now_s=time.time())
            return Transient(f"HTTP {status}", retry_after_s=wait_s)
        if status in (401, 403):
            return _Refused(
                RemoteUnavailable(
                    f"{where} refuses us with HTTP {status}; check the key in {self._settings.key_variable}"
                )
            )
        if status in (404, 405) or 300 <= status < 400:
            what = "redirects, which is never followed" if status < 400 else "knows no such path or model"
            return _Refused(
                SettingsError(f"{where} {what} (HTTP {status}, model {self.model!r}); correct the section [endpoint]")
            )
        _LOG.info("%s: HTTP %d: %r", where, status, response.read(_LOGGED_CHARS))
        return _Refused(UnreadableItem(REFUSED, f"the server refuses the request with HTTP {status}"))


class _Refused(Exception):
    """Carries what is not worth another try out of `Retries`."""

    def __init__(self, error: UnreadableItem | RemoteUnavailable | SettingsError) -> None:
        super().__init__(str(error))
        self._error = error

    def public(self) -> UnreadableItem | RemoteUnavailable | SettingsError:
        """The error for the caller."""
        return self._error


@contextmanager
def _deadline(
    connection: http.client.HTTPConnection, timeout_s: float
) -> Iterator[tuple[http.client.HTTPConnection, Callable[[], float]]]:
    """The connection, and the seconds that are left of it. A socket's own timeout begins anew with every byte, so a
    server that drips would never end. Raises Transient for whatever a connection can break by."""
    ends_s = time.monotonic() + timeout_s
    sockets: list[socket.socket] = []  # a connection forgets its own while the answer is read

    def left_s() -> float:
        return ends_s - time.monotonic()

    def cut() -> None:
        for one in sockets:
            with suppress(OSError):
                socket.socket.shutdown(one, socket.SHUT_RDWR)  # below TLS, whose state the other thread is using

    timer = threading.Timer(timeout_s, cut)
    timer.daemon = True
    timer.start()
    try:
        connection.connect()
        sockets.append(connection.sock)
        yield connection, left_s
    except (http.client.HTTPException, OSError) as error:
        reason = (
            f"timeout_s={timeout_s:g}" if left_s() <= 0 or isinstance(error, TimeoutError) else type(error).__name__
        )
        raise Transient(reason) from error
    finally:
        timer.cancel()
        connection.close()


def _address(base_url: str) -> SplitResult:
    """The parts of the address. Raises SettingsError."""
    with suppress(ValueError):
        url = urlsplit(base_url.rstrip("/"))
        is_plain = url.username is None and url.password is None and not url.query and not url.fragment
        if url.scheme in ("http", "https") and url.hostname and is_plain and (url.port or 1) > 0:
            return url
    raise SettingsError(
        "endpoint.base_url is no http or https address without login, query and fragment; set it to one such as "
        "http://127.0.0.1:8000/v1"
    )


def _part(part: str | Picture) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {
        "type": "image_url",
        "image_url": {"url": f"data:image/jpeg;base64,{base64.b64encode(part.jpeg).decode()}"},
    }


def _text_of(content: bytes) -> str:
    """The message of the first choice. Raises UnreadableItem."""
    try:
        choice = json.loads(content)["choices"][0]
        text, reason = choice["message"]["content"], choice.get("finish_reason")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise UnreadableItem(MALFORMED, "the response is no JSON of a chat completion") from None
    if reason == "length":
        raise UnreadableItem(MALFORMED, "the model did not come to an end within endpoint.max_tokens")
    if not isinstance(text, str) or not text.strip():
        raise UnreadableItem(MALFORMED, "the answer holds no text")
    return text
