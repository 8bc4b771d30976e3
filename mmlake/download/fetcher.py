"""One address fetched: checked, allowed by robots.txt, redirects followed by hand, the body spooled with a limit, tries
within a budget.

Enters: an address. Leaves: a `Fetched`, which holds the body as it came or says why there is none. Never raises for
what a host does.

Known bytes are checked by HEAD and not by a condition (If-None-Match): the request is made to learn whether the
publisher opts out now, and a 304 need not repeat the headers that say so (RFC 9110, 15.4.5; Apache httpd leaves
X-Robots-Tag out).
"""

from __future__ import annotations

import asyncio
import errno
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from mmlake import __version__
from mmlake.download import url_checks
from mmlake.download.results import DownloadResult
from mmlake.download.settings import CrawlRules, WebSettings
from mmlake.errors import UnreadableItem
from mmlake.formats import http_responses
from mmlake.formats.texts import printable
from mmlake.formats.urls import redacted
from mmlake.optional import need
from mmlake.remote.backoff import TRANSIENT_STATUSES, Budget, Policy, Retries, retry_after_s
from mmlake.remote.networks import AddressRefused, Lookup, Networks, checking_resolver, is_numeric

if TYPE_CHECKING:
    from yarl import URL

_SPOOL_BYTES = 1 << 17  # a body up to here stays in memory: with 256 bodies at once 32 MB
_CHUNK_BYTES = 1 << 16
_REDIRECTS = (301, 302, 303, 307, 308)
# this machine's disk or open files: no host's fault, and not to be written down as one
_LOCAL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})
# faults that may be gone at another try in the same run; a name without an address will not have one in a second
_RETRIABLE = frozenset({1103, 1104, 1105, 1107})


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetched:
    """The response to one address, its body not inspected yet."""

    url: str
    fault: UnreadableItem | None = None
    status: int | None = None
    final_url: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: IO[bytes] | None = None  # as it came, codings and all
    # the earlier result, where the host states that the content is still the same; then there is no body
    earlier: DownloadResult | None = None
    num_tries: int = 1


class Fetcher:
    """Fetches addresses in one event loop; any number of `get` at once, limited by the settings."""

    def __init__(self, settings: WebSettings, rules: CrawlRules, *, lookup: Lookup | None = None) -> None:
        self._settings, self._rules = settings, rules
        self._networks = Networks(settings.allowed_networks)
        # getaddrinfo blocks; the loop's own pool has six threads on two cores
        self._threads = ThreadPoolExecutor(max_workers=16, thread_name_prefix="mmlake-names")
        self._lookup = lookup or self._resolve
        self._host_limiter = HostLimiter(per_host=settings.max_parallel_per_host, delay_s=settings.host_delay_s)
        self._slots = asyncio.Semaphore(settings.max_parallel)
        # bodies being read or waiting to be stored: what bounds memory
        self._room = asyncio.Semaphore(4 * settings.max_parallel)
        self._robots = url_checks.Robots(self._fetch_robots, agent=rules.agent) if rules.respect_robots else None
        policy = Policy(tries=settings.tries, cap_s=settings.max_pause_s, longest_retry_after_s=settings.max_pause_s)
        self._retries = Retries(policy, budget=Budget())
        self._client: Any = None

    async def __aenter__(self) -> Fetcher:
        aiohttp = need("aiohttp", extra="web", purpose="fetching a list of URLs")
        connector = aiohttp.TCPConnector(
            resolver=checking_resolver(self._networks, self._lookup),
            use_dns_cache=False,
            limit=0,
            limit_per_host=0,
            happy_eyeballs_delay=None,
        )
        contact = f" (+{self._settings.contact})" if self._settings.contact else ""
        agent = f"{self._rules.agent}/{__version__}{contact}"
        self._client = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,  # a proxy would resolve names by itself, past the check
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=self._settings.connect_timeout_s, sock_read=self._settings.idle_timeout_s
            ),
            headers={"User-Agent": agent, "Accept": "*/*", "Accept-Encoding": http_responses.ACCEPTED},
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def release_body(self) -> None:
        """Make room for one more body: one is stored."""
        self._room.release()

    async def _resolve(self, host: str, port: int) -> list[str]:
        asked = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, asked)
        return list(dict.fromkeys(str(address[4][0]) for address in found))

    async def get(self, url: str, *, earlier: DownloadResult | None = None) -> Fetched:
        """The response to the address, tried again where that may help. earlier: a result whose bytes are not fetched
        again where the host states the same of them."""
        self._retries.budget.earn()
        if earlier is not None and earlier.headers.keys() & {"etag", "last-modified"}:
            found, _ = await self._follow_redirects(url, "HEAD")
            if found.fault is None and _is_unchanged(earlier, found):
                return replace(found, earlier=earlier)
        num_tries = 0
        while True:
            num_tries += 1
            found, pause_s = await self._follow_redirects(url, "GET")
            may_pass = found.fault is not None and found.fault.code in _RETRIABLE
            is_soon = num_tries < self._settings.tries and (pause_s or 0.0) <= self._settings.max_pause_s
            if not (may_pass and is_soon and self._retries.budget.spend()):
                return replace(found, num_tries=num_tries)
            await asyncio.sleep(self._retries.pause_s(num_tries, pause_s))

    async def _follow_redirects(self, text: str, method: str) -> tuple[Fetched, float | None]:
        """(one try with all its redirects, the seconds of its Retry-After or None)."""
        most, limit_bytes = self._settings.max_redirects, self._rules.max_item_bytes
        try:
            url = start = url_checks.parse_url(text)
            for _ in range(most + 1):
                delay_s = await self._robots.delay_s(url) if self._robots else 0.0
                delay_s = min(delay_s, self._settings.max_crawl_delay_s)
                status, headers, body = await self._request(url, method, limit_bytes=limit_bytes, delay_s=delay_s)
                if status not in _REDIRECTS:
                    final_url = None if url == start else str(url)
                    found = Fetched(url=text, status=status, headers=headers, body=body, final_url=final_url)
                    return self._check_status(found, url)
                url = _redirect_target(url, headers)
            raise UnreadableItem(1106, f"num_redirects>{most} not in [0, {most}]")
        except UnreadableItem as error:
            return Fetched(url=text, fault=error), None

    def _check_status(self, found: Fetched, url: URL) -> tuple[Fetched, float | None]:
        if found.status == 200:
            return found, None
        is_transient, pause_s = found.status in TRANSIENT_STATUSES, None
        fault = UnreadableItem(1105 if is_transient else 1106, f"http_status={found.status} not in [200, 200]")
        if is_transient:
            pause_s = retry_after_s(dict(found.headers).get("retry-after"), now_s=time.time())
            self._host_limiter.pause(url.host or "", min(pause_s or 0.0, self._settings.max_pause_s))
        return replace(found, fault=fault), pause_s

    async def _fetch_robots(self, url: URL) -> tuple[int, bytes]:
        most_bytes = url_checks.MAX_ROBOTS_BYTES
        for _ in range(self._settings.max_redirects + 1):
            status, headers, body = await self._request(url, "GET", limit_bytes=most_bytes, delay_s=0.0, may_cut=True)
            if status not in _REDIRECTS and body is None:
                return status, b""
            if status not in _REDIRECTS and body is not None:
                self.release_body()
                codings = http_responses.codings_of(dict(headers).get("content-encoding"))
                with body, http_responses.decoded(body, codings, limit_bytes=1 << 30) as stream:
                    return status, stream.read(most_bytes)
            url = _redirect_target(url, headers)
        return 404, b""  # RFC 9309, 2.3.1.2: after five redirects there is none

    async def _request(
        self, url: URL, method: str, *, limit_bytes: int, delay_s: float, may_cut: bool = False
    ) -> tuple[int, tuple[tuple[str, str], ...], IO[bytes] | None]:
        """(status, headers, body of a 200 to GET) of one request. Raises UnreadableItem for every failure."""
        import aiohttp

        host = url_checks.check_url(url).host or ""
        if is_numeric(host) and not self._networks.allows(host):
            raise UnreadableItem(1101, "the address leads into a network that is not public")
        async with self._host_limiter.slot(host, delay_s=delay_s), self._slots:
            await self._room.acquire()
            body = None
            try:
                async with asyncio.timeout(self._settings.total_timeout_s):
                    status, headers, body = await self._exchange(url, method, limit_bytes=limit_bytes, may_cut=may_cut)
                return status, headers, body
            except AddressRefused as error:
                raise UnreadableItem(1101, "the name leads to no public address") from error
            except aiohttp.ClientConnectorDNSError as error:
                raise UnreadableItem(1102, "the host's name has no address") from error
            except TimeoutError as error:
                limits = self._settings
                connect, idle = f"connect_s>{limits.connect_timeout_s}", f"idle_s>{limits.idle_timeout_s}"
                reason = f"no whole answer: {connect}, {idle} or total_s>{limits.total_timeout_s}"
                raise UnreadableItem(1104, reason) from error
            except aiohttp.ClientPayloadError as error:
                raise UnreadableItem(1107, "the body ends before its length says so") from error
            except aiohttp.InvalidURL as error:
                raise UnreadableItem(1101, "the address does not parse as a URL") from error
            except (aiohttp.ClientSSLError, aiohttp.ClientConnectorCertificateError) as error:
                raise UnreadableItem(1103, "the host's certificate is not accepted, or TLS fails") from error
            except (aiohttp.ClientError, ConnectionError, OSError, ValueError) as error:
                if isinstance(error, OSError) and error.errno in _LOCAL_ERRNOS:
                    raise
                raise UnreadableItem(1103, "the connection is refused or broken, or the answer is no HTTP") from error
            finally:
                if body is None:
                    self._room.release()

    async def _exchange(
        self, url: URL, method: str, *, limit_bytes: int, may_cut: bool
    ) -> tuple[int, tuple[tuple[str, str], ...], IO[bytes] | None]:
        async with self._client.request(method, url, allow_redirects=False) as answer:
            headers = tuple((name.lower(), printable(value)) for name, value in answer.headers.items())
            if answer.status != 200 or method == "HEAD":
                return answer.status, headers, None
            stated = answer.content_length or 0
            if stated > limit_bytes and not may_cut:
                raise UnreadableItem(1008, f"size_bytes={stated} not in [0, {limit_bytes}]")
            # the caller that stores the response closes it
            body = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115
            try:
                await _spool(answer.content, body, limit_bytes, may_cut=may_cut)
            except BaseException:
                body.close()
                raise
            body.seek(0)
            return answer.status, headers, body


def _is_unchanged(earlier: DownloadResult, found: Fetched) -> bool:
    """Whether the host states of the content what it stated earlier, and enough: a weak ETag holds for more
    than one content, and a time for those of one second."""
    now = dict(found.headers)
    if (found.final_url and redacted(found.final_url)) != earlier.final_url:
        return False
    etag, modified = earlier.headers.get("etag", ""), earlier.headers.get("last-modified", "")
    if etag and not etag.startswith("W/"):
        return now.get("etag") == etag
    if not modified or (now.get("etag", ""), now.get("last-modified")) != (etag, modified):
        return False
    return bool(etag) or (now.get("content-length") == str(earlier.size_bytes) and "content-encoding" not in now)


async def _spool(content: Any, body: IO[bytes], limit_bytes: int, *, may_cut: bool) -> None:
    size = 0
    async for part in content.iter_chunked(_CHUNK_BYTES):
        size += len(part)
        if size > limit_bytes:
            if may_cut:
                return
            raise UnreadableItem(1008, f"size_bytes>{limit_bytes} not in [0, {limit_bytes}]")
        body.write(part)


def _redirect_target(url: URL, headers: tuple[tuple[str, str], ...]) -> URL:
    """Where a redirect leads, checked like any address."""
    yarl = need("yarl", extra="web", purpose="fetching a list of URLs")
    location = dict(headers).get("location")
    if not location:
        raise UnreadableItem(1106, "a redirect names no address")
    try:
        return url_checks.check_url(url.join(yarl.URL(location)))
    except (ValueError, UnicodeError) as error:
        raise UnreadableItem(1106, "a redirect leads to an address that does not parse") from error


class HostLimiter:
    """One limit per host, kept only while a request to it waits or runs, or a pause lasts."""

    def __init__(self, *, per_host: int, delay_s: float) -> None:
        self._per_host, self._delay_s = per_host, delay_s
        self._hosts: dict[str, _HostLimit] = {}

    @asynccontextmanager
    async def slot(self, host: str, *, delay_s: float = 0.0) -> AsyncIterator[None]:
        """Held while a request to the host runs. delay_s: what the host itself asks for between two requests."""
        host_limit = self._hosts.setdefault(host, _HostLimit(self._per_host))
        host_limit.num_users += 1
        try:
            async with host_limit.slots:
                await host_limit.wait(max(delay_s, self._delay_s))
                yield
        finally:
            host_limit.num_users -= 1
            if not host_limit.num_users and host_limit.next_s <= asyncio.get_running_loop().time():
                self._hosts.pop(host, None)

    def pause(self, host: str, pause_s: float) -> None:
        """Let no new request to the host start for so many seconds."""
        if pause_s > 0:
            host_limit = self._hosts.setdefault(host, _HostLimit(self._per_host))
            host_limit.next_s = max(host_limit.next_s, asyncio.get_running_loop().time() + pause_s)


class _HostLimit:
    def __init__(self, num_slots: int) -> None:
        self.slots = asyncio.Semaphore(num_slots)
        self.next_s = 0.0
        self.num_users = 0

    async def wait(self, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        while (left_s := self.next_s - loop.time()) > 0:
            await asyncio.sleep(left_s)
        self.next_s = max(self.next_s, loop.time() + delay_s)
