"""Open files: as many as the system gives, and a word before the run where that is too few."""

from __future__ import annotations

import logging
import resource

import pytest

from mmlake.errors import SettingsError
from mmlake.remote import open_files


class Limits:
    """A stand-in for the system's own; endless is what macOS says and does not mean."""

    def __init__(self, soft: int, hard: int, *, most: int | None = None) -> None:
        self.both, self.most = (soft, hard), most

    def get(self, which: int) -> tuple[int, int]:
        return self.both

    def set(self, which: int, both: tuple[int, int]) -> None:
        if self.most is not None and (both[0] == resource.RLIM_INFINITY or both[0] > self.most):
            raise ValueError("current limit exceeds maximum limit")
        self.both = both


@pytest.fixture
def given(monkeypatch):
    def use(soft: int, hard: int, *, most: int | None = None) -> Limits:
        limits = Limits(soft, hard, most=most)
        monkeypatch.setattr("mmlake.remote.open_files.resource.getrlimit", limits.get)
        monkeypatch.setattr("mmlake.remote.open_files.resource.setrlimit", limits.set)
        return limits

    return use


def test_the_soft_limit_is_raised_to_the_hard_one(given, caplog) -> None:
    limits = given(256, 4096)
    found = open_files.ensure(4)
    assert (found.soft, found.hard, found.needed, limits.both) == (4096, 4096, 512, (4096, 4096))
    assert caplog.records == []


def test_a_limit_that_says_endless_and_is_not_is_raised_to_what_is_needed(given) -> None:
    given(256, resource.RLIM_INFINITY, most=10_240)
    assert open_files.ensure(8).soft == 768


def test_too_few_for_the_workers_is_reported_with_the_number_that_they_need(given, caplog) -> None:
    given(256, 1024)
    with caplog.at_level(logging.WARNING):
        open_files.ensure(32)
    assert "may open 1024 files, 32 workers may want 2304; raise it with `ulimit -n 2304`" in caplog.text
    assert "or use at most 12 workers" in caplog.text


def test_hardly_any_files_end_the_run_before_it_begins(given) -> None:
    given(64, 64)
    with pytest.raises(SettingsError, match=r"may open 64 files.*expected at least 320 for 1 workers.*ulimit -n 320"):
        open_files.ensure(1)


def test_this_machine_is_fit() -> None:
    assert open_files.ensure(1).soft >= 128
