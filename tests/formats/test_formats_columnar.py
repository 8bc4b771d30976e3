"""The child that reads columnar files: what ends it, hangs it or fills its memory costs that part of the file."""

from __future__ import annotations

import io
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mmlake import sources
from mmlake.errors import UnreadableItem
from mmlake.formats.columnar import process
from mmlake.formats.columnar.child_source import ColumnarLimits
from mmlake.formats.columnar.process import CHILDREN, ChildProcess
from mmlake.formats.columnar.readers import ParquetReader

LIMITS = ColumnarLimits(32 << 20, 100, 384 << 20, 4 << 30, 64 << 20)


@pytest.fixture(autouse=True)
def _no_child_is_left() -> Iterator[None]:
    CHILDREN.close()
    yield
    pids = [child.pid for child in CHILDREN.living]
    CHILDREN.close()
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def _parquet(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def _texts(file: ParquetReader, group: int) -> list[str]:
    return [text for batch in file.batches(group) for text in batch["text"].to_pylist()]


def test_a_scan_and_a_reading_of_many_files_start_one_child(tmp_path):
    for number in range(30):
        (tmp_path / f"{number}.parquet").write_bytes(_parquet(pa.table({"text": [f"t{number}"]})))
    settings, started = sources.SourceSettings(), ChildProcess.__init__
    pids = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ChildProcess, "__init__", lambda self: (started(self), pids.append(self.pid))[0])
        shards = sources.scan(tmp_path, settings=settings)
        rows = [item for shard in shards for item in sources.read(shard, landing=tmp_path, settings=settings)]
    assert (len(shards), len(rows), len(pids)) == (30, 30, 1)


def test_a_child_that_is_killed_between_two_row_groups_is_replaced(tmp_path):
    data = _parquet(pa.table({"text": [f"t{at}" for at in range(30)]}), row_group_size=10)
    with ParquetReader(lambda: io.BytesIO(data), LIMITS) as file:
        assert _texts(file, 0) == [f"t{at}" for at in range(10)]
        (child,) = [child for child in CHILDREN.living if child.is_ready]
        os.kill(child.pid, signal.SIGKILL)
        assert _texts(file, 1) == [f"t{at}" for at in range(10, 20)]


def test_a_child_that_does_not_answer_costs_its_row_group_and_the_next_one_is_read(tmp_path, monkeypatch):
    data = _parquet(pa.table({"text": ["a", "b"]}), row_group_size=1)
    with ParquetReader(lambda: io.BytesIO(data), LIMITS) as file:
        with monkeypatch.context() as patched:
            ask = ChildProcess.ask

            def ask_and_stop(self: ChildProcess, request: dict, descriptor: int | None = None) -> None:
                if request["do"] == "rows":
                    os.kill(self.pid, signal.SIGSTOP)
                    patched.setattr(process, "_DEADLINE_S", 0.05)
                else:
                    patched.setattr(process, "_DEADLINE_S", 60.0)
                ask(self, request, descriptor)

            patched.setattr(ChildProcess, "ask", ask_and_stop)
            with pytest.raises(UnreadableItem, match="took too long") as error:
                _texts(file, 0)
            assert error.value.code == 1001
        assert _texts(file, 1) == ["b"]


def test_a_flat_value_that_a_dictionary_repeats_without_end_ends_with_the_limit(tmp_path):
    """45 GB of 50 kB, of which nothing in the footer speaks: no child takes more than its limit."""
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 50_000, pa.int32()), pa.array(["x" * 900_000]))
    data = _parquet(pa.table({"text": repeated}), row_group_size=50_000, compression="zstd", store_schema=False)
    with ParquetReader(lambda: io.BytesIO(data), LIMITS) as file:
        sizes = list[int]()
        with pytest.raises(UnreadableItem) as error:
            sizes.extend(batch.num_rows for batch in file.batches(0))
        assert error.value.code == 1008 and 16 <= sum(sizes) < 75  # 64 MiB of 900 kB each
        (child,) = [child for child in CHILDREN.living if child.is_ready]
        status = Path(f"/proc/{child.pid}/status").read_text()
    assert int(status.partition("VmHWM:")[2].split()[0]) < 600 << 10


def test_of_a_remote_file_no_more_is_read_than_its_footer_and_the_group_that_is_wanted():
    rng = random.Random(1)
    data = _parquet(pa.table({"text": [rng.randbytes(1000).hex() for _ in range(4000)]}), row_group_size=1000)
    read = []

    class Counting(io.BytesIO):
        def read(self, size_bytes: int = -1) -> bytes:
            read.append(found := super().read(size_bytes))
            return found

    with ParquetReader(lambda: Counting(data), LIMITS) as file:
        assert sum(map(len, read)) < 256 << 10
        assert len(_texts(file, 2)) == 1000
    assert sum(map(len, read)) < len(data) // 2


def test_what_reading_the_file_raises_is_raised_and_no_damage():
    class Broken(io.BytesIO):
        def read(self, size_bytes: int = -1) -> bytes:
            raise ConnectionError("the storage is gone")

    with pytest.raises(ConnectionError, match="storage is gone"):
        ParquetReader(lambda: Broken(_parquet(pa.table({"text": ["a"]}))), LIMITS)
