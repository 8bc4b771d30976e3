"""Hashes of rows: a database that is asked when first needed, and let go of before the interpreter ends."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa

from mmlake.engine.hashing import RowHashes, row_hashes

ROWS = pa.table({"digest": ["a", "b"], "words": [["one", "two"], None]})


def test_a_database_that_was_closed_starts_again_and_hashes_the_same():
    hashes = RowHashes()
    before = hashes.of(ROWS)
    hashes.close()
    hashes.close()
    assert hashes.of(ROWS) == before
    hashes.close()


def test_there_is_one_for_a_process_and_nothing_of_it_is_left_at_its_end():
    assert row_hashes() is row_hashes()
    code = (
        "import atexit, pyarrow as pa\n"
        "from mmlake.engine import hashing\n"
        "atexit.register(lambda: print(made._database))\n"
        "made = hashing.row_hashes()\n"
        "made.of(pa.table({'a': [1]}))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["None"]
