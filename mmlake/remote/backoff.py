"""Calls over a network, made again when they failed for a reason that may pass.

Enters: an action. Leaves: its result, or RemoteUnavailable once its tries or the process's retry budget are spent.
Waits are drawn with full jitter (Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog 2015): sleep = U(0,
min(cap, base * 2^n)). boto3 has the same for its own requests (`remote/s3.py`); this is for all others: bodies that are
cut while they are read, the hub, web servers, fsspec.
"""

from __future__ import annotations

import email.utils
import errno
import http.client
import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from mmlake.errors import RemoteUnavailable

_LOG = logging.getLogger("mmlake.remote")
_Result = TypeVar("_Result")
# 408 request timeout, 425 too early, 429 too many requests, 500/502/503/504 the server's own trouble: RFC 9110, RFC
# 6585, RFC 8470.
TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


class Transient(Exception):
    """A try failed, and the next one may not. Raised by an action to ask for another try.

    reason: our words, no credential ("HTTP 503"). retry_after_s: how long the server wants to be left alone, where it
    said so.
    """

    def __init__(self, reason: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_s = retry_after_s


def reason_of(error: BaseException) -> str:
    """Why a try failed, in words that hold no credential: ours, the resolver's, the machine's for the error's number,
    or the error's name alone. A library's own text is not among them, since it may hold a token."""
    if isinstance(error, Transient):
        return error.reason
    name = type(error).__name__
    if isinstance(error, socket.gaierror):
        return f"{name}: no address for the host's name"
    if isinstance(error, OSError) and error.errno is not None and error.errno in errno.errorcode:
        return f"{name}: {os.strerror(error.errno)}"
    return name


# refused, reset, timed out, ended early
TRANSIENT: tuple[type[Exception], ...] = (Transient, ConnectionError, TimeoutError, http.client.IncompleteRead)


def retry_after_s(header: str | None, *, now_s: float) -> float | None:
    """Seconds to wait by a Retry-After header, which holds seconds or a date (RFC 9110, 10.2.3); None where it is
    missing or neither."""
    if header is None:
        return None
    if header.strip().isascii() and header.strip().isdigit():
        return float(header)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - now_s)
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """How often and how far apart."""

    tries: int = 6  # the first one included; its five waits are 6 s together in the mean and 12 s at most
    # bound of the first wait: a lost connection is back at once, a throttled bucket within a second
    base_s: float = 0.4
    cap_s: float = 20.0  # bound of any wait, as in botocore
    longest_retry_after_s: float = 120.0  # a server that asks for more is treated as down: a run should end and say so


class Budget:
    """The retries that a process may still make: a token bucket that calls and time fill.

    Under an outage every call fails, and retries would multiply the load that may have caused it. So retries are held
    to a share of the calls, plus some a second so that a small job is not lost to one hiccup. Threads may share it.
    """

    def __init__(
        self,
        *,
        share: float = 0.1,
        per_second: float = 1.0,
        ceiling: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._share, self._per_second, self._ceiling, self._clock = share, per_second, ceiling, clock
        self._tokens, self._filled_s = ceiling, clock()
        self._lock = threading.Lock()
        self.num_calls = 0
        self.num_retries = 0

    def earn(self) -> None:
        """Count a call, which earns its share of a retry."""
        with self._lock:
            self.num_calls += 1
            self._tokens = min(self._ceiling, self._tokens + self._share)

    def spend(self) -> bool:
        """Whether one more retry may be made; if so, it is counted as made."""
        with self._lock:
            now_s = self._clock()
            self._tokens = min(self._ceiling, self._tokens + (now_s - self._filled_s) * self._per_second)
            self._filled_s = now_s
            if self._tokens < 1.0:
                return False
            self._tokens -= 1.0
            self.num_retries += 1
            return True


PROCESS_BUDGET = Budget()  # shared by all `Retries` of the process that are given no other


class Retries:
    """Repeats failed calls by a policy and out of a budget. Threads may share it.

    rng, sleep, clock: for tests; `random.Random` may be drawn from by several threads at once.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        budget: Budget | None = None,
        rng: random.Random | None = None,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.policy = policy or Policy()
        self.budget = budget or PROCESS_BUDGET
        self._rng, self._sleep, self._clock = rng or random.Random(), sleep, clock

    def call(
        self, action: Callable[[], _Result], *, what: str, transient: tuple[type[Exception], ...] = TRANSIENT
    ) -> _Result:
        """What the action returns at its first success. Raises RemoteUnavailable once it gives up; what is not
        transient passes through.

        what: the subject of the error, without credentials: "GET https://host/path". transient: the exceptions that are
        worth another try;
        add a library's own to ours, as in `(*TRANSIENT, httpx2.TransportError)`.
        """
        attempts = self.begin(what)
        while True:
            try:
                return action()
            except transient as error:
                attempts.wait(error)

    def begin(self, what: str) -> Attempts:
        """The tries of one call, for a caller with a loop of its own (a body that is resumed where it broke)."""
        self.budget.earn()
        return Attempts(self, what)

    def pause_s(self, num_failures: int, wanted_s: float | None = None) -> float:
        """Seconds to wait after that many failures in a row. wanted_s: what the server asks for; the jittered wait
        is added to it."""
        drawn_s = self._rng.uniform(0.0, min(self.policy.cap_s, self.policy.base_s * 2 ** (num_failures - 1)))
        return drawn_s if wanted_s is None else wanted_s + drawn_s


class Attempts:
    """The tries of one call."""

    def __init__(self, retries: Retries, what: str) -> None:
        self._retries, self._what = retries, what
        self._began_s = retries._clock()
        self.num_failures = 0  # since the last progress

    def progress(self) -> None:
        """Note that something arrived: the next failure counts as the first. The budget still bounds the number of
        retries."""
        self.num_failures = 0

    def wait(self, error: BaseException) -> None:
        """Sleep before the next try. Raises RemoteUnavailable where there must be none."""
        retries, self.num_failures = self._retries, self.num_failures + 1
        reason = reason_of(error)
        wanted_s = error.retry_after_s if isinstance(error, Transient) else None
        if self.num_failures >= retries.policy.tries:
            raise self._given_up(
                f"{self.num_failures} tries in {retries._clock() - self._began_s:.1f} s all failed, the last by "
                f"{reason}"
            ) from error
        if wanted_s is not None and wanted_s > retries.policy.longest_retry_after_s:
            raise self._given_up(
                f"the server asks for a pause of {wanted_s:.0f} s, more than "
                f"{retries.policy.longest_retry_after_s:.0f} s ({reason})"
            ) from error
        if not retries.budget.spend():
            raise self._given_up(
                f"a try failed by {reason} and the retry budget is spent ({retries.budget.num_retries} retries "
                f"for {retries.budget.num_calls} calls)"
            ) from error
        pause_s = retries.pause_s(self.num_failures, wanted_s)
        _LOG.info("%s: try %d failed by %s, next in %.2f s", self._what, self.num_failures, reason, pause_s)
        retries._sleep(pause_s)

    def _given_up(self, fact: str) -> RemoteUnavailable:
        return RemoteUnavailable(
            f"{self._what}: {fact}; see whether the service is up and reachable, then run again: what is done "
            "stays done"
        )
