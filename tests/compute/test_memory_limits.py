"""The one limit of memory of processes that read foreign bytes."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import mmap, sys
from mmlake.memory_limits import limit_memory

def is_given(size_bytes):
    try:
        mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (MemoryError, OSError):
        return False
    return True

limit_memory(64 << 20, is_final=sys.argv[1] == "final")
print(is_given(32 << 20), is_given(256 << 20))
limit_memory(512 << 20)
print(is_given(256 << 20))
"""


@pytest.mark.parametrize(("which", "is_raised"), [("final", "False"), ("again", "True")])
def test_a_process_gets_no_more_than_its_limit_which_is_final_or_is_set_again(which: str, is_raised: str) -> None:
    """A worker has one limit; a process that reads columnar files a new one with each request."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM, which], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", is_raised]
