"""The cost ledger: seconds and bytes from the stamps, and what they would cost.

Enters: stamps by slot. Leaves: one row per step and modality. Seconds and bytes are measured; dollars follow from
`Prices` and are estimates.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa

from mmlake.costs.prices import Prices
from mmlake.tables import Slot, Stamp

# data order; other names follow in alphabetical order
_ORDER = (
    "items",
    "blobs",
    "tracks",
    "alignments",
    "speakers",
    "units",
    "captions",
    "measures",
    "verdicts",
    "fingerprints",
    "near_duplicates",
    "embeddings",
    "component_fingerprints",
    "semantic_duplicates",
    "duplicate_clusters",
    "contamination",
    "cross_pairs",
    "caption_scores",
)
_PLACES = 10  # decimals of a dollar figure: a millionth of a cent

COSTS = pa.schema(
    [
        pa.field("stage", pa.string(), nullable=False, metadata={"note": "the step's table; 'total' in the last row"}),
        pa.field("modality", pa.string(), nullable=False),
        pa.field("num_partitions", pa.int64(), nullable=False),
        pa.field(
            "num_items",
            pa.int64(),
            nullable=False,
            metadata={"note": "rows accounted for; of the first step in the total row"},
        ),
        pa.field("seconds", pa.float64(), nullable=False, metadata={"note": "wall, summed over partitions"}),
        pa.field("cpu_seconds", pa.float64(), nullable=False),
        pa.field(
            "gpu_seconds",
            pa.float64(),
            nullable=False,
            metadata={"note": "wall seconds of the partitions that held a GPU"},
        ),
        pa.field("media_bytes", pa.int64(), nullable=False, metadata={"note": "bytes of media read"}),
        pa.field("table_bytes", pa.int64(), nullable=False, metadata={"note": "bytes of the step's tables as stored"}),
        pa.field("items_per_s", pa.float64(), metadata={"note": "null where no time was measured"}),
        pa.field(
            "cost_usd",
            pa.float64(),
            nullable=False,
            metadata={"note": "estimate: CPU and GPU time at the assumed prices"},
        ),
        pa.field("usd_per_1000_items", pa.float64(), metadata={"note": "estimate; null without items"}),
    ]
)


@dataclass(slots=True)
class _Sum:
    partitions: int = 0
    items: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    gpu_seconds: float = 0.0
    media_bytes: int = 0
    table_bytes: int = 0

    def add(self, stamp: Stamp, *, on_gpu: bool) -> None:
        self.partitions += 1
        self.items += stamp.counts.get("accounted", stamp.num_rows)
        self.seconds += stamp.seconds
        self.cpu_seconds += stamp.cpu_seconds
        self.gpu_seconds += stamp.seconds if on_gpu else 0.0
        self.media_bytes += stamp.media_bytes
        self.table_bytes += stamp.size_bytes

    def row(self, stage: str, modality: str, *, prices: Prices) -> dict[str, object]:
        cost = (self.cpu_seconds * prices.usd_per_cpu_hour + self.gpu_seconds * prices.usd_per_gpu_hour) / 3600
        return {
            "stage": stage,
            "modality": modality,
            "num_partitions": self.partitions,
            "num_items": self.items,
            "seconds": round(self.seconds, 4),
            "cpu_seconds": round(self.cpu_seconds, 4),
            "gpu_seconds": round(self.gpu_seconds, 4),
            "media_bytes": self.media_bytes,
            "table_bytes": self.table_bytes,
            "items_per_s": round(self.items / self.seconds, 3) if self.seconds else None,
            "cost_usd": round(cost, _PLACES),
            "usd_per_1000_items": round(1000 * cost / self.items, _PLACES) if self.items else None,
        }


def stage_costs(
    stamps: Mapping[str, Stamp] | Mapping[Slot, Stamp],
    *,
    prices: Prices | None = None,
    gpu_stages: Collection[str] = (),
) -> pa.Table:
    """Schema COSTS: a row per step and modality in data order, then ("total", "all").

    stamps: slot, or its text `modality/table[shard]`, -> stamp. gpu_stages: steps that held a GPU when they ran; their
    wall time is charged at the GPU's price on top of their CPU time. Raises SettingsError on a text that is no slot.
    """
    prices = prices or Prices()
    sums: dict[tuple[str, str], _Sum] = {}
    total = _Sum()
    for text, stamp in sorted(((str(slot), stamp) for slot, stamp in stamps.items()), key=lambda pair: pair[0]):
        slot = Slot.parse(text)
        on_gpu = slot.table in gpu_stages or stamp.device.startswith("cuda")
        sums.setdefault((slot.table, slot.modality), _Sum()).add(stamp, on_gpu=on_gpu)
        total.add(stamp, on_gpu=on_gpu)
    ordered = sorted(sums, key=lambda key: (_ORDER.index(key[0]) if key[0] in _ORDER else len(_ORDER), key))
    rows = [sums[key].row(*key, prices=prices) for key in ordered]
    if rows:
        first = ordered[0][0]
        total.items = sum(sums[key].items for key in ordered if key[0] == first)
        rows.append(total.row("total", "all", prices=prices))
    return pa.Table.from_pylist(rows, schema=COSTS)
