"""Which addresses may be requested: http and https, without credentials, with a host; and which of a host its owner
allows to our agent (robots.txt, RFC 9309). `remote/networks.py` checks to which networks the host may belong."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmlake.errors import UnreadableItem
from mmlake.optional import need
from mmlake.remote.networks import is_numeric

if TYPE_CHECKING:
    from yarl import URL

_NUMBERS = re.compile(r"[0-9.]+")
_MAX_URL_CHARS = 8192


def parse_url(text: str) -> URL:
    """The address, fit to be requested. Raises UnreadableItem 1101 where it is not: another scheme, credentials, no
    host."""
    yarl = need("yarl", extra="web", purpose="reading a list of URLs")
    if len(text) > _MAX_URL_CHARS:
        raise UnreadableItem(1101, f"url_chars={len(text)} not in [1, {_MAX_URL_CHARS}]")
    try:
        url = yarl.URL(text.strip())
        port = url.port
    except (ValueError, UnicodeError) as error:
        raise UnreadableItem(1101, "the address does not parse as a URL") from error
    return check_url(url) if port else _refuse_scheme(url)


def check_url(url: URL) -> URL:
    """The same address. Raises UnreadableItem 1101 for another scheme, credentials, or no host."""
    if url.scheme not in ("http", "https"):
        _refuse_scheme(url)
    if url.user is not None or url.password is not None:
        raise UnreadableItem(1101, "the address holds credentials, which are never sent")
    if not url.host:
        raise UnreadableItem(1101, "the address names no host")
    # "127.1", "2130706433": what libraries resolve by themselves, past the check
    if _NUMBERS.fullmatch(url.host) and not is_numeric(url.host):
        raise UnreadableItem(1101, "the host is a number that is no address in its usual form")
    return url


def _refuse_scheme(url: URL) -> Any:
    raise UnreadableItem(
        1101, f"the scheme {url.scheme[:20]!r} is none of http and https" if url.scheme else "the address has no scheme"
    )


MAX_ROBOTS_BYTES = 512 << 10  # RFC 9309, 2.5: at least 500 KiB must be parsed
_MAX_HOSTS = 100_000  # files kept in memory at once; the oldest goes first
_KEPT_S = 86_400.0  # RFC 9309, 2.4: no longer than a day
_FAILURE_KEPT_S = 60.0  # after a failure it is requested again in a minute; a list may run for days

# address -> status, body; raises UnreadableItem where no response came
Load = Callable[["URL"], Awaitable[tuple[int, bytes]]]


@dataclass(frozen=True, slots=True)
class _Rules:
    parser: Any | None  # None: everything is allowed
    fault: UnreadableItem | None = None  # why nothing is allowed at present


class Robots:
    """The robots.txt of every host that a request went to, each fetched once a day."""

    def __init__(self, load: Load, *, agent: str) -> None:
        self._load, self._agent = load, agent
        self._rules: dict[str, tuple[float, asyncio.Task[_Rules]]] = {}  # origin -> when it was requested, its rules

    async def delay_s(self, url: URL) -> float:
        """Seconds that the host asks for between two requests. Raises UnreadableItem: 1109 not allowed, 1110 not
        known now."""
        origin = str(url.origin())
        now_s = asyncio.get_running_loop().time()
        asked_s, task = self._rules.get(origin, (now_s, None))
        if task is None or (
            task.done() and now_s - asked_s > (_KEPT_S if task.result().fault is None else _FAILURE_KEPT_S)
        ):
            if len(self._rules) >= _MAX_HOSTS:
                self._rules.pop(next(iter(self._rules)))
            task = asyncio.ensure_future(self._fetched(url))
            self._rules[origin] = (now_s, task)
        rules = await asyncio.shield(task)
        if rules.fault is not None:
            raise UnreadableItem(rules.fault.code, rules.fault.reason)
        if rules.parser is None:
            return 0.0
        if not rules.parser.can_fetch(str(url), self._agent):
            raise UnreadableItem(1109, f"robots.txt does not allow the path to {self._agent}")
        return float(rules.parser.crawl_delay(self._agent) or 0.0)

    async def _fetched(self, url: URL) -> _Rules:
        protego = need("protego", extra="web", purpose="keeping to robots.txt")
        try:
            status, body = await self._load(url.origin() / "robots.txt")
        except UnreadableItem as error:
            # the address itself then has the same fate, or the redirects led nowhere: nothing was said
            if error.code in (1101, 1102, 1106):
                return _Rules(None)
            return _Rules(None, UnreadableItem(1110, f"robots.txt was not answered ({error.reason})"))
        if status >= 500 or status == 429:
            return _Rules(None, UnreadableItem(1110, f"robots.txt is answered with http_status={status}"))
        if not 200 <= status < 300:
            return _Rules(None)  # RFC 9309, 2.3.1.3: there is none
        text = body.decode("utf-8", "replace").removeprefix("\ufeff")
        return _Rules(protego.Protego.parse(text))
