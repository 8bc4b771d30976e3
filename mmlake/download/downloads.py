"""Many addresses fetched at once, each once: answers come in the order that was asked, bytes go into the store,
outcomes into the journal.

The network runs in a thread of its own; what arrives is stored and written down in groups, so that a killed run loses
at most what was on the way. One process downloads into a lake at a time, since only then do the limits per host hold.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import IO, Any

from mmlake.download.answers import Answer, Downloads
from mmlake.download.content import answer_of
from mmlake.download.fetcher import Fetched, Fetcher
from mmlake.download.journal import Journal
from mmlake.download.manners import Manners
from mmlake.download.settings import WebSettings
from mmlake.errors import TRANSIENT_CODES, LakeLocked, UnreadableItem
from mmlake.locks import exclusive_lock
from mmlake.records import canonical_json, digest_of
from mmlake.remote.networks import Lookup
from mmlake.store import Blobs

_LOG = logging.getLogger("mmlake.sources")
_WINDOW = 4096  # addresses looked at ahead of the one whose answer is due: one slow host must not hold up the others
_GROUP = 2048  # answers stored and written down together: one pack of small blobs
_GROUP_S = 2.0  # at most so long after the first of them: what a killed run loses
_POLL_S = 0.2
_LOCK_POLL_S = 0.2


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

    def answers(self, urls: Iterable[str | None], *, rules: Manners) -> Iterator[Answer | None]:
        """One answer per address, in their order, None for None; those of the journal without asking again. Waits
        while another process downloads."""
        book = _Book(self, rules)
        ahead: deque[str | None] = deque()
        asked = iter(urls)
        with ExitStack() as stack:
            crowd: _Crowd | None = None
            while True:
                for url in asked:
                    ahead.append(url)
                    if url is not None and book.wants(url):
                        crowd = crowd or self._gathered(stack, rules)
                        if book.needs(url, again=True):  # the lock may have been waited for
                            book.waiting.add(url)
                            crowd.send(url, before=book.before(url))
                    if len(ahead) >= _WINDOW:
                        break
                if not ahead:
                    return
                while crowd is not None and ahead[0] in book.waiting:
                    book.settle(crowd)
                url = ahead.popleft()
                yield None if url is None else book.answer(url)

    def _gathered(self, stack: ExitStack, rules: Manners) -> _Crowd:
        lock = self.path.with_suffix(".lock")
        waited = False
        while True:
            try:
                stack.enter_context(exclusive_lock(lock, what=f"the downloads at {self.path}"))
                break
            except LakeLocked:
                if not waited:
                    _LOG.info("%s: another process downloads; waiting for it to end", self.path)
                waited = True
                time.sleep(_LOCK_POLL_S)
        crowd = _Crowd(self._settings, rules, self._lookup)
        stack.callback(crowd.writer.shutdown)
        stack.callback(crowd.stop)
        crowd.start()
        return crowd

    def open(self, answer: Answer) -> IO[bytes]:
        """The bytes of an answer that has a digest."""
        assert answer.digest is not None
        return self._store.open(answer.digest)

    def telling(self, name: str, modality: str, *, rules: Manners) -> Downloads:
        """The same downloads, for making the table of that modality of the list of that name."""
        return _Telling(self, name, modality, rules)

    def home(self, answer: Answer) -> str:
        """The modality whose table has the row of the address, as far as its answer tells."""
        return answer.modality or "text"

    def turn(self, name: str, modality: str, *, rules: Manners) -> int:
        """The turn in which the table of that modality would be made of the list of that name: one that was made in
        another is out of date."""
        return self.journal.turn(name, modality, policy=self.policy(rules)) if self.path.exists() else 0

    def policy(self, rules: Manners) -> str:
        """The digest of the settings that decide which addresses have an answer."""
        return _digest_of([_manners_of(rules), rules.max_item_bytes, self._settings.reach])

    def forget(
        self,
        urls: Iterable[str] | None = None,
        *,
        codes: Collection[int] = TRANSIENT_CODES,
        lists: Collection[str] | None = None,
    ) -> int:
        """How many failures were forgotten, of these addresses or of all; the next ingest asks again.

        lists: names of those whose tables will all be made anew, None for all: only in these an address may move to
        another table.
        """
        self.journal.release(lists)
        return self.journal.forget(urls, codes=codes)

    def close(self) -> None:
        """Close the journal, if it was opened."""
        if "journal" in self.__dict__:
            self.journal.close()
            del self.__dict__["journal"]


def _manners_of(rules: Manners) -> str:
    """The digest of what may forbid an answer although it came."""
    return _digest_of_manners(rules.agent, rules.respect_opt_out, rules.respect_robots)


def _counting_manners(rules: Manners) -> frozenset[str]:
    """Those of the rules, and the stricter ones: whatever came under these may be used under the rules as well."""
    stricter = product({True, rules.respect_opt_out}, {True, rules.respect_robots})
    return frozenset(_digest_of_manners(rules.agent, opt_out, robots) for opt_out, robots in stricter)


def _digest_of_manners(agent: str, respect_opt_out: bool, respect_robots: bool) -> str:
    return _digest_of([agent, respect_opt_out, respect_robots])


def _digest_of(values: list[Any]) -> str:
    return digest_of(canonical_json(values).encode())[:16]


class _Telling:
    """The downloads of a lake while one table of a list is made."""

    def __init__(self, downloads: JournalledDownloads, name: str, modality: str, rules: Manners) -> None:
        self._downloads, self._name, self._modality, self._rules = downloads, name, modality, rules
        self._begun = False
        self.answers, self.open, self.telling = downloads.answers, downloads.open, downloads.telling

    def home(self, answer: Answer) -> str:
        journal = self._downloads.journal
        if not self._begun:  # most lists tell their modality, and take no turns
            journal.begin(self._name, self._modality, policy=self._downloads.policy(self._rules))
            self._begun = True
        return journal.home(self._name, answer.url, answer.modality or "text")


class _Book:
    """What is known of the addresses of one call of `answers`."""

    def __init__(self, downloads: JournalledDownloads, rules: Manners) -> None:
        self._rules, self._journal, self._store = rules, downloads.journal, downloads._store
        self._manners, self._counting, self._policy = (
            _manners_of(rules),
            _counting_manners(rules),
            downloads.policy(rules),
        )
        self._known: dict[str, Answer] = {}
        self.waiting: set[str] = set()  # on the way
        self.wanted = Counter[str]()  # how often each address stands in the window

    def wants(self, url: str) -> bool:
        """Count the address in, and whether it must be asked."""
        self.wanted[url] += 1
        return self.needs(url)

    def needs(self, url: str, *, again: bool = False) -> bool:
        """Whether the address must be asked: nothing is known of it that still counts."""
        if url in self.waiting or (url in self._known and not again):
            return False
        found = self._journal.find(url, manners=self._counting, policy=self._policy)
        if found is None or (found.digest is not None and found.digest not in self._store):
            return True
        self._known[url] = found
        return False

    def before(self, url: str) -> Answer | None:
        """What came of the address under other manners, where its bytes are still in the store."""
        last = self._journal.last(url)
        return last if last is not None and last.digest is not None and last.digest in self._store else None

    def settle(self, crowd: _Crowd) -> None:
        """Store what arrives and write down what came, as one group."""
        # In a thread of its own: a batch of the store is durable when the thread's outermost ends, and the caller may
        # have one open.
        answers = crowd.writer.submit(self._written, crowd).result()
        self._known.update((answer.url, answer) for answer in answers)
        self.waiting.difference_update(answer.url for answer in answers)

    def _written(self, crowd: _Crowd) -> list[Answer]:
        answers: list[Answer] = []
        until_s = 0.0
        with self._store.batch():
            while len(answers) < min(_GROUP, len(self.waiting)):
                found = crowd.take(timeout_s=until_s - time.monotonic() if answers else None)
                if found is None:
                    break
                until_s = until_s or time.monotonic() + _GROUP_S
                answer = answer_of(found, rules=self._rules, store=self._store)
                crowd.free(found)
                if answer is None:
                    crowd.send(found.url)
                else:
                    answers.append(answer)
        self._journal.keep(answers, manners=self._manners, policy=self._policy, now_s=time.time())
        return answers

    def answer(self, url: str) -> Answer:
        """The answer, forgotten here unless the same address comes again soon."""
        self.wanted[url] -= 1
        if self.wanted[url]:
            return self._known[url]
        del self.wanted[url]
        return self._known.pop(url)


@dataclass(frozen=True, slots=True)
class _Failed:
    error: BaseException


class _Crowd:
    """The event loop in its thread, and what it has fetched."""

    def __init__(self, settings: WebSettings, rules: Manners, lookup: Lookup | None) -> None:
        self._settings, self._rules, self._lookup = settings, rules, lookup
        self._done: queue.SimpleQueue[Fetched | _Failed] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._fetcher: Fetcher | None = None
        self._stopped = threading.Event()
        self.writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mmlake-writer")
        self._thread = threading.Thread(target=self._loop.run_forever, name="mmlake-downloads", daemon=True)
        self._thread.start()

    def start(self) -> None:
        """Make ready to fetch. Raises MissingExtra where the libraries for it are not installed."""
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()

    async def _open(self) -> None:
        self._fetcher = await Fetcher(self._settings, self._rules, lookup=self._lookup).__aenter__()

    def send(self, url: str, *, before: Answer | None = None) -> None:
        """Ask for the address as soon as there is room. before: an answer of it whose bytes need not come again."""
        self._loop.call_soon_threadsafe(self._start, url, before)

    def _start(self, url: str, before: Answer | None) -> None:
        task = self._loop.create_task(self._fetch(url, before))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fetch(self, url: str, before: Answer | None) -> None:
        assert self._fetcher is not None
        try:
            self._done.put(await self._fetcher.get(url, before=before))
        except UnreadableItem as error:
            self._done.put(Fetched(url=url, fault=error))
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                self._done.put(_Failed(error))
            raise

    def take(self, *, timeout_s: float | None) -> Fetched | None:
        """What arrives next, within that time; None where nothing does. Raises what broke the downloader itself:
        that is our fault and never an address's."""
        until_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while not self._stopped.is_set():
            try:
                found = self._done.get(timeout=max(0.0, min(_POLL_S, until_s - time.monotonic())))
            except queue.Empty:
                if time.monotonic() >= until_s:
                    return None
                continue
            if isinstance(found, _Failed):
                raise found.error
            return found
        return None

    def free(self, found: Fetched) -> None:
        """Say that the body, if there was one, is stored."""
        if found.body is not None and self._fetcher is not None:
            self._loop.call_soon_threadsafe(self._fetcher.taken, 1)

    def stop(self) -> None:
        """Break off what is on the way and end the thread."""
        self._stopped.set()
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
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
        if self._fetcher is not None:
            await self._fetcher.__aexit__(None, None, None)
