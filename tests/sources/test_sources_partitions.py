"""What the names of partitions say is said of each record below them, whatever files they lie in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from mmlake import sources
from mmlake.sources.shard import partition_fields
from tests import make

_SETTINGS = sources.SourceSettings()
HIVE = ds.partitioning(pa.schema([("lang", pa.string()), ("year", pa.int64())]), flavor="hive")


def found(landing: Path) -> list[dict[str, Any]]:
    """What is said of each item, with the source that it is of."""
    said = []
    for shard in sources.scan(landing, settings=_SETTINGS):
        begun: list[sources.Reading] = []
        for item in sources.read(shard, landing=landing, settings=_SETTINGS, begin=begun.append):
            assert item.fault is None
            said.append({**item.metadata, "source": begun[-1].defaults.source})
    return said


@pytest.mark.parametrize("form", ["parquet", "feather", "csv"])
def test_a_partitioned_table_has_the_columns_that_its_directories_stand_for(tmp_path: Path, form: str) -> None:
    of_rows = [("en", 2023), ("de uk/at", 2023), ("de uk/at", -4)]
    rows = [
        {"id": f"d{at}", "text": f"The ferry {at} leaves.", "lang": lang, "year": year}
        for at, (lang, year) in enumerate(of_rows)
    ]
    ds.write_dataset(pa.Table.from_pylist(rows), tmp_path / "talks", format=form, partitioning=HIVE)
    expected = [
        {"id": f"d{at}", "lang": lang, "year": year, "source": "talks"} for at, (lang, year) in enumerate(of_rows)
    ]
    assert sorted(found(tmp_path), key=lambda said: said["id"]) == expected


def test_a_record_goes_before_its_partition_and_a_partition_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "lang=en" / "year=__HIVE_DEFAULT_PARTITION__").mkdir(parents=True)
    table = pa.table({"text": ["The ferry leaves.", "It is late."], "lang": ["fr", "de"]})
    pq.write_table(table, tmp_path / "lang=en" / "year=__HIVE_DEFAULT_PARTITION__" / "part=0.parquet")
    assert found(tmp_path) == [{"lang": "fr", "source": "root"}, {"lang": "de", "source": "root"}]


def test_loose_files_have_it_too(tmp_path: Path) -> None:
    (tmp_path / "birds" / "label=owl").mkdir(parents=True)
    (tmp_path / "birds" / "label=owl" / "a.jpg").write_bytes(make.picture(1, kind="JPEG"))
    (tmp_path / "birds" / "label=owl" / "split=b.txt").write_text("An owl sleeps.")
    assert found(tmp_path) == [{"label": "owl", "source": "birds"}] * 2


@pytest.mark.parametrize(
    ("directory", "fields"),
    [
        (".", {}),
        ("a/b", {}),
        ("=b/1=c", {}),
        ("a=/b==c", {"a": "", "b": "=c"}),
        ("n=007/m=0/k=-12/l=9999999999999999999", {"n": "007", "m": 0, "k": -12, "l": "9999999999999999999"}),
        ("a%20b=1%2F2/day=2024-01-01", {"a b": "1/2", "day": "2024-01-01"}),
    ],
)
def test_what_a_path_says(directory: str, fields: dict[str, Any]) -> None:
    assert partition_fields(directory) == fields
