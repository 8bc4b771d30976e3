"""Retries: their waits, their number, and the budget that keeps an outage from growing."""

from __future__ import annotations

import random
import socket
import statistics

import pytest

from mmlake.errors import RemoteUnavailable
from mmlake.remote.backoff import Budget, Policy, Retries, Transient, reason_of, retry_after_s


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def retrying(clock: Clock, *, budget: Budget | None = None, **policy: float) -> Retries:
    return Retries(
        Policy(**policy), budget=budget or Budget(clock=clock), rng=random.Random(4), sleep=clock.sleep, clock=clock
    )


def failing(times: int, error: Exception):
    left = [error] * times

    def action() -> str:
        if left:
            raise left.pop()
        return "done"

    return action


@pytest.mark.parametrize("error", [ConnectionResetError(), TimeoutError(), Transient("HTTP 503")])
def test_what_may_pass_is_tried_again(clock, error) -> None:
    assert retrying(clock).call(failing(3, error), what="GET x") == "done"
    assert len(clock.slept) == 3


@pytest.mark.parametrize("error", [ValueError("no"), PermissionError("no"), KeyError("no")])
def test_what_cannot_pass_goes_through_at_once(clock, error) -> None:
    with pytest.raises(type(error)):
        retrying(clock).call(failing(1, error), what="GET x")
    assert clock.slept == []


def test_tries_are_counted_and_reported(clock) -> None:
    with pytest.raises(
        RemoteUnavailable,
        match=r"^GET https://host/x: 6 tries in \d+\.\d s all failed, the last by HTTP 503; .*run again",
    ):
        retrying(clock).call(failing(6, Transient("HTTP 503")), what="GET https://host/x")
    assert len(clock.slept) == 5


def test_waits_are_drawn_evenly_below_a_bound_that_doubles_up_to_the_cap() -> None:
    """Full jitter: U(0, min(cap, base * 2^n)), whose mean is half of the bound and whose standard deviation is bound
    / sqrt(12)."""
    retries = Retries(Policy(base_s=1.0, cap_s=20.0), rng=random.Random(5))
    for failures, bound in ((1, 1.0), (2, 2.0), (3, 4.0), (5, 16.0), (6, 20.0), (12, 20.0)):
        drawn = [retries.pause_s(failures) for _ in range(4000)]
        assert min(drawn) >= 0.0 and max(drawn) <= bound
        assert statistics.mean(drawn) == pytest.approx(bound / 2, rel=0.05)
        assert statistics.stdev(drawn) == pytest.approx(bound / 12**0.5, rel=0.05)


def test_a_servers_pause_is_a_lower_bound(clock) -> None:
    retrying(clock).call(failing(1, Transient("HTTP 429", retry_after_s=7.0)), what="GET x")
    assert 7.0 <= clock.slept[0] <= 7.4


def test_a_request_for_a_long_pause_ends_the_call(clock) -> None:
    with pytest.raises(RemoteUnavailable, match=r"a pause of 3600 s, more than 120 s \(HTTP 503\)"):
        retrying(clock).call(failing(1, Transient("HTTP 503", retry_after_s=3600.0)), what="GET x")


def test_an_outage_costs_at_most_a_tenth_more_calls_and_the_reserve(clock) -> None:
    budget = Budget(share=0.1, per_second=0.0, ceiling=50.0, clock=clock)
    num_sent = 0

    def action() -> None:
        nonlocal num_sent
        num_sent += 1
        raise ConnectionResetError

    for _ in range(1000):
        with pytest.raises(RemoteUnavailable):
            retrying(clock, budget=budget).call(action, what="GET x")
    assert num_sent <= 1000 + 50 + 100
    assert (budget.num_calls, budget.num_retries) == (1000, num_sent - 1000)


def test_a_spent_budget_fills_with_time_and_with_calls(clock) -> None:
    budget = Budget(share=0.5, per_second=2.0, ceiling=1.0, clock=clock)
    assert (budget.spend(), budget.spend()) == (True, False)
    clock.now_s += 0.5
    assert (budget.spend(), budget.spend()) == (True, False)
    budget.earn(), budget.earn()
    assert (budget.spend(), budget.spend()) == (True, False)


def test_a_spent_budget_is_reported(clock) -> None:
    with pytest.raises(RemoteUnavailable, match=r"the retry budget is spent \(1 retries for 1 calls\)"):
        retrying(clock, budget=Budget(per_second=0.0, ceiling=1.0, clock=clock)).call(
            failing(9, ConnectionResetError()), what="GET x"
        )


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("120", 120.0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 10.0),
        ("Sun, 06 Nov 1994 08:49:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("", None),
        ("1.5", None),
        ("٣", None),
    ],
)
def test_a_retry_after_header_is_seconds_or_a_date(header, seconds) -> None:
    assert retry_after_s(header, now_s=784111777.0 - 10.0) == seconds


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Transient("HTTP 503"), "HTTP 503"),
        (socket.gaierror(-2, "h: Name or service not known"), "gaierror: no address for the host's name"),
        (ConnectionRefusedError(111, "to host?token=secret"), "ConnectionRefusedError: Connection refused"),
        (OSError("url?token=secret"), "OSError"),
        (OSError(99_999, "url?token=secret"), "OSError"),
    ],
)
def test_a_reason_is_in_words_that_hold_no_credential(error, reason) -> None:
    assert reason_of(error) == reason
