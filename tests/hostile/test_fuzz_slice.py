"""A slice of the fuzz run on every commit; `python -m tests.hostile.fuzz --inputs 20000` is the whole of it."""

from __future__ import annotations

import io
import json
import random
import shutil
import tarfile

import pyarrow as pa
import pytest

from tests.hostile import oracle
from tests.hostile.fuzz import fuzz
from tests.hostile.memory import rows_of
from tests.hostile.mutations import GENERAL, mutated
from tests.hostile.seeds import seeds
from tests.thorough import drawn


def test_mutated_shards_are_read_without_a_crash_a_hang_or_a_loss():
    """No exception but a documented one, under 10 s and 512 MiB each, two reads equal, every row valid, every member
    accounted for."""
    num = drawn(150, 1000)
    tally = fuzz(range(num), seed=7, workers=2)
    assert (tally.num_inputs, tally.violations) == (num, [])
    # the mutations reach what they are for
    assert (
        len(tally.codes) >= 6
        and min(tally.formats[name] for name in ("webdataset", "parquet", "jsonl", "folder")) > num // 25
    )


def test_an_input_is_the_same_every_time():
    assert [mutated(number, 3)[:2] for number in range(40)] == [mutated(number, 3)[:2] for number in range(40)]


def test_the_oracle_sees_a_lost_member_and_a_lost_line():
    """A judge that never condemns proves nothing."""
    seed = next(seed for seed in seeds() if seed.name == "u.tar")
    with tarfile.open(fileobj=io.BytesIO(seed.data)) as archive:
        names = archive.getnames()
    shown = [
        {
            "digest": None,
            "error_code": None,
            "sample_id": "u.tar/x",
            "source_ref": json.dumps({"path": "u.tar", "member": name}),
        }
        for name in names
    ]
    assert oracle.lost(seed.data, "webdataset", shown) == []
    assert len(oracle.lost(seed.data, "webdataset", shown[1:])) == 1
    line = [{"digest": None, "error_code": None, "sample_id": "l/1", "source_ref": '{"path":"l","member":"line:1"}'}]
    assert oracle.lost(b'{"text":"a"}\n{"text":"b"}\n', "jsonl", line) == ["line 2 of 12 bytes gave no row"]
    assert oracle.lost(b"something", "folder", []) == ["9 bytes of format folder gave no row"]


def test_mutated_files_of_a_lance_dataset_give_rows_or_say_why(tmp_path):
    """Apart from the numbered inputs, since Lance gives its files random names. It keeps no checksums: wrong
    content can pass, a crash cannot."""
    lance = pytest.importorskip("lance")
    dataset, rng = tmp_path / "sound" / "d.lance", random.Random(1)
    lance.write_dataset(
        pa.table({"id": ["a", "b", "c"], "text": ["one", "two", "three"]}), dataset, max_rows_per_file=2
    )
    files = sorted(path for path in dataset.rglob("*") if path.is_file())
    for number in range(drawn(12, 60)):
        landing = tmp_path / f"in{number}"
        shutil.copytree(dataset, landing / "d.lance")
        chosen = landing / "d.lance" / rng.choice(files).relative_to(dataset)
        chosen.write_bytes(rng.choice(GENERAL)(chosen.read_bytes(), rng))
        rows = rows_of(landing)
        assert rows and not [
            wrong
            for key in {row["item_id"].partition("#")[0] for row in rows}
            for wrong in oracle.row_faults([row for row in rows if row["item_id"].startswith(f"{key}#")], key)
        ]
