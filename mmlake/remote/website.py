"""One web server: the headers of its files, ranges of their bytes, whole bodies in order, directory pages.

Requests go through aiohttp in fsspec's I/O thread. fsspec's own HTTPFileSystem is not used: it takes the answer 200 for
a range, holds whole bodies in memory and does not notice a file that changes between two ranges. Login and headers go
to the server's own origin only.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urljoin, urlsplit

from mmlake.errors import RemoteUnavailable, SettingsError, UnreadableItem
from mmlake.optional import need
from mmlake.remote.backoff import TRANSIENT, TRANSIENT_STATUSES, Attempts, Retries, Transient, retry_after_s
from mmlake.remote.bodies import CHUNK_BYTES, Body, coding_of
from mmlake.remote.client import Neighbourhood, proxy_for, run
from mmlake.remote.connections import RemoteConnections
from mmlake.remote.credentials import Login, netrc_login, options_of, split_login
from mmlake.remote.directory_pages import PATH, Link, links_of, origin
from mmlake.remote.networks import AddressRefused, is_numeric
from mmlake.remote.settings import RemoteSettings

_Result = TypeVar("_Result")
_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 5
_NO_HEAD = (400, 403, 405, 501)  # answers to HEAD of servers and signed addresses that take GET only
_GONE = (404, 410)
_MAX_PAGE_BYTES = 64 << 20  # half a million links
_NUMBER = "[0-9]{1,18}"  # below 2^63, which is what a table's integer holds
_LENGTH = re.compile(_NUMBER)
_CONTENT_RANGE = re.compile(rf"bytes (?:({_NUMBER})-({_NUMBER})|\*)/({_NUMBER})")
_PAGES = ("text/html", "application/xhtml+xml", "")
_PURPOSE = "a landing zone at an http(s):// address"
_INWARD = "a public server redirects into a private network"
_CHANGED = "the file changed while it was read: the version that was opened is gone"


class NoRanges(UnreadableItem):
    """The server answered with the whole file where a range was asked for."""

    def __init__(self) -> None:
        super().__init__(1001, "the server has no byte ranges")


class IsDirectory(UnreadableItem):
    """The server redirects to the same address with a slash at its end."""

    def __init__(self) -> None:
        super().__init__(1001, "the address is that of a directory")


class NoPage(Exception):
    """There is no directory page. reason: our words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class FileHeaders:
    """What a server's headers state about a file."""

    size_bytes: int | None  # of its bytes as they are stored; None where it does not say, or compresses them on the way
    etag: str  # "" where it states none
    modified: str  # Last-Modified as it is written; "" where it states none
    has_ranges: bool | None = None  # by Accept-Ranges; None where it does not say

    @property
    def version(self) -> str:
        """What names the content: the ETag, "" without one. A weak ETag may stand for more than one content, so its
        time is added."""
        return f"{self.etag} {self.modified}".strip() if self.etag.startswith("W/") else self.etag

    def differs(self, other: FileHeaders) -> bool:
        """Whether the file changed: both state the same thing and give it other values."""
        pairs = ((self.etag, other.etag), (self.modified, other.modified), (self.size_bytes, other.size_bytes))
        return any(one not in ("", None) and two not in ("", None) and one != two for one, two in pairs)


class Website:
    """A web server at one origin. Threads may share it, and forked processes."""

    def __init__(
        self, url: str, *, settings: RemoteSettings, connections: RemoteConnections, retries: Retries | None = None
    ) -> None:
        """url: without its login; the connections' login for it is used, and so are its storage options. Raises
        SettingsError, MissingExtra."""
        self._aiohttp = need("aiohttp", extra="web", purpose=_PURPOSE)
        need("fsspec", extra="web", purpose=_PURPOSE)
        self._origin = origin(url)
        self._settings, self._connections, self._retries = settings, connections, retries or Retries()
        options = options_of(url, settings)
        self._headers = {str(name): str(value) for name, value in dict(options.pop("headers", {})).items()}
        user, password = options.pop("username", None), options.pop("password", None)
        if (
            login := connections.logins.of(url) or (netrc_login(self._origin[1]) if user is None else None)
        ) is not None:
            user, password = login.user, login.password
        if any(character in "\r\n\0" for value in self._headers.values() for character in value):
            raise SettingsError(
                f"storage options of {url}: a header has a line end in it, expected one line; correct "
                "remote.storage_options or the variable that it names"
            )
        if user is not None and "authorization" not in map(str.lower, self._headers):
            self._headers["Authorization"] = Login(str(user), str(password or "")).basic
        if options:
            raise SettingsError(
                f"storage options {sorted(options)} of {url}: expected some of headers, username, password; "
                "correct remote.storage_options"
            )
        self.transient = (*TRANSIENT, self._aiohttp.ClientConnectionError, self._aiohttp.ClientPayloadError)
        self._neighbourhood = Neighbourhood(self._origin[1])

    def head(self, url: str) -> FileHeaders | None:
        """What the server states about the file; None where there is none. Raises IsDirectory, UnreadableItem where
        it is refused."""
        return self._call(lambda: self._head(url), f"HEAD {url}")

    def links(self, url: str) -> list[Link]:
        """The links of a directory page. Raises NoPage where there is none."""
        return list(links_of(self._call(lambda: self._page(url), f"GET {url}"), url))

    def read_range(self, url: str, stated: FileHeaders, *, offset: int, size: int) -> bytes:
        """Exactly these bytes of that version. Raises NoRanges, UnreadableItem 1001 where the file changed or is
        refused, RemoteUnavailable."""
        data, attempts, is_named = bytearray(), self.attempts(url), True
        while len(data) < size:
            before = len(data)
            try:
                is_named &= self._run(lambda: self._range(url, stated, offset, size, data), f"GET {url}")
            except self.transient as error:
                if len(data) > before:
                    attempts.progress()
                attempts.wait(error)
        if not is_named and ((now := self.head(url)) is None or now.differs(stated)):
            raise UnreadableItem(1001, _CHANGED)
        return bytes(data)

    def attempts(self, url: str) -> Attempts:
        """The tries of one body, for a caller that resumes or repeats it."""
        return self._retries.begin(f"GET {url}")

    def start(self, url: str, stated: FileHeaders) -> Body:
        """The whole body, which `more` reads. Raises UnreadableItem 1001, RemoteUnavailable, one of `transient`."""
        return self._run(lambda: self._start(url, stated), f"GET {url}")

    def more(self, body: Body, url: str) -> bytes:
        """The next bytes of the body; none at its end. Raises one of `transient` where it breaks, UnreadableItem
        1001 where its compression does."""
        return self._run(body.more, f"GET {url}")

    def stop(self, body: Body) -> None:
        """Close the answer without reading the rest of the body."""
        run(lambda: _release(body.answer))

    def _call(self, action: Callable[[], Awaitable[_Result]], what: str) -> _Result:
        return self._retries.call(lambda: self._run(action, what), what=what, transient=self.transient)

    def _run(self, action: Callable[[], Awaitable[_Result]], what: str) -> _Result:
        try:
            return run(action)
        except self._aiohttp.ClientError as error:
            if isinstance(error, self.transient):
                raise
            raise RemoteUnavailable(
                f"{what}: no sound answer ({type(error).__name__}); see whether a web server is at the address"
            ) from None

    async def _ask(
        self, method: str, url: str, *, headers: dict[str, str] | None = None, max_redirects: int = _MAX_REDIRECTS
    ) -> Any:
        """The answer, its body not read yet, after redirects: never from https to http nor from a public server into
        a private network, and without the login to another origin."""
        asked = url
        for _ in range(max_redirects + 1):
            own, proxy = self._headers if origin(asked) == self._origin else {}, proxy_for(asked)
            client = await self._connections.http.client(
                self._settings.connections, is_public_only=not proxy and await self._neighbourhood.is_public()
            )
            try:
                answer = await client.request(
                    method,
                    need("yarl", extra="web", purpose=_PURPOSE).URL(asked, encoded=True),
                    headers=own | {"Accept-Encoding": "identity"} | (headers or {}),
                    **proxy,
                    allow_redirects=False,
                    auto_decompress=False,
                )
            except AddressRefused:
                if origin(asked)[1] != self._origin[1]:
                    raise UnreadableItem(1001, _INWARD) from None
                raise RemoteUnavailable(
                    f"{method} {url}: the host's name now leads into a private network, and led to a public "
                    "address when it was first asked for; see who answers for the name"
                ) from None
            except self._aiohttp.ClientSSLError:
                raise RemoteUnavailable(
                    f"{method} {url}: no safe connection; see whether the server's certificate is valid and "
                    "its authority known to this machine, or whether the address begins with http://"
                ) from None
            if answer.status not in _REDIRECTS or not max_redirects:
                return answer
            answer.release()
            asked = await self._following(url, asked, answer.headers.get("Location", ""))
        raise UnreadableItem(1001, f"the server redirects more than {_MAX_REDIRECTS} times")

    async def _following(self, url: str, asked: str, target: str) -> str:
        """The address that a redirect leads to. Raises IsDirectory, UnreadableItem 1001 where it must not be
        followed."""
        try:
            found = _led_to(asked, target)
            there, here = origin(found), origin(asked)
        except ValueError:
            raise UnreadableItem(1001, "the server redirects to an address that is none") from None
        if there[1] == here[1] and urlsplit(found).path == f"{urlsplit(url).path}/":
            raise IsDirectory
        if there[0] not in ("http", "https") or not there[1] or (here[0] == "https" and there[0] == "http"):
            raise UnreadableItem(1001, "the server redirects to an unencrypted or unknown kind of address")
        if not await self._neighbourhood.admits(there[1], is_by_proxy=bool(proxy_for(found))):
            raise UnreadableItem(1001, _INWARD)
        return found

    async def _head(self, url: str) -> FileHeaders | None:
        answer = await self._ask("HEAD", url)
        answer.release()
        if answer.status in _GONE:
            return None
        stated = _headers_of(answer, url) if answer.status == 200 else None
        if stated is not None and stated.size_bytes:
            return stated  # a length of 0 is what some frameworks answer that do not know it
        if stated is None and answer.status not in _NO_HEAD:
            self._check(answer, f"HEAD {url}")
        answer = await self._ask("GET", url, headers={"Range": "bytes=0-0"})
        answer.release()  # only the headers are wanted
        if answer.status in _GONE:
            return None
        if answer.status != 416:
            self._check(answer, f"GET {url}")
        return _headers_of(answer, url)

    async def _page(self, url: str) -> str:
        answer = await self._ask("GET", url, max_redirects=0)
        try:
            if answer.status in _REDIRECTS:
                raise NoPage(f"the server redirects it to {_shown(url, answer.headers.get('Location', ''))}")
            if answer.status in (*_GONE, 403, 405, 406):
                raise NoPage(f"the server answers status={answer.status}")
            self._check(answer, f"GET {url}")
            if (kind := answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()) not in _PAGES:
                raise NoPage(f"the server answers with {kind[:60]!r} and no HTML page")
            body, data = Body(answer, url), bytearray()
            while chunk := await body.more():
                data += chunk
                if len(data) > _MAX_PAGE_BYTES:
                    raise NoPage(f"its page is larger than {_MAX_PAGE_BYTES} bytes")
            text = data.decode("utf-8", "replace")
            is_delimited = (
                "Content-Length" in answer.headers or "chunked" in answer.headers.get("Transfer-Encoding", "").lower()
            )
            if not is_delimited and "</html" not in text.lower():
                raise Transient("a page that ended early")
            return text
        finally:
            answer.release()

    async def _range(self, url: str, stated: FileHeaders, offset: int, size: int, data: bytearray) -> bool:
        """Whether the answer names its version, if the file has one. What comes of the range is added to the data,
        which holds the range's beginning already."""
        start, end = offset + len(data), offset + size
        answer = await self._ask("GET", url, headers={"Range": f"bytes={start}-{end - 1}"})
        try:
            if answer.status in (*_GONE, 412, 416):
                raise UnreadableItem(1001, _CHANGED)
            self._check(answer, f"GET {url}")
            found = _headers_of(answer, url)
            if found.differs(stated):
                raise UnreadableItem(1001, _CHANGED)
            content_range = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
            if answer.status == 200 or content_range is None or coding_of(answer, url):
                if answer.status != 200 or start or end != found.size_bytes or coding_of(answer, url):
                    raise NoRanges
            elif (content_range[1], content_range[2]) != (str(start), str(end - 1)):
                raise NoRanges
            while len(data) < size and (chunk := await answer.content.read(CHUNK_BYTES)):
                data += chunk[: size - len(data)]
            if len(data) < size:
                raise Transient("a body that ended early")
            return bool(found.etag or found.modified or not (stated.etag or stated.modified))
        finally:
            answer.release()

    async def _start(self, url: str, stated: FileHeaders) -> Body:
        answer = await self._ask("GET", url)
        try:
            if answer.status in _GONE:
                raise UnreadableItem(1001, _CHANGED)
            self._check(answer, f"GET {url}")
            if answer.status != 200:
                raise UnreadableItem(1001, f"status={answer.status} for the whole file, expected 200")
            if _headers_of(answer, url).differs(stated):
                raise UnreadableItem(1001, _CHANGED)
            return Body(answer, url)
        except (UnreadableItem, RemoteUnavailable, Transient):
            answer.release()
            raise

    def _check(self, answer: Any, what: str) -> None:
        """Nothing for a success; else Transient, UnreadableItem, RemoteUnavailable in our own words."""
        status = answer.status
        if 200 <= status < 300:
            return
        answer.release()
        if status in TRANSIENT_STATUSES:
            raise Transient(
                f"HTTP {status}", retry_after_s=retry_after_s(answer.headers.get("Retry-After"), now_s=time.time())
            )
        if status in (401, 407):
            raise RemoteUnavailable(
                f"{what}: the server wants a login, or refuses the one it got (status {status}); give one in "
                "~/.netrc, in remote.storage_options or as https://user:password@host"
            )
        if 400 <= status < 500:
            raise UnreadableItem(1001, f"the server refuses to give the file (status={status})")
        raise RemoteUnavailable(
            f"{what}: status {status}, expected success; see the server's own log, then run again: what is done "
            "stays done"
        )


async def _release(answer: Any) -> None:
    answer.release()


def _led_to(asked: str, target: str) -> str:
    """The address that a Location header leads to, without a login, in ASCII. Raises ValueError where it is none."""
    found = split_login(urljoin(asked, quote(target, safe=f"{PATH}%?#[]", errors="surrogateescape")))[0]
    host = origin(found)[1]
    host.encode("idna")
    # "127.1", "2130706433": libraries read these as addresses, each in its own way
    if not is_numeric(host) and host.replace(".", "").isdigit():
        raise ValueError
    return found


def _shown(asked: str, target: str) -> str:
    """Where a Location header leads, for a message: without login and query."""
    try:
        return _led_to(asked, target).partition("?")[0][:200]
    except ValueError:
        return "an address that is none"


def _text(answer: Any, name: str) -> str:
    """The header in characters that a table can hold: servers send any byte."""
    return str(answer.headers.get(name, "")).strip().encode("utf-8", "backslashreplace").decode()


def _headers_of(answer: Any, url: str) -> FileHeaders:
    content_range, length = _CONTENT_RANGE.fullmatch(_text(answer, "Content-Range")), _text(answer, "Content-Length")
    size = (
        int(content_range[3])
        if content_range is not None
        else int(length)
        if answer.status == 200 and _LENGTH.fullmatch(length)
        else None
    )
    ranges = _text(answer, "Accept-Ranges").lower()
    has_ranges = True if answer.status == 206 or ranges == "bytes" else False if ranges == "none" else None
    return FileHeaders(
        None if coding_of(answer, url) else size, _text(answer, "ETag"), _text(answer, "Last-Modified"), has_ranges
    )
