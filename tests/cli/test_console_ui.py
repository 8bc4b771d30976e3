"""`mmlake ui` up to where it becomes Dagster, and what a run shows at its end."""

from __future__ import annotations

import gc
import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mmlake.cli.app import app
from mmlake.errors import LakeLocked, SettingsError
from mmlake.summary import summarize
from mmlake_assets import console, watching
from mmlake_assets.show import Shown
from tests import make
from tests.wiring.conftest import Site

ROOT = Path(__file__).parents[2]
# Becomes, in Dagster's place, a program that says how it was started and stays until its input ends.
STAND_IN = """#!{python}
import json, signal, sys
print(json.dumps([sys.argv[1:], signal.getsignal(signal.SIGINT) is signal.default_int_handler]), flush=True)
sys.stdin.read()
"""
START = "import sys; from mmlake_assets import console; sys.executable = sys.argv.pop(1); console.entry()"
# Has a child, as Dagster has, which it would leave behind; ends in order when it is asked to.
PROGRAM = """
import os, signal, subprocess, sys, time
def end(number, frame):
    print(signal.Signals(number).name, flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, end)
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
try:
    print(os.getpid(), flush=True)  # from here on it may be asked to end
    while True:
        time.sleep(0.05)
finally:
    if sys.argv[1:] != ["careless"]:
        child.kill()
        child.wait()
"""
ATTENDED = (  # a shell that was left with nohup ignores SIGHUP, and with it what is started there
    "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    "from mmlake_assets import caller_watch; caller_watch._PATIENCE_S = 1.0; "
    "sys.exit(caller_watch.become([sys.executable, '-S', *sys.argv[1:]], os.environ, held=0))"
)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    make.land(tmp_path / "lake", {"lake.json": b"{}"})
    return tmp_path / "lake"


def test_the_command_searches_for_garbage_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, before = [], gc.get_threshold()
    monkeypatch.setattr(console, "main", lambda application: seen.append(gc.get_threshold()))
    try:
        gc.set_threshold(700, 10, 10)
        console.entry()
    finally:
        gc.set_threshold(*before)
    assert seen == [console.RARELY]


def test_a_second_ui_of_a_lake_is_refused_while_the_first_one_is_dagster(lake: Path, tmp_path: Path) -> None:
    """Started as a shell starts a job in the background, which ignores Ctrl-C: Dagster then would ignore SIGTERM
    too."""
    stand_in = tmp_path / "dagster"
    stand_in.write_text(STAND_IN.format(python=sys.executable))
    stand_in.chmod(0o755)
    command = [sys.executable, "-c", START, stand_in, "ui", "--lake", lake, "--port", "3456"]
    first = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    with first:
        assert first.stdout.readline() == f"Dagster UI of {lake}: http://127.0.0.1:3456\n"
        words, can_be_stopped = json.loads(first.stdout.readline())
        with pytest.raises(
            LakeLocked,
            match=rf"^lake {lake} has a UI already, http://127\.0\.0\.1:3456 \(process {first.pid}\); open that "
            r"one, or "
            r"stop it first",
        ):
            console.ui(lake, port=3457)
    assert can_be_stopped
    assert first.returncode == 0
    assert words[words.index("--log-level") + 1] == "warning"
    assert os.fspath(ROOT) not in words


def _environment(monkeypatch: pytest.MonkeyPatch, *words: object) -> dict[str, str]:
    """What Dagster is started with."""
    given: dict[str, str] = {}

    def start(command: list[str], environment: dict[str, str], *, held: int) -> int:
        given.update(environment)
        os.close(held)
        return 0

    monkeypatch.setattr("mmlake_assets.caller_watch.become", start)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    result = CliRunner().invoke(app, ["ui", *map(str, words), "--port", "3458"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return given


def test_the_landing_zone_of_the_option_and_of_the_environment_reach_the_sensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were ignored: the sensors watched what the lake remembers."""
    make.land(tmp_path, {"one/a.txt": b"a", "two/b.txt": b"b"})
    monkeypatch.chdir(tmp_path)
    for words, said, expected in [
        (["--landing", "one"], "", str(tmp_path / "one")),
        ([], "one", str(tmp_path / "one")),
        (["--landing", "two"], "one", str(tmp_path / "two")),
        (["--landing", "a=one", "--landing", "b=two"], "", f"a={tmp_path / 'one'} b={tmp_path / 'two'}"),
    ]:
        monkeypatch.setenv("MMLAKE_LANDING", said)
        lake = tmp_path / f"lake-{len(list(tmp_path.iterdir()))}"
        assert _environment(monkeypatch, "--lake", lake, *words)["MMLAKE_LANDING"] == expected
    monkeypatch.setenv("MMLAKE_LANDING", "")
    make.land(tmp_path / "old", {"lake.json": b"{}"})
    assert _environment(monkeypatch, "--lake", tmp_path / "old")["MMLAKE_LANDING"] == ""


def test_a_landing_zone_that_cannot_be_read_is_refused_before_dagster_starts(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is not a directory"):
        CliRunner().invoke(
            app, ["ui", "--landing", str(tmp_path / "none"), "--lake", str(tmp_path / "lake")], catch_exceptions=False
        )


@contextmanager
def attended(*words: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """(the process that attends, the number of its program's). Its output ends when all processes have, since all
    hold the pipe."""
    with subprocess.Popen(
        [sys.executable, "-c", ATTENDED, "-c", PROGRAM, *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as watcher:
        yield watcher, int(watcher.stdout.readline())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a process that its parent has ended")
def test_a_program_ends_in_order_when_the_command_that_started_it_is_killed() -> None:
    with attended() as (watcher, _):
        watcher.kill()
        assert watcher.stdout.read() == "SIGTERM\n"  # and its child is gone, or the pipe would be open


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives a process its orphaned grandchildren")
def test_what_a_killed_program_leaves_is_ended_and_its_end_is_reported() -> None:
    with attended("careless") as (watcher, program):
        os.kill(program, signal.SIGKILL)
        assert watcher.stdout.read() == ""
    assert watcher.returncode == 128 + signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives a process its orphaned grandchildren")
def test_what_a_program_leaves_that_ends_in_order_is_ended() -> None:
    """Code servers outlived the UI by seconds."""
    with attended("careless") as (watcher, _):
        watcher.send_signal(signal.SIGTERM)
        assert watcher.stdout.read() == "SIGTERM\n"
    assert watcher.returncode == 3


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the command becomes the program")
@pytest.mark.parametrize(
    ("number", "output", "code"), [(signal.SIGTERM, "SIGTERM\n", 3), (signal.SIGHUP, "", 128 + signal.SIGHUP)]
)
def test_a_signal_is_passed_on_once_and_the_exit_code_is_that_of_the_program(
    number: signal.Signals, output: str, code: int
) -> None:
    with attended() as (watcher, _):
        watcher.send_signal(number)
        assert watcher.stdout.read() == output
    assert watcher.returncode == code


def shown(lake, versions: dict[str, str], *, num_waiting: int = 0) -> str:
    whole = summarize(lake)
    waiting = [replace(one, num_waiting=num_waiting) for one in whole.modalities[:1]]
    output = Shown(
        lake=lake,
        summary=replace(whole, modalities=(*waiting, *whole.modalities[1:])),
        runs=["1"],
        made=[*versions.values()],
        versions=versions,
        report=lake.root / "r.html",
        seconds=1.0,
    )
    output.draw(Console(file=(out := io.StringIO()), width=160))
    return out.getvalue()


def test_a_run_into_which_nothing_was_admitted_says_so_and_what_says_why(tmp_path: Path) -> None:
    site = Site(tmp_path, ["Too short.", "Short too."])
    versions = {"curated": site.publish("curated")}
    assert "curated-v001: 0 of 2 samples admitted; the report says why" in shown(site.lake(), versions)
    versions["everything"] = site.publish("everything")
    lines = shown(site.lake(), versions).splitlines()
    assert [line for line in lines if "admitted" in line] == [
        f"curated-v001: 0 of 2 samples admitted; `mmlake diff everything curated-v001 --lake {site.root}` says why"
    ]


def test_a_run_says_what_units_are_waiting_for(done) -> None:
    """Of a shard that is gone: the column `waiting` alone stood there, after a run that had nothing left to do."""
    said = shown(done.lake, done.versions, num_waiting=2).splitlines()
    (line,) = [line for line in said if line.startswith("waiting")]
    assert line.startswith("waiting  2 units without a verdict, of shards that left the landing zone")
    assert not any(line.startswith("waiting") for line in shown(done.lake, done.versions).splitlines())


def test_a_run_ends_with_rows_and_versions_and_leaves_the_stages_to_status(done) -> None:
    text = shown(done.lake, done.versions)
    assert "units" in text
    assert "admitted" not in text
    assert "Stages" not in text
    assert "mmlake status --lake" in text


def test_one_table_is_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    with watching.watching(False) as watch:
        watch.scanned(3)
        watch.begin("catalog", 1)
        watch.begin("text: shards", 7)
    assert capsys.readouterr().err.splitlines() == ["catalog: 1 table to make", "text: shards: 7 tables to make"]


def test_without_a_terminal_a_long_phase_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watching, "_EVERY_S", 0.01)
    steps, said = logging.getLogger("mmlake.steps"), ""
    with watching.watching(False) as watch:
        watch.begin("text: shards", 7)
        steps.info("made", extra={"slot": "items/text/a"})
        steps.debug("", extra={"slot": "embeddings/text/[a]", "num_all": 1_200})
        steps.debug("items", extra={"slot": "embeddings/text/[a]", "num_items": 64})
        for _ in range(3_000):
            if "embeddings" in said:
                break
            time.sleep(0.01)
            said += capsys.readouterr().err
    line = "text: shards: 1 of 7 tables after 0 s; embeddings/text/[a] 64 of 1,200"
    assert line in said.splitlines()
    capsys.readouterr()  # what was said before the end
    steps.info("made", extra={"slot": "items/text/b"})
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_the_files_of_a_landing_zone_are_counted_while_it_is_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    monkeypatch.setattr(watching, "messages", lambda: screen)
    with watching.watching(False) as watch:
        watch.scanned(3)
        watch.scanned(4)
        watch.begin("text: shards", 7)
    drawn = screen.file.getvalue()
    assert re.search(r"landing zone .* 7/7 ", drawn) and re.search(r"text: shards .* 7/7 ", drawn)
