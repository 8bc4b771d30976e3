"""Locks: one holder at a time, distinguished by file, free again however the holder ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mmlake import locks
from mmlake.errors import LakeLocked
from mmlake.locks import exclusive_lock, lasting_lock, shared_lock, waiting_lock

ROOT = Path(__file__).parents[2]
HOLD = (
    "import sys\nfrom pathlib import Path\nfrom mmlake.locks import exclusive_lock\nwith "
    "exclusive_lock(Path(sys.argv[1]), what='it'):\n    print('held', flush=True)\n    sys.stdin.read()\n"
)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "new" / "writer.lock"


def test_a_second_holder_learns_what_is_locked_and_what_to_do(path) -> None:
    with (
        exclusive_lock(path, what="the catalog c"),
        pytest.raises(LakeLocked, match="the catalog c is being written by another process; wait for it to end"),
        exclusive_lock(path, what="the catalog c"),
    ):
        pass


def test_the_lock_can_be_taken_again(path) -> None:
    for _ in range(3):
        with exclusive_lock(path, what="it"):
            assert path.exists()


def test_a_failure_frees_the_lock(path) -> None:
    with pytest.raises(ZeroDivisionError), exclusive_lock(path, what="it"):
        raise ZeroDivisionError
    with exclusive_lock(path, what="it"):
        pass


def test_other_files_are_other_locks(path) -> None:
    with exclusive_lock(path, what="it"), exclusive_lock(path.with_name("other.lock"), what="the other"):
        pass


def test_a_killed_holder_leaves_the_lock_free(path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LakeLocked), exclusive_lock(path, what="it"):
            pass
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    with exclusive_lock(path, what="it"):
        pass


def test_a_lock_that_lasts_goes_along_into_another_program_and_says_who_holds_it(path) -> None:
    descriptor = lasting_lock(path, taken=str, note="the first one")
    assert os.get_inheritable(descriptor)
    with pytest.raises(LakeLocked, match=r"^taken by the first one$"):
        lasting_lock(path, taken=lambda note: f"taken by {note}", note="the second one")
    os.close(descriptor)
    os.close(lasting_lock(path, taken=str, note="3rd"))
    assert path.read_text() == "3rd"


@pytest.mark.parametrize("waits", [waiting_lock, shared_lock])
def test_who_waits_says_for_what_and_for_whom(path, waits, monkeypatch) -> None:
    monkeypatch.setattr(locks, "_SAID_AFTER_S", 0.01)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    said: list[str] = []

    def note(form: str, *words: object) -> None:
        said.append(form % words)
        holder.stdin.close()  # which ends it

    monkeypatch.setattr(locks._log, "warning", note)
    with holder:
        assert holder.stdout.readline() == "held\n"
        with waits(path):
            [line] = said
    command = f"{Path(sys.executable).name} -c"
    assert line == f"waiting for {path}, which process {holder.pid} ({command}) holds; this goes on by itself"


def test_who_does_not_wait_says_nothing(path, caplog) -> None:
    with waiting_lock(path), waiting_lock(path.with_name("other.lock")):
        assert not caplog.messages
