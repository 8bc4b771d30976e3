"""The trust contract at each border: whatever goes into a stage comes out of it, once.

Every function compares the keys of two tables and raises ContractBroken with counts and examples; the wiring runs them
before a table is stamped, and the assets show them as blocking checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake.border import Failure
from mmlake.errors import ContractBroken
from mmlake.records import ADMITTED, STATUSES

_EXAMPLES = 3


def same_keys(border: str, expected: Iterable[str], actual: Iterable[str]) -> int:
    """The number of keys, which are the same on both sides. Raises ContractBroken naming what is lost or came from
    nowhere."""
    before, after = set(expected), list(actual)
    if len(after) != len(set(after)):
        repeated = sorted(key for key, times in Counter(after).items() if times > 1)
        raise ContractBroken(
            f"{border}: {len(repeated)} keys appear more than once (such as {repeated[:_EXAMPLES]}); correct the "
            "stage, its table was not written"
        )
    lost, strange = sorted(before - set(after)), sorted(set(after) - before)
    if lost or strange:
        raise ContractBroken(
            f"{border}: {len(before)} rows went in, {len(lost)} were lost (such as {lost[:_EXAMPLES]}) and "
            f"{len(strange)} came from nowhere (such as {strange[:_EXAMPLES]}); "
            "correct the stage, its table was not written"
        )
    return len(before)


def known_keys(border: str, known: Iterable[str], used: Iterable[str]) -> int:
    """The number of keys used, all of which are known. Raises ContractBroken."""
    named = set(used)  # once: it may be an iterator
    if strange := sorted(named - set(known)):
        raise ContractBroken(
            f"{border}: {len(strange)} rows name digests that the stage before does not have, such as "
            f"{strange[:_EXAMPLES]}; correct the stage"
        )
    return len(named)


def digests(table: pa.Table, column: str = "digest") -> list[str]:
    """The distinct digests of a column in order of first appearance, without nulls."""
    names: list[str] = pc.unique(pc.drop_null(table.column(column))).to_pylist()
    return names


def admitted(verdicts: pa.Table) -> list[str]:
    """The digests whose verdict lets them go on to fingerprints, embeddings and versions."""
    passed = verdicts.filter(pc.is_in(verdicts.column("status"), value_set=pa.array(ADMITTED)))
    names: list[str] = passed.column("digest").to_pylist()
    return names


def failure_columns(failures: Sequence[Failure | None]) -> dict[str, list[Any]]:
    """The columns status, error_code and error of rows that failed, or did not (None)."""
    return {
        "status": ["ok" if failure is None else "unreadable" for failure in failures],
        "error_code": [None if failure is None else failure.code for failure in failures],
        "error": [None if failure is None else failure.reason for failure in failures],
    }


def made(table: pa.Table) -> pa.Table:
    """The rows of a table of results that are one, without those that say why there is none."""
    return table.filter(pc.equal(table.column("status"), "ok"))


def failures_explained(border: str, table: pa.Table, *, key: Sequence[str] = ("digest",)) -> int:
    """The number of failed items of a table of results: each is one row with a code and a reason, and no other row has
    any. key: the columns that an item's failures may differ in. Raises ContractBroken."""
    status, code, reason = (table.column(name) for name in ("status", "error_code", "error"))
    failed = pc.equal(status, "unreadable")
    for name, column in (("error_code", code), ("error", reason)):
        if wrong := table.filter(pc.not_equal(failed, pc.is_valid(column))).num_rows:
            raise ContractBroken(
                f"{border}: {wrong} rows have an {name} although they are made, or none although they failed; correct "
                "the stage, its table was not written"
            )
    rows = table.filter(failed).group_by(list(key)).aggregate([([], "count_all")])
    repeated = rows.filter(pc.greater(rows.column("count_all"), 1))
    if twice := sorted(digests(repeated)):
        raise ContractBroken(
            f"{border}: {len(twice)} items failed in more than one row (such as {twice[:_EXAMPLES]}); correct the "
            "stage, its table was not written"
        )
    return len(digests(rows))


def counts_by_status(table: pa.Table) -> dict[str, int]:
    """Rows per status, every status named. Raises ContractBroken on a status that is not in the list."""
    counts = dict.fromkeys(STATUSES, 0)
    for entry in pc.value_counts(table.column("status")).to_pylist():
        if entry["values"] not in counts:
            raise ContractBroken(
                f"status {entry['values']!r} on {entry['counts']} rows is none of {STATUSES}; correct the stage "
                "that wrote it"
            )
        counts[entry["values"]] = entry["counts"]
    return counts
