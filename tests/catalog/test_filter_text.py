"""The text of a filter cannot widen another filter, call what reads files or fills memory, or end the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mmlake.catalog.condition import objection

WIDENING = ["1=1) OR (1=1", "1=1)) OR ((1=1", "n=1) OR (1=1 -- ", "n=1 /* ) */ OR (1=1", "1=1; drop", "[1) = (1]"]
CALLS = [
    "repeat('a', 2000000000) = ''",
    "\"repeat\"('a', 9) = ''",
    "`repeat`('a', 9) = ''",
    "read_csv('/etc/passwd') = 1",
]
DEEP = [
    "n=" + "+".join(["1"] * 9000),
    "cast(" * 1500 + "1" + " as int)" * 1500 + "=1",
    "(" * 9000 + "1=1" + ")" * 9000,
    "NOT " * 4900 + "true",
    "digest = '" + "x" * 5_000_000 + "'",
]
SOUND = [
    "status = 'ok' AND snr_db > 10",
    "metadata.`page no.` >= 3 OR metadata.label IN ('it''s) OR (1=1', 'b')",
    "(lower(text) LIKE '%a%') AND NOT (n BETWEEN -1 AND 2.5e3)",
    "cast(n as double) / 2 <> 1 AND text IS NOT NULL",
    "digest IN (" + ", ".join(f"'{at:064x}'" for at in range(250)) + ")",
]


@pytest.mark.parametrize("text", [*WIDENING, *CALLS, *DEEP], ids=lambda text: text[:20])
def test_what_no_condition_has_is_refused(text: str) -> None:
    assert objection(text) is not None


@pytest.mark.parametrize("text", SOUND, ids=lambda text: text[:20])
def test_conditions_are_not(text: str) -> None:
    assert objection(text) is None


# the deepest texts that are let through, and patterns and casts that fail on the rows
EVALUATED = """
import sys, lancedb, pyarrow as pa
from mmlake.catalog.search import Query, run
from mmlake.errors import SettingsError
from mmlake.catalog.join import CATALOG_SCHEMA
table = lancedb.connect(sys.argv[1]).create_table("t", CATALOG_SCHEMA.empty_table())
table.add(pa.table({"digest": ["a"] * 3, "modality": ["image", "text", "audio"], "size_bytes": [1, 2, 3]}))
for where in (
    "size_bytes=" + "+".join(["1"] * 499),
    "NOT " * 400 + "true",
    "(" * 31 + "1=1" + ")" * 31,
    " AND ".join(["size_bytes=1"] * 250),
    "cast(" * 31 + "1" + " as int)" * 31 + "=1",
    "regexp_like(digest, '(a|b)*{1000}{1000}')",
    "regexp_like(digest, '(')",
    "1=1) OR (1=1",
):
    query = Query(text=None, vector=None, encoder=None, where=where, modality="image", limit=9, depth=9)
    try:
        assert run(table, query).num_rows <= 1
    except SettingsError as error:
        assert "filter" in str(error)
print("all answered")
"""


def test_the_deepest_filters_are_answered_and_no_filter_leaves_its_modality(tmp_path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", EVALUATED, str(tmp_path / "db")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert (run.returncode, run.stdout) == (0, "all answered\n"), run.stderr[-2000:]
