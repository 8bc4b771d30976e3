"""Lance in a process of its own: damage that ends it costs the rows that are damaged, and no process is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from mmlake import sources
from mmlake.errors import MissingExtra, UnreadableItem
from mmlake.formats.columnar import process
from mmlake.formats.columnar.process import CHILDREN, ChildProcess
from mmlake.formats.columnar.readers import LanceReader
from mmlake.records import SourceRef
from tests.hostile.memory import rows_of
from tests.sources.source_builders import SETTINGS

lance = pytest.importorskip("lance")
WORDS = ["one", "two", "three"]
ONE_ROW_AT_A_TIME = sources.SourceSettings(batch_bytes=1)
READER = """
import sys
from mmlake import sources
from mmlake.formats.columnar.process import CHILDREN
settings = sources.SourceSettings()
(shard,) = sources.scan(sys.argv[1], settings=settings)
"""


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    pids = [child.pid for child in CHILDREN.living]
    CHILDREN.close()
    assert [pid for pid in pids if is_there(pid)] == []


def is_there(pid: int) -> bool:
    """Whether the process lives, or is dead and nobody has asked how it ended."""
    return Path(f"/proc/{pid}").exists()


def wait_until_gone(pid: int) -> None:
    """Returns when the process has ended; another parent than this test asks how."""
    deadline = time.monotonic() + 10
    while is_there(pid) and (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def write(root: Path, *, rows_per_file: int = 2, name: str = "x.lance", version: str = "2.0") -> Path:
    """Three texts in fragments of so many."""
    root.mkdir(exist_ok=True)
    lance.write_dataset(
        pa.table({"id": ["a", "b", "c"], "text": WORDS}),
        str(root / name),
        max_rows_per_file=rows_per_file,
        data_storage_version=version,
    )
    return root


def damage(root: Path, fragment: int, change) -> None:
    path = root / "x.lance" / "data" / lance.dataset(str(root / "x.lance")).get_fragment(fragment).data_files()[0].path
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def a_count_that_asks_for_gigabytes(data: bytearray) -> None:
    """One bit of the footer: 268 million columns more. Found by trying 1087 of the file's 5264 bits, in the order of
    `random.Random(5)`; 12 ended the process."""
    data[-13] ^= 1 << 4


def a_zero_in_the_name_of_an_encoding(data: bytearray) -> None:
    """Lance's message then has it too, which the interface between Rust and C cannot carry."""
    data[data.index(b"/lance.encodings.ColumnEncoding") + 7] = 0


def brief(rows: list[dict]) -> list[tuple]:
    return [(row["text_content"], row["error_code"], row["materialize_error"]) for row in rows]


@pytest.mark.parametrize("change", [a_count_that_asks_for_gigabytes, a_zero_in_the_name_of_an_encoding])
def test_damage_that_ends_the_process_is_a_row_and_the_other_fragment_is_read(tmp_path, capfd, change):
    root = write(tmp_path / "in")
    damage(root, 0, change)
    rows = rows_of(root)
    reason = "fragment 0: rows 1 to 2 cannot be read (num_rows=2): the process that reads Lance did not survive them"
    assert sorted(brief(rows), key=str) == [("three", None, None), (None, 1001, reason)]
    assert rows_of(root) == rows
    assert capfd.readouterr() == ("", "")


def test_an_item_whose_fragment_ends_the_process_is_gone_and_the_next_one_is_fetched(tmp_path):
    root = write(tmp_path / "in")
    damage(root, 0, a_zero_in_the_name_of_an_encoding)
    with pytest.raises(UnreadableItem, match="row 1 of version 1 cannot be read"):
        sources.fetch(SourceRef(path="x.lance", member="version:1/row:1/text"), landing=root)
    assert sources.fetch(SourceRef(path="x.lance", member="version:1/row:3/text"), landing=root) == b"three"


def killed(monkeypatch, *, offset: int, times: int) -> list[int]:
    """The processes that are killed over the rows at that offset, as the kernel does when memory runs out."""
    ask, pids = ChildProcess.ask, []

    def ask_and_kill(self: ChildProcess, request: dict, descriptor: int | None = None) -> None:
        if request.get("offset") == offset and len(pids) < times:
            pids.append(self.pid)
            os.kill(self.pid, signal.SIGKILL)
        ask(self, request, descriptor)

    monkeypatch.setattr(ChildProcess, "ask", ask_and_kill)
    return pids


def test_a_process_that_somebody_kills_is_replaced_and_no_row_is_missing(tmp_path, monkeypatch):
    root = write(tmp_path / "in", rows_per_file=3)
    pids = killed(monkeypatch, offset=1, times=1)
    assert brief(rows_of(root, settings=ONE_ROW_AT_A_TIME)) == [(word, None, None) for word in WORDS]
    assert len(pids) == 1


def test_rows_whose_process_is_killed_every_time_are_reported_and_those_around_them_are_read(tmp_path, monkeypatch):
    root = write(tmp_path / "in", rows_per_file=3)
    killed(monkeypatch, offset=1, times=2)
    reason = "fragment 0: rows 2 to 2 cannot be read (num_rows=1): the process that reads Lance did not survive them"
    assert brief(rows_of(root, settings=ONE_ROW_AT_A_TIME)) == [
        ("one", None, None),
        ("three", None, None),
        (None, 1001, reason),
    ]


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1"])
def test_the_rows_are_those_that_the_library_reads(tmp_path, version):
    """More than one request per fragment, several fragments, and deleted rows in them."""
    table = pa.table(
        {
            "id": [f"n{at}" for at in range(5000)],
            "text": [f"text {at}" for at in range(5000)],
            "number": list(range(5000)),
        }
    )
    (tmp_path / "in").mkdir()
    dataset = lance.write_dataset(
        table, str(tmp_path / "in" / "x.lance"), max_rows_per_file=2048, data_storage_version=version
    )
    dataset.delete("number % 7 = 3 or (number > 900 and number < 1300)")
    expected = (
        lance.dataset(str(tmp_path / "in" / "x.lance")).to_table(with_row_id=True, with_row_address=True).to_pylist()
    )
    (shard,) = sources.scan(tmp_path / "in", settings=SETTINGS)
    found = list(sources.read(shard, landing=tmp_path / "in", settings=SETTINGS))
    assert [
        (
            item.sample_id,
            item.content.read().decode(),
            item.metadata["number"],
            item.metadata["lance"]["row_id"],
            item.metadata["lance"]["row_address"],
            item.ref.member,
        )
        for item in found
    ] == [
        (f"x.lance/{row['id']}", row["text"], row["number"], row["_rowid"], row["_rowaddr"], f"version:2/row:{at}/text")
        for at, row in enumerate(expected, 1)
    ]


@pytest.mark.parametrize("stated", [1, 2, 4, 1 << 40, 1 << 70])
def test_a_manifest_that_states_another_number_of_rows_is_a_row_next_to_those_that_are_there(
    tmp_path, monkeypatch, stated
):
    root = write(tmp_path / "in", rows_per_file=3)
    monkeypatch.setattr(LanceReader, "count", lambda self, fragment: (stated, stated))
    rows = brief(rows_of(root))
    assert [text for text, _, _ in rows if text] == WORDS[:stated]
    assert [code for text, code, _ in rows if not text] == [1001]


def test_one_process_reads_one_dataset_after_another(tmp_path):
    for name in ("x.lance", "y.lance"):
        write(tmp_path / "in", name=name)
    assert len(rows_of(tmp_path / "in")) == 6
    assert len(CHILDREN.idle) == 1 == len([child for child in CHILDREN.living if child.is_ready])


def test_the_process_does_without_pandas(tmp_path):
    """Which pyarrow and Lance import to recognize frames, a quarter of a second in each process."""
    assert len(rows_of(write(tmp_path / "in"))) == 3
    (child,) = CHILDREN.idle
    loaded = Path(f"/proc/{child.pid}/maps").read_text()
    assert "/lance/" in loaded and "/pandas/" not in loaded


def test_a_process_that_nobody_needs_is_ended(tmp_path, monkeypatch):
    CHILDREN.close()
    monkeypatch.setattr(process, "_IDLE_S", 0.01)
    sources.scan(write(tmp_path / "in"), settings=SETTINGS)
    for child in CHILDREN.living:
        wait_until_gone(child.pid)
    assert CHILDREN.idle == []


@pytest.mark.parametrize(
    "stop",
    [lambda items: items.close(), lambda items: pytest.raises(KeyboardInterrupt, items.throw, KeyboardInterrupt())],
)
def test_a_reading_that_is_given_up_ends_its_process(tmp_path, stop):
    root = write(tmp_path / "in", rows_per_file=3)
    (shard,) = sources.scan(root, settings=ONE_ROW_AT_A_TIME)
    items = sources.read(shard, landing=root, settings=ONE_ROW_AT_A_TIME)
    next(items)
    (pid,) = [child.pid for child in CHILDREN.living if is_there(child.pid)]
    stop(items)
    assert not is_there(pid)


def start(code: str, root: Path) -> subprocess.Popen:
    # a pipe to wait at: where tests have no input, one that waits for a line would end at once
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", READER + code, str(root)], text=True, **pipes)


def test_a_process_ends_with_the_one_that_it_reads_for_though_that_is_killed(tmp_path):
    with start("print(CHILDREN.idle[0].pid, flush=True); input()", write(tmp_path / "in")) as reader:
        pid = int(reader.stdout.readline())
        assert is_there(pid)
        reader.kill()
        wait_until_gone(pid)


def test_a_fork_has_processes_of_its_own(tmp_path):
    code = """
import os
print(CHILDREN.idle[0].pid, flush=True)
if (child := os.fork()) == 0:
    print(len(CHILDREN.idle), len(sources.scan(sys.argv[1], settings=settings)), flush=True)
    CHILDREN.close()
    os._exit(0)
os.waitpid(child, 0)
sources.scan(sys.argv[1], settings=settings)
print(CHILDREN.idle[0].pid)
"""
    with start(code, write(tmp_path / "in")) as reader:
        before, inside, after = reader.stdout.read().splitlines()
    assert (inside, after) == ("0 1", before)


def test_a_reader_does_not_load_lance_itself(tmp_path):
    with start(
        "print('lance' in sys.modules, len(list(sources.read(shard, landing=sys.argv[1], settings=settings))))",
        write(tmp_path / "in"),
    ) as reader:
        assert reader.stdout.read() == "False 3\n"


def test_an_interrupt_at_the_terminal_is_not_damage(tmp_path):
    root = write(tmp_path / "in")
    sources.scan(root, settings=SETTINGS)
    (child,) = CHILDREN.idle
    assert os.getpgid(child.pid) != os.getpgid(0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(child.pid, number)
    assert [row["status"] for row in rows_of(root)] == ["ok"] * 3 and child.is_ready


def test_a_missing_library_is_reported_with_its_remedy(tmp_path, monkeypatch):
    root = write(tmp_path / "in")
    monkeypatch.setattr(process, "_PROGRAM", f"import os; os._exit({process.ABSENT})")
    monkeypatch.setitem(sys.modules, "lance", None)
    with pytest.raises(MissingExtra, match="mmlake\\[lance\\]"):
        sources.scan(root, settings=SETTINGS)
