"""What a run says while it goes: a bar per phase on a terminal; elsewhere a line per phase, and one a minute of how far
it is, so that the log of a run of hours says that it goes on."""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from mmlake.cli.app import bars_of, messages
from mmlake.drawing import number_of
from mmlake.progress import Advance, silent

_EVERY_S = 60.0  # between two lines where there is no terminal
_NOW_CHARS = 60  # of what is being made, the end


@contextmanager
def generating(quiet: bool) -> Iterator[Advance]:
    """An Advance that draws how many sample items are there."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description:<24}"),
        TextColumn("{task.completed:.0f} items"),
        TimeElapsedColumn(),
        **bars_of(quiet),
    ) as progress:
        task = progress.add_task("sample corpus", total=None)
        yield lambda count: progress.advance(task, count)


@dataclass(frozen=True)
class Watch:
    """What a run calls as it goes on."""

    begin: Callable[[str, int], None]  # at the start of each phase
    scanned: Advance = silent  # as files of the landing zone are opened, before the first phase


@contextmanager
def watching(quiet: bool) -> Iterator[Watch]:
    """Between the starts of two phases every table that is done moves the phase's bar. Without a terminal: a line on
    stderr per phase, and one a minute."""
    if quiet:
        yield Watch(lambda name, total: None)
        return
    screen = messages()
    if not screen.is_terminal:
        with _Lines(screen) as lines, _followed(lines):
            yield Watch(lines.begin)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<24}"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[now]}[/dim]"),
    )
    with Progress(*columns, console=screen, transient=False) as progress:
        follower = _Bars(progress)
        with _followed(follower):
            yield Watch(follower.begin, follower.scanned)
            follower.end()


@contextmanager
def _followed(handler: logging.Handler) -> Iterator[None]:
    """Every record of `mmlake.steps` goes to the handler."""
    logger = logging.getLogger("mmlake.steps")
    before = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


class _Follower(logging.Handler, ABC):
    """Knows what is being made, by the records of `mmlake.steps`."""

    def __init__(self) -> None:
        super().__init__()
        self._num_items: Counter[object] = Counter()  # of the tables that are being made, several at once
        self._num_all: dict[object, int] = {}  # of those of which it is known

    def emit(self, record: logging.LogRecord) -> None:
        slot, count = getattr(record, "slot", None), getattr(record, "num_items", 0)
        if slot is None:
            return
        self._num_items[slot] += count
        self._num_all[slot] = getattr(record, "num_all", self._num_all.get(slot, 0))
        of_all = f" of {self._num_all[slot]:,}" if self._num_all[slot] else ""
        now = f"{slot} {self._num_items[slot]:,}{of_all}" if self._num_items[slot] else str(slot)
        is_done = record.levelno >= logging.INFO
        if is_done:
            del self._num_items[slot], self._num_all[slot]
        self.moved(int(is_done), now[-_NOW_CHARS:])

    @abstractmethod
    def moved(self, num_done: int, now: str) -> None:
        """So many tables more are done; what is being made."""


class _Lines(_Follower):
    """Writes a line at the start of each phase, and while it lasts one a minute."""

    def __init__(self, screen: Console) -> None:
        super().__init__()
        self._screen, self._ended = screen, threading.Event()
        self._phase: tuple[str, int, float] | None = None  # its name, its tables, when it began
        self._num_done, self._now, self._writing = 0, "", threading.Lock()
        self._thread = threading.Thread(target=self._tick, name="progress lines", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ended.set()
        self._thread.join()

    def begin(self, name: str, total: int) -> None:
        with self._writing:
            self._phase, self._num_done, self._now = (name, total, time.monotonic()), 0, ""
            self._screen.print(f"{name}: {number_of(total, 'table')} to make", soft_wrap=True)

    def moved(self, num_done: int, now: str) -> None:
        with self._writing:
            self._num_done, self._now = self._num_done + num_done, now

    def _tick(self) -> None:
        while not self._ended.wait(_EVERY_S):
            with self._writing:
                if self._phase is not None:
                    self._screen.print(self._line(*self._phase), soft_wrap=True, markup=False, highlight=False)

    def _line(self, name: str, total: int, began: float) -> str:
        seconds = time.monotonic() - began
        after = f"{seconds:.0f} s" if seconds < 60 else f"{seconds / 60:.0f} min"
        now = f"; {self._now}" if self._now else ""
        return f"{name}: {self._num_done} of {number_of(total, 'table')} after {after}{now}"


class _Bars(_Follower):
    """Moves the bar of the current phase."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress
        self._task: TaskID | None = None

    def begin(self, name: str, total: int) -> None:
        self.end()
        self._task = self._progress.add_task(name, total=total, now="")

    def scanned(self, count: int) -> None:
        if self._task is None:
            self._task = self._progress.add_task("landing zone", total=None, now="files")
        self._progress.advance(self._task, count)

    def end(self) -> None:
        if self._task is not None:
            task = next(task for task in self._progress.tasks if task.id == self._task)
            total = task.completed if task.total is None else task.total
            self._progress.update(self._task, completed=total, total=total, now="")
            self._progress.stop_task(self._task)

    def moved(self, num_done: int, now: str) -> None:
        if self._task is not None:
            self._progress.update(self._task, advance=num_done, now=now)
