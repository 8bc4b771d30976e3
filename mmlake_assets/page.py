"""What an asset's page in the UI shows: counts that add up, seconds and bytes, a bar drawn in place, the columns
with their notes."""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mmlake.lake import Lake
from mmlake.records import STATUSES
from mmlake.schemas.table import TableSchema
from mmlake.steps import Made, Step
from mmlake.summary import sources_of
from mmlake.tables import Stamp
from mmlake_assets.column_notes import note_of

_COLOURS = {"ok": "#2f9e6e", "flagged": "#e0a930", "quarantined": "#d9622b", "unreadable": "#9b2c3f"}
_BAR_WIDTH_PX = 240
_NUM_BARS, _BAR_PX, _BARS_PX = 24, 10, 44  # of a histogram: how many, how wide, and how tall at most


def column_schema(schema: TableSchema) -> dg.TableSchema:
    """The table's columns for the UI, each with its note."""
    return dg.TableSchema(columns=columns_of(schema.arrow, key=schema.key))


def columns_of(schema: pa.Schema, *, key: tuple[str, ...] = ()) -> list[dg.TableColumn]:
    """The columns, each with its note. key: names of the columns by which rows differ."""
    columns = []
    for field in schema:
        note = (field.metadata or {}).get(b"note", b"").decode() or note_of(field.name)
        constraints = dg.TableColumnConstraints(nullable=field.nullable, unique=key == (field.name,))
        columns.append(dg.TableColumn(field.name, str(field.type), description=note, constraints=constraints))
    return columns


def line(made: Made) -> str:
    """One log line per partition."""
    counts = ", ".join(f"{name} {made.stamp.counts[name]}" for name in STATUSES if made.stamp.counts.get(name))
    stands = f", {made.num_taken_over} of them taken over" if made.num_taken_over else ""
    return (
        f"{made.slot}: {made.stamp.num_rows} rows{f' ({counts})' if counts else ''}{stands} in "
        f"{made.stamp.seconds:.2f} s{' in all' if stands else ''}{', unchanged' if made.reused else ''}"
    )


def num_rows(step: Step, modality: str, lake: Lake) -> int:
    """The rows of all shards. The asset's page shows what its latest event has as `dagster/row_count`."""
    return sum(stamp.num_rows for stamp in lake.tables.stamps(step.name, modality).values())


def row_metadata(made: Made, *, num_rows: int | None) -> dict[str, Any]:
    """The metadata of one partition's event. num_rows: of the asset, where that is known."""
    stamp = made.stamp
    metadata: dict[str, Any] = {
        "dagster/partition_row_count": stamp.num_rows,
        "seconds": stamp.seconds,
        "cpu_seconds": stamp.cpu_seconds,
        "table_bytes": stamp.size_bytes,
        "media_bytes": stamp.media_bytes,
        "reused": made.reused,
        "rows_taken_over": made.num_taken_over,
        "settings_digest": stamp.settings_digest,
    }
    if num_rows is not None:
        metadata["dagster/row_count"] = num_rows
    metadata |= {name: stamp.counts[name] for name in STATUSES if name in stamp.counts}
    if any(stamp.counts.get(name) for name in STATUSES):
        metadata["statuses"] = dg.MetadataValue.md(status_bar(stamp.counts))
    return metadata


def usable_metadata(made: Made, lake: Lake) -> dict[str, Any]:
    """Of verdicts, what share of the partition's units a version can use, and a line per source with why not more."""
    if made.slot.table != "verdicts":
        return {}
    found = sources_of(lake, made.slot.modality, made.slot.shard)
    num = sum(one.num_units for one in found)
    if not num:
        return {}
    records = [
        dg.TableRecord(
            {
                "source": one.source,
                "units": one.num_units,
                "usable": one.usable_fraction,
                "weighted": one.weighted_fraction,
                "not usable for": _counted(one.causes),
                "smaller weight for": _counted(one.lowered),
            }
        )
        for one in found
    ]
    return {
        "usable_fraction": sum(one.num_usable for one in found) / num,
        "weighted_fraction": sum(one.weighted_fraction * one.num_units for one in found) / num,
        "usable_by_source": dg.MetadataValue.table(records),
    }


def _counted(rules: Mapping[str, int]) -> str:
    return ", ".join(f"{rule} {num}" for rule, num in rules.items())


def status_bar(counts: dict[str, int]) -> str:
    """A stacked bar as an SVG image in Markdown, under 700 characters so that the UI draws it in place."""
    total = sum(counts.get(name, 0) for name in STATUSES) or 1
    parts, left = [], 0.0
    for name in STATUSES:
        width = _BAR_WIDTH_PX * counts.get(name, 0) / total
        if width:
            parts.append(f'<rect x="{left:.0f}" width="{width:.0f}" height="12" fill="{_COLOURS[name]}"/>')
        left += width
    return picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_BAR_WIDTH_PX}" height="12">{"".join(parts)}</svg>', "svg+xml"
    )


def picture(data: str | bytes, kind: str) -> str:
    """The picture as Markdown that the UI draws."""
    raw = data.encode() if isinstance(data, str) else data
    return f"![](data:image/{kind};base64,{base64.b64encode(raw).decode()})"


def corpus_metadata(step: Step, made: Made, lake: Lake) -> dict[str, Any]:
    """The metadata of a corpus asset: counts, and a histogram of what its rows are about."""
    metadata: dict[str, Any] = {
        "dagster/row_count": made.stamp.num_rows,
        "seconds": made.stamp.seconds,
        "table_bytes": made.stamp.size_bytes,
        "reused": made.reused,
    }
    column = {"clusters": "cluster_size", "caption_scores": "cosine"}.get(step.schema.name, "score")
    values = lake.tables.read(made.slot, columns=[column]).column(column).drop_null().to_pylist()
    if values:
        metadata["histogram"] = dg.MetadataValue.md(histogram(values, label=column.replace("_", " ")))
    if step.schema.name in ("pairs", "cross_pairs"):  # same and inside make something go; the others are evidence
        relations = lake.tables.read(made.slot, columns=["relation"]).column("relation")
        metadata |= {row["values"].as_py(): row["counts"].as_py() for row in pc.value_counts(relations)}
    if step.schema.name == "cross_pairs":
        metadata |= {name: count for name, count in made.stamp.counts.items() if name != "accounted"}
    if step.schema.name == "clusters":
        metadata["duplicates"] = sum(
            1
            for survives in lake.tables.read(made.slot, columns=["is_survivor"]).column("is_survivor").to_pylist()
            if not survives
        )
    return metadata


def histogram(values: Sequence[float], *, label: str) -> str:
    """A histogram as an SVG image in Markdown, its ends and its tallest bar in numbers, under 700 characters so that
    the UI draws it in place."""
    counts, edges = np.histogram(np.asarray(values, dtype=float), bins=_NUM_BARS)
    heights = np.ceil(counts * (_BARS_PX / max(1, counts.max()))).astype(int)
    bars = "".join(f"V{_BARS_PX - height}H{(at + 1) * _BAR_PX}" for at, height in enumerate(heights))
    width = _NUM_BARS * _BAR_PX
    texts = ((0, "start", f"{edges[0]:.4g}"), (width / 2, "middle", label), (width, "end", f"{edges[-1]:.4g}"))
    return (
        picture(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="58" font-size="9">'
            f'<path fill="#3d6fb4" d="M0 {_BARS_PX}{bars}V{_BARS_PX}"/>'
            + "".join(
                f'<text x="{x:g}" y="55" text-anchor="{anchor}">{escape(text)}</text>' for x, anchor, text in texts
            )
            + "</svg>",
            "svg+xml",
        )
        + f" at most {counts.max()} of {len(values)} rows"
    )


def version_metadata(stamp: Stamp, document: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a version step: numbers first, then the document, then a plot where it has a distribution."""
    metadata: dict[str, Any] = {
        "dagster/row_count": stamp.num_rows,
        "seconds": stamp.seconds,
        "bytes": stamp.size_bytes,
        **stamp.counts,
        "document": dg.MetadataValue.json(document),
    }
    for name, space in document.get("spaces", {}).items():
        metadata[f"{name}_normalized_entropy"] = space["normalized_entropy"]
        metadata[f"{name}_clusters"] = dg.MetadataValue.md(
            histogram(space["histogram"], label=f"{name}: items per cluster")
        )
    if document.get("outcome"):
        metadata["outcome"] = document["outcome"]
    for row in document.get("summary", ()):
        if row["kind"] == "all":
            metadata |= {f"{row['modality']}_{name}": value for name, value in row.items() if isinstance(value, float)}
    return metadata
