"""Interrupts at each step of a function, one after another.

A signal comes where it comes, most often while another thread of the process has its turn. Here the steps of the thread
that asks are interrupted in their turn, those of Python's own locks included: an interrupt between taking such a lock
and the block that gives it back leaves it locked.
"""

from __future__ import annotations

import faulthandler
import gc
import inspect
import linecache
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_ENDS_S = 60.0  # a process that hangs is ended with the stacks of its threads


@contextmanager
def interrupted_at(
    step: int, *, after: Callable[..., Any], until: Collection[Callable[..., Any]]
) -> Iterator[list[int]]:
    """Raises KeyboardInterrupt at that step of this thread: a line that begins or a function that returns. Yields the
    number of steps that were counted.

    after: the function whose first call is the first step. until: those that clean up, with which the steps end.
    """
    seen, last = [0], [function.__code__ for function in until]

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "call":
            if frame.f_code in last:
                sys.settrace(None)
                return None
            if frame.f_code is after.__code__ and not seen[0]:
                seen[0] = 1
            return trace
        if seen[0] and _is_step(frame, event):
            seen[0] += 1
            if seen[0] == step:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()  # what is raised in one of its callbacks, of which Hypothesis has one, is lost
    faulthandler.dump_traceback_later(_ENDS_S, exit=True)
    sys.settrace(trace)
    try:
        yield seen
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
        faulthandler.cancel_dump_traceback_later()


def _is_step(frame: FrameType, event: str) -> bool:
    """Whether a signal may be noticed there. A trace sees the end of a `with` as its first line again, before the block
    is left, where none is; nor is any at a `yield`."""
    if event == "line":
        return not linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")
    return event == "return" and not frame.f_code.co_flags & inspect.CO_GENERATOR
