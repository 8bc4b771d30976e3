"""Many addresses fetched at once, each once: results come in the order of the addresses, bytes go into the store,
results into the journal.

The network runs in a thread of its own; responses are stored and recorded in groups, so that a killed run loses
at most what was under way. One process downloads into a lake at a time, since only then do the limits per host hold.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from contextlib import ExitStack
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import IO, Any, TypeVar

from mmlake.download.content import store_response
from mmlake.download.fetcher import Fetched, Fetcher
from mmlake.download.journal import Journal
from mmlake.download.results import DownloadResult, Downloads
from mmlake.download.settings import CrawlRules, WebSettings
from mmlake.error_codes import TRANSIENT_CODES
from mmlake.locks import waiting_lock
from mmlake.records import canonical_json, digest_of
from mmlake.remote.networks import Lookup
from mmlake.store import Blobs

R = TypeVar("R")

_WINDOW = 4096  # addresses requested ahead of the one whose result is due: one slow host must not hold up the others
_GROUP = 2048  # responses stored and recorded together: one pack of small blobs
_GROUP_S = 2.0  # at most so long after the first of them: what a killed run loses


class JournalledDownloads:
    """The downloads of one lake: the journal at the path, the bytes in the store."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        store: Blobs,
        settings: WebSettings | None = None,
        lookup: Lookup | None = None,
    ) -> None:
        self.path = Path(path)
        self._store, self._settings, self._lookup = store, settings or WebSettings(), lookup

    @cached_property
    def journal(self) -> Journal:
        return Journal(self.path)

    def fetch(self, urls: Iterable[str | None], *, rules: CrawlRules) -> Iterator[DownloadResult | None]:
        """One result per address, in their order, None for None; those of the journal without another request. Waits
        while another process downloads."""
        pending = _PendingResults(self, rules)
        ahead: deque[str | None] = deque()
        asked = iter(urls)
        with ExitStack() as stack:
            fetching: _FetchThread | None = None
            while True:
                for url in asked:
                    ahead.append(url)
                    if url is not None and pending.wants(url):
                        fetching = fetching or self._start_fetching(stack, rules)
                        if pending.needs(url, again=True):  # the lock may have been waited for
                            pending.waiting.add(url)
                            fetching.send(url, earlier=pending.earlier(url))
                    if len(ahead) >= _WINDOW:
                        break
                if not ahead:
                    return
                while fetching is not None and ahead[0] in pending.waiting:
                    pending.settle(fetching)
                url = ahead.popleft()
                yield None if url is None else pending.pop(url)

    def _start_fetching(self, stack: ExitStack, rules: CrawlRules) -> _FetchThread:
        stack.enter_context(waiting_lock(self.path.with_suffix(".lock")))
        fetching = _FetchThread(Fetcher(self._settings, rules, lookup=self._lookup))
        stack.callback(fetching.stop)
        fetching.start()
        return fetching

    def open(self, result: DownloadResult) -> IO[bytes]:
        """The bytes of a result that has a digest."""
        assert result.digest is not None
        return self._store.open(result.digest)

    def for_table(self, name: str, modality: str, *, rules: CrawlRules) -> Downloads:
        """The same downloads, for making the table of that modality of the list of that name."""
        return _TableDownloads(self, name, modality, rules)

    def table_of(self, result: DownloadResult) -> str:
        """The modality whose table has the row of the address: that of its content, text where it has none."""
        return result.modality or "text"

    def generation(self, name: str, modality: str, *, rules: CrawlRules) -> int:
        """The generation to which the table of that modality of the list of that name would belong: one that was made
        in another is out of date."""
        return self.journal.generation(name, modality, policy=self.policy(rules)) if self.path.exists() else 0

    def policy(self, rules: CrawlRules) -> str:
        """The digest of the settings that decide which addresses have content."""
        return _digest_of([_rules_digest(rules), rules.max_item_bytes, self._settings.reach])

    def forget(
        self,
        urls: Iterable[str] | None = None,
        *,
        codes: Collection[int] = TRANSIENT_CODES,
        lists: Collection[str] | None = None,
    ) -> int:
        """How many failures were forgotten, of these addresses or of all; the next ingest asks again.

        lists: names of those whose tables will all be made anew, None for all: an address may move to another table
        only there.
        """
        self.journal.release_tables(lists)
        return self.journal.forget(urls, codes=codes)

    def close(self) -> None:
        """Close the journal, if it was opened."""
        if "journal" in self.__dict__:
            self.journal.close()
            del self.__dict__["journal"]


def _rules_digest(rules: CrawlRules) -> str:
    """The digest of the rules that may forbid a response although it came."""
    return _digest_of([rules.agent, rules.respect_opt_out, rules.respect_robots])


def _valid_rules(rules: CrawlRules) -> frozenset[str]:
    """The digests of these rules and the stricter ones: what came under those may be used under these as well."""
    stricter = product({True, rules.respect_opt_out}, {True, rules.respect_robots})
    return frozenset(_digest_of([rules.agent, opt_out, robots]) for opt_out, robots in stricter)


def _digest_of(values: list[Any]) -> str:
    return digest_of(canonical_json(values).encode())[:16]


class _TableDownloads:
    """The downloads of a lake for making one table of a list."""

    def __init__(self, downloads: JournalledDownloads, name: str, modality: str, rules: CrawlRules) -> None:
        self._downloads, self._name, self._modality, self._rules = downloads, name, modality, rules
        self._has_begun = False
        self.fetch, self.open, self.for_table = downloads.fetch, downloads.open, downloads.for_table

    def table_of(self, result: DownloadResult) -> str:
        journal = self._downloads.journal
        if not self._has_begun:  # most lists state their modality, and have no generations
            journal.begin_table(self._name, self._modality, policy=self._downloads.policy(self._rules))
            self._has_begun = True
        return journal.table_of(self._name, result.url, result.modality or "text")


class _PendingResults:
    """The results of the addresses of one call of `fetch`: known, or under way."""

    def __init__(self, downloads: JournalledDownloads, rules: CrawlRules) -> None:
        self._rules, self._journal, self._store = rules, downloads.journal, downloads._store
        self._policy = downloads.policy(rules)
        self._known: dict[str, DownloadResult] = {}
        self.waiting: set[str] = set()  # under way
        self.wanted = Counter[str]()  # how often each address is in the window

    def wants(self, url: str) -> bool:
        """Count the address in; whether it must be requested."""
        self.wanted[url] += 1
        return self.needs(url)

    def needs(self, url: str, *, again: bool = False) -> bool:
        """Whether the address must be requested: it has no result that is still valid."""
        if url in self.waiting or (url in self._known and not again):
            return False
        found = self._journal.find(url, valid_rules=_valid_rules(self._rules), policy=self._policy)
        if found is None or (found.digest is not None and found.digest not in self._store):
            return True
        self._known[url] = found
        return False

    def earlier(self, url: str) -> DownloadResult | None:
        """The result of the address under other rules, where its bytes are still in the store."""
        last = self._journal.last(url)
        return last if last is not None and last.digest is not None and last.digest in self._store else None

    def settle(self, fetching: _FetchThread) -> None:
        """Store the responses that arrive and record their results, as one group."""
        # In a thread of its own: a batch of the store is durable when the thread's outermost ends, and the caller may
        # have one open.
        results = fetching.stored(self._store_arriving)
        self._known.update((result.url, result) for result in results)
        self.waiting.difference_update(result.url for result in results)

    def _store_arriving(self, fetching: _FetchThread) -> list[DownloadResult]:
        results: list[DownloadResult] = []
        until_s = 0.0
        with self._store.batch():
            while len(results) < min(_GROUP, len(self.waiting)):
                found = fetching.take(timeout_s=until_s - time.monotonic() if results else None)
                if found is None:
                    break
                until_s = until_s or time.monotonic() + _GROUP_S
                result = store_response(found, rules=self._rules, store=self._store)
                fetching.release(found)
                if result is None:
                    fetching.send(found.url)
                else:
                    results.append(result)
        self._journal.record(results, rules=_rules_digest(self._rules), policy=self._policy, now_s=time.time())
        return results

    def pop(self, url: str) -> DownloadResult:
        """The result, forgotten here unless the same address is in the window again."""
        self.wanted[url] -= 1
        if self.wanted[url]:
            return self._known[url]
        del self.wanted[url]
        return self._known.pop(url)


class _FetchThread:
    """The event loop in its thread, the responses that it has fetched, and the thread that stores them.

    Whoever asks shares no lock of Python's with either thread: an interrupt may arrive anywhere, also between taking
    such a lock and the block that gives it back, after which the other side would wait without end. It meets them in
    queues written in C, which an interrupt cannot leave locked.
    """

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        # None: no more come. What is no response broke the downloader itself: that is our fault and never an address's
        self._done: queue.SimpleQueue[Fetched | BaseException | None] = queue.SimpleQueue()
        self._to_store: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[Any]] = set()  # the loop itself holds them weakly
        # daemons: one that an interrupt met while it started is unknown to everybody, and must not hold the process
        self._writer = threading.Thread(target=self._write, name="mmlake-writer", daemon=True)
        self._thread = threading.Thread(target=self._loop.run_forever, name="mmlake-downloads", daemon=True)
        self._writer.start()
        self._thread.start()

    def start(self) -> None:
        """Make ready to fetch. Raises MissingExtra where the libraries for it are not installed."""
        self._wait_for(self._fetcher.__aenter__)

    def send(self, url: str, *, earlier: DownloadResult | None = None) -> None:
        """Request the address as soon as there is room. earlier: a result whose bytes need not come again."""
        self._loop.call_soon_threadsafe(self._begin, partial(self._fetcher.get, url, earlier=earlier), self._done.put)

    def _wait_for(self, begun: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Return when the coroutine is over; raises what it raises."""
        over: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._loop.call_soon_threadsafe(self._begin, begun, over.put)
        _raised(over.get())

    def _begin(self, begun: Callable[[], Coroutine[Any, Any, Any]], give: Callable[[Any], None]) -> None:
        """Run the coroutine in the loop, where this is called; what it returns or raises is given away, unless it was
        cancelled."""

        def end(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            if not task.cancelled():
                give(task.exception() or task.result())

        task = self._loop.create_task(begun())
        self._tasks.add(task)
        task.add_done_callback(end)

    def take(self, *, timeout_s: float | None) -> Fetched | None:
        """The next response, within that time; None where none arrives. Raises what broke the downloader."""
        try:
            found = self._done.get(timeout=None if timeout_s is None else max(0.0, timeout_s))
        except queue.Empty:
            return None
        if found is None:
            self._done.put(None)  # for whoever asks next
        return _raised(found)

    def stored(self, store: Callable[[_FetchThread], list[DownloadResult]]) -> list[DownloadResult]:
        """What the function returns, called with this in the thread that stores; raises what it raises."""
        over: queue.SimpleQueue[list[DownloadResult] | BaseException] = queue.SimpleQueue()

        def attempted() -> None:
            try:
                over.put(store(self))
            except BaseException as error:  # noqa: BLE001  # it is raised where the results are waited for
                over.put(error)

        self._to_store.put(attempted)
        return _raised(over.get())

    def _write(self) -> None:
        while (work := self._to_store.get()) is not None:
            work()
            del work  # with the responses that it names

    def release(self, found: Fetched) -> None:
        """Make room for another body: this one, if there was one, is stored."""
        if found.body is not None:
            self._loop.call_soon_threadsafe(self._fetcher.release_body)

    def stop(self) -> None:
        """Cancel what is under way and end the threads."""
        self._done.put(None)
        self._to_store.put(None)
        self._writer.join()  # which may wait for a response
        self._wait_for(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        while not self._done.empty():
            left = self._done.get()
            if isinstance(left, Fetched) and left.body is not None:
                left.body.close()

    async def _close(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}  # those that read robots.txt too
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._fetcher.__aexit__()


def _raised(found: R | BaseException) -> R:
    """What was found, if it is no exception; else it is raised."""
    if isinstance(found, BaseException):
        raise found
    return found
