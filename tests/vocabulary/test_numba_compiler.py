"""Functions that are compiled once, however many want them at once."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from mmlake import numba_compiler


def function() -> None:
    """Whatever is compiled."""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module whose folder is the test's."""
    monkeypatch.setitem(
        numba_compiler.sys.modules, "some.module", SimpleNamespace(__file__=str(tmp_path / "module.py"))
    )
    return "some.module"


def test_two_that_want_a_function_at_once_compile_it_one_after_the_other(module: str) -> None:
    both = threading.Barrier(2)
    met: list[bool] = []

    def compile_it() -> None:
        with numba_compiler.alone(module):
            try:
                both.wait(timeout=0.2)
                met.append(True)
            except threading.BrokenBarrierError:
                met.append(False)

    threads = [threading.Thread(target=compile_it) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(timeout=20)
    assert met == [False, False]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_the_turn_of_a_process_that_ended_in_it_is_free(module: str) -> None:
    if (child := os.fork()) == 0:
        with numba_compiler.alone(module):
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    with numba_compiler.alone(module):
        pass


@pytest.mark.parametrize("lost", ["folder", "file", "module"])
def test_where_there_is_no_place_for_a_lock_each_compiles(
    module: str, lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lost == "folder":
        (tmp_path / "__pycache__").touch()
    if lost == "file":
        monkeypatch.setitem(numba_compiler.sys.modules, module, SimpleNamespace(__file__=None))
    if lost == "module":
        monkeypatch.delitem(numba_compiler.sys.modules, module)
    monkeypatch.setattr(function, "__module__", module)
    numba = SimpleNamespace(njit=lambda *_, **options: lambda given: (given, sorted(options)))
    assert numba_compiler.made(numba, None, function) == (function, ["cache", "nogil"])
