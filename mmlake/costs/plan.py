"""Which derived artifacts to keep and which to make again when they are read.

Enters: the cost ledger and stored sizes. Leaves: per artifact, storage against recomputation per month, the break-even,
and a decision in words.
What it leaves out: the time of those who wait (seconds per read are listed next to it), and the inputs, which are taken
to be kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from mmlake.costs.prices import Prices
from mmlake.errors import SettingsError

_GB = 1e9
_PLACES = 10

PLAN = pa.schema(
    [
        pa.field(
            "artifact", pa.string(), nullable=False, metadata={"note": "modality/step, or the name given with its size"}
        ),
        pa.field("stored_bytes", pa.int64(), nullable=False),
        pa.field("reads_per_month", pa.float64(), nullable=False),
        pa.field("recompute_seconds_per_read", pa.float64(), nullable=False),
        pa.field("recompute_usd_per_read", pa.float64(), nullable=False, metadata={"note": "estimate"}),
        pa.field(
            "store_usd_per_month",
            pa.float64(),
            nullable=False,
            metadata={"note": "estimate: storage, and what reading it costs"},
        ),
        pa.field("recompute_usd_per_month", pa.float64(), nullable=False, metadata={"note": "estimate"}),
        pa.field(
            "break_even_reads_per_month",
            pa.float64(),
            metadata={"note": "storing pays above this; null where it never does"},
        ),
        pa.field("decision", pa.string(), nullable=False, metadata={"note": "precompute or recompute"}),
        pa.field("reason", pa.string(), nullable=False),
    ]
)


def precompute_plan(
    costs: pa.Table,
    table_sizes: Mapping[str, int],
    *,
    reads_per_month: float | Mapping[str, float],
    prices: Prices | None = None,
) -> pa.Table:
    """Schema PLAN, one row per artifact of the ledger (all but the total), dearest to recompute first.

    table_sizes: artifact `modality/step` -> stored bytes, where these are more than the step's table (keyframes, audio
    tracks); the table's own size otherwise.
    reads_per_month: how often each artifact is read whole; a mapping needs a key for every artifact. Raises
    SettingsError on a negative or missing number.
    """
    prices = prices or Prices()
    rows = []
    for cost in costs.to_pylist():
        artifact = f"{cost['modality']}/{cost['stage']}"
        if cost["stage"] == "total":
            continue
        reads = _reads(reads_per_month, artifact)
        rows.append(
            _row(
                artifact,
                stored_bytes=table_sizes.get(artifact, cost["table_bytes"]),
                cost=cost,
                reads=reads,
                prices=prices,
            )
        )
    if unknown := sorted(set(table_sizes) - {str(row["artifact"]) for row in rows}):
        raise SettingsError(
            f"precompute plan: {unknown} have a size but no cost; name artifacts as 'modality/step' as in the ledger"
        )
    rows.sort(key=lambda row: (-row["recompute_usd_per_month"], row["artifact"]))  # type: ignore[operator]
    return pa.Table.from_pylist(rows, schema=PLAN)


def _reads(reads_per_month: float | Mapping[str, float], artifact: str) -> float:
    reads = reads_per_month.get(artifact) if isinstance(reads_per_month, Mapping) else reads_per_month
    if reads is None or not reads >= 0:
        raise SettingsError(f"precompute plan: reads_per_month of {artifact} is {reads}; give a number of at least 0")
    return float(reads)


def _row(artifact: str, *, stored_bytes: int, cost: dict[str, Any], reads: float, prices: Prices) -> dict[str, object]:
    per_gb_read = prices.usd_per_gb_egress * prices.egress_fraction
    storage = stored_bytes / _GB * prices.usd_per_gb_month
    stored_read = stored_bytes / _GB * per_gb_read
    fresh_read = cost["cost_usd"] + cost["media_bytes"] / _GB * per_gb_read
    store, recompute = storage + reads * stored_read, reads * fresh_read
    saved = fresh_read - stored_read
    break_even = storage / saved if saved > 0 else None
    decision = "precompute" if recompute > store else "recompute"
    return {
        "artifact": artifact,
        "stored_bytes": stored_bytes,
        "reads_per_month": reads,
        "recompute_seconds_per_read": cost["seconds"],
        "recompute_usd_per_read": round(fresh_read, _PLACES),
        "store_usd_per_month": round(store, _PLACES),
        "recompute_usd_per_month": round(recompute, _PLACES),
        "break_even_reads_per_month": None if break_even is None else round(break_even, 6),
        "decision": decision,
        "reason": _words(
            decision, stored_bytes=stored_bytes, store=store, recompute=recompute, reads=reads, break_even=break_even
        ),
    }


def _words(
    decision: str, *, stored_bytes: int, store: float, recompute: float, reads: float, break_even: float | None
) -> str:
    kept = f"{_size(stored_bytes)} kept for {_usd(store)} a month"
    fresh = f"{reads:g} reads made afresh for {_usd(recompute)}"
    if break_even is None:
        return f"{kept}, {fresh}: making it again is never more expensive than reading it."
    edge = (
        f"storing pays above {break_even:,.0f} reads a month"
        if break_even >= 10
        else f"storing pays above {break_even:.2g} reads a month"
    )
    return f"{kept} against {fresh}: {edge}." if decision == "precompute" else f"{fresh} against {kept}: {edge}."


def _usd(amount: float) -> str:
    if amount >= 1 or amount == 0:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if amount >= 0.001 else f"${amount:.6f}" if amount >= 1e-6 else "less than $0.000001"


def _size(num_bytes: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if num_bytes >= scale:
            return f"{num_bytes / scale:.1f} {unit}"
    return f"{num_bytes} B"
