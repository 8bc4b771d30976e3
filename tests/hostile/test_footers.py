"""Footers of Parquet that contradict themselves: asked about their columns, pyarrow ends the process, which no test
would survive."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from mmlake.error_codes import CODES
from mmlake.errors import TableCorrupt
from mmlake.landing import as_landing
from mmlake.rows.landing_rows import landing_rows, pick_shards
from mmlake.rows.stored_rows import read_parquet_rows
from tests.hostile.memory import SETTINGS, rows_of
from tests.hostile.seeds import media, parquet


def _land(root: Path, data: bytes) -> Path:
    (root / "in").mkdir()
    (root / "in" / "a.parquet").write_bytes(data)
    return root / "in"


def test_a_histogram_of_levels_that_the_column_does_not_have_costs_its_row_group(tmp_path):
    """Nullable when the histogram was counted, required by the schema: one bit. The name in the schema stands behind
    its repetition."""
    data = parquet({"text": pa.array(["a", "b"])}, store_schema=False)
    damaged = data.replace(b"\x25\x02\x18\x04text", b"\x25\x00\x18\x04text")
    assert damaged != data
    landing = _land(tmp_path, damaged)
    assert [row["error_code"] for row in rows_of(landing)] == [1001]
    with pytest.raises(TableCorrupt):
        list(read_parquet_rows(["a.parquet"], landing=landing))


def _damaged(data: bytes, number: int) -> bytes:
    """The file with a byte of its footer changed, another one for each number."""
    footer_bytes = int.from_bytes(data[-8:-4], "little")
    rng, damaged = random.Random(number), bytearray(data)
    damaged[len(data) - 8 - 1 - rng.randrange(footer_bytes)] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def test_footers_with_a_bit_changed_end_no_process_and_sound_files_next_to_them_are_read(tmp_path):
    """150 of them in one landing zone, each next to a sound one: pyarrow aborts over about one in a hundred."""
    sound, seed = parquet({"text": ["beside"]}), parquet({"text": pa.array(["a", "b", None]), "n": [1, 2, 3]})
    landing = tmp_path / "in"
    landing.mkdir()
    for number in range(150):
        (landing / f"{number:03d}.parquet").write_bytes(_damaged(seed, number))
        (landing / f"{number:03d}s.parquet").write_bytes(sound)
    rows = rows_of(landing)
    assert [row["text_content"] for row in rows].count("beside") == 150
    files = {row["item_id"].partition("#")[0].removesuffix(".parquet") for row in rows}
    assert {f"{number:03d}" for number in range(150)} <= {name.rpartition("/")[2] for name in files}
    assert {row["error_code"] for row in rows} <= {None, *CODES}


@pytest.mark.parametrize(
    "fields",
    [
        b"\x49\x1c\x19\xfc\xff\xff\xff\xff\x0f\x00",  # more columns than bytes
        b"\x49\x15\x02\x00",  # row groups that are numbers
        b"\x1c" * 40,
        b"\x19" * 1000,
        b"\x1e\x00",
        b"",
    ],
    ids=["count", "kind", "deep", "deep lists", "unknown kind", "empty"],
)
def test_footers_that_do_not_parse_are_one_row(tmp_path, fields):
    data = b"PAR1" + bytes(500) + fields + len(fields).to_bytes(4, "little") + b"PAR1"
    assert [row["error_code"] for row in rows_of(_land(tmp_path, data))] == [1001]


def test_a_footer_that_takes_a_hundred_megabytes_is_refused_by_its_size(tmp_path):
    data = b"PAR1" + bytes(13 << 20) + (13 << 20).to_bytes(4, "little") + b"PAR1"
    assert [row["error_code"] for row in rows_of(_land(tmp_path, data))] == [1008]


def test_a_column_whose_name_is_no_text_is_damage_and_no_crash(tmp_path):
    landing = _land(
        tmp_path,
        parquet({"text": ["a"], "name": ["b"]}, store_schema=False).replace(b"\x18\x04name", b"\x18\x04\xff\xffme"),
    )
    assert [row["error_code"] for row in rows_of(landing)] == [1001]
    rows = landing_rows(
        pick_shards(as_landing(landing), None, settings=SETTINGS), landing=as_landing(landing), settings=SETTINGS
    )
    assert sum(batch.num_rows for batch in rows) == 1


def test_a_path_of_bytes_next_to_a_picture_is_kept_as_metadata(tmp_path):
    rows = rows_of(_land(tmp_path, parquet({"image": [{"bytes": media()["p.png"], "path": b"\xffa.png"}]})))
    assert [row["metadata_json"] for row in rows] == ['{"image":{"path":{"base64":"/2EucG5n"}}}']
