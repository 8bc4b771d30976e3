"""Scripts in processes of their own: what they give, and that whatever becomes of them costs one item at most."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mmlake.border import Failure
from mmlake.errors import MmlakeError
from mmlake.workers.script import Limits, Request, Script, run_script
from tests.compute import scripts

MB = 1 << 20


def script(folder: Path, text: str, **config: object) -> Script:
    return Script(
        what="diarizer 'test'", python=Path(sys.executable), path=scripts.written(folder, text), config=config
    )


def requests(names, *, duration_s: float = 1.0, **more):
    return [Request({"name": name, **more}, np.zeros(16, np.float32), duration_s) for name in names]


def of_kinds(*kinds):
    return [Request({"kind": kind}, np.zeros(16, np.float32), 1.0) for kind in kinds]


def test_sound_goes_in_and_comes_back_as_it_is(tmp_path):
    sound = np.random.default_rng(0).standard_normal(3_000_000).astype(np.float32)
    (found,) = run_script(script(tmp_path, scripts.SUMS, gain=2.0), [Request({"name": "a"}, sound, 187.5)])
    assert found.said == {"name": "a", "num": 3_000_000}
    np.testing.assert_array_equal(found.data, sound * 2)


def test_a_script_that_leaks_is_ended_and_no_result_is_lost(tmp_path):
    """The seed's 4001: the memory of a diarizer grows by batch until the system kills it, and all results are lost."""
    leaking = script(tmp_path, scripts.LEAKS, leak_bytes=60 * MB)
    found = list(run_script(leaking, requests("abcdefg"), limits=Limits(memory_bytes=200 * MB)))
    assert [one.said["name"] for one in found] == list("abcdefg")
    assert max(one.said["num_held"] for one in found) <= 3  # of 60 MB each, in 200


def test_results_are_there_before_the_process_is_ended(tmp_path):
    leaking = script(tmp_path, scripts.LEAKS, leak_bytes=MB)
    items = [*requests("ab"), *requests("c", alone_bytes=900 * MB), *requests("d")]
    found = list(run_script(leaking, items, limits=Limits(memory_bytes=200 * MB)))
    assert [one.said["name"] for one in (found[0], found[1], found[3])] == ["a", "b", "d"]
    assert isinstance(found[2], Failure) and found[2].code == 3103
    assert "diarizer 'test'" in found[2].reason


@pytest.mark.parametrize("kind, code", [("crash", 3101), ("hang", 3102), ("raise", 3101)])
def test_what_goes_wrong_over_an_item_is_its_failure_alone(tmp_path, kind, code):
    bad = script(tmp_path, scripts.BAD)
    before, failed, after = run_script(bad, of_kinds("good", kind, "good"), limits=Limits(item_s=1.5, item_s_per_s=0))
    assert before.said == {"num_done": 1}
    assert isinstance(failed, Failure) and failed.code == code
    assert after.said["num_done"] in (1, 3)  # of a new process, but where the script only raised


def test_what_libraries_print_does_not_reach_the_answers(tmp_path):
    found = list(run_script(script(tmp_path, scripts.BAD), of_kinds("noise", "noise")))
    assert [one.said for one in found] == [{"num_done": 1}, {"num_done": 2}]


def test_a_batch_of_sound_ends_the_process(tmp_path):
    sums = script(tmp_path, scripts.LEAKS, leak_bytes=0)
    found = list(run_script(sums, requests("abcde", duration_s=3_600.0), limits=Limits(batch_s=7_200.0)))
    assert [one.said["num_held"] for one in found] == [1, 2, 1, 2, 1]


def test_an_answer_larger_than_the_memory_is_none(tmp_path):
    limits = Limits(memory_bytes=7 * MB)
    (found,) = run_script(script(tmp_path, scripts.BAD), of_kinds("large"), limits=limits)
    assert isinstance(found, Failure) and found.code in (3101, 3103)


def test_a_script_that_does_not_load_says_why(tmp_path):
    with pytest.raises(MmlakeError, match="diarizer 'test' does not start .*ModuleNotFoundError.*nothing_of_that_name"):
        list(run_script(script(tmp_path, scripts.ABSENT), of_kinds("good")))


def test_a_python_that_is_not_there_says_so(tmp_path):
    gone = Script(what="diarizer 'test'", python=tmp_path / "python", path=tmp_path / "script.py")
    with pytest.raises(MmlakeError, match="does not start"):
        list(run_script(gone, of_kinds("good")))


def test_no_process_outlives_a_parent_that_is_killed(tmp_path):
    path = scripts.written(tmp_path, scripts.BAD)
    program = f"""
import sys
from pathlib import Path
import numpy as np
from mmlake.workers.script import Request, Script, run_script
script = Script(what="it", python=Path(sys.executable), path=Path({str(path)!r}))
items = [Request({{"kind": kind}}, np.zeros(4, np.float32), 1.0) for kind in ("good", "hang")]
for found in run_script(script, items):
    print(found.said, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        assert children
        parent.kill()
    end_s = time.monotonic() + 10
    while any(is_alive(child) for child in children):
        assert time.monotonic() < end_s
        time.sleep(0.02)


def is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
