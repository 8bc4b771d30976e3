"""Duplicates across modalities in the report: what lies alone next to the film or recording that carries it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import report
from mmlake.lake import Lake
from mmlake.report import Example, PairExample
from mmlake.schemas.cross import KEYFRAME, TRANSCRIPT
from mmlake.tables import Slot
from mmlake.version_report.catalog_rows import CatalogRows
from mmlake.version_report.examples import Examples, spread

_SHOWN = 4  # of each component and modality
_TEXT_CHARS = 20_000  # of a text that is compared word by word

Row = Mapping[str, Any]


def crossed_of(examples: Examples, modality: str, rows: CatalogRows) -> list[PairExample]:
    """Of each component a few pairs of what lies alone and what carries it, the least alike first, spread evenly over
    their scores."""
    lake, slot = rows.lake, Slot("cross_pairs", modality)
    if lake.tables.stamp(slot) is None:
        return []
    known = rows.counted["digest"].combine_chunks()
    pairs = lake.tables.read(slot)
    pairs = pairs.filter(pc.and_(pc.is_in(pairs["digest"], known), pc.is_in(pairs["carrier"], known)))
    made = []
    for component in sorted(pc.unique(pairs["component"]).to_pylist()):
        mine = pairs.filter(pc.equal(pairs["component"], component))
        mine = mine.sort_by([("score", "ascending"), ("digest", "ascending"), ("carrier", "ascending")])
        places = spread(range(mine.num_rows), _SHOWN)
        drawn = mine.take(pa.array(places, pa.int64())).to_pylist()
        found = rows.whole([row[name] for row in drawn for name in ("digest", "carrier")])
        for row in drawn:
            alone, carrier = (found[row[name]] for name in ("digest", "carrier"))
            sides = _side(examples, alone), _carrier(lake, examples, row, carrier)
            made.append(_pair(row, modality, *sides, found=mine.num_rows))
    return made


def _side(examples: Examples, row: Row) -> Example:
    made = examples.example(row)
    text = (row["text"] or "")[:_TEXT_CHARS] if row["modality"] == "text" else made.text
    return replace(made, tier="", survivor=False, text=text)  # the pair says what it is


def _carrier(lake: Lake, examples: Examples, pair: Row, row: Row) -> Example:
    """The film or recording; of a keyframe that picture alone, of a transcript its words alone."""
    if pair["component"] == KEYFRAME:
        bare = Example(digest=row["digest"], modality="image", status=row["status"])
        title = f"{(row['sample_ids'] or [''])[0]} at {pair['time_s']:.1f} s"
        return replace(bare, title=title, image=report.thumbnail(lake.store.read(pair["component_digest"])))
    made = replace(examples.example(row), tier="", survivor=False)
    if pair["component"] == TRANSCRIPT:
        return replace(made, text=(row["text"] or "")[:_TEXT_CHARS])
    return made


def _pair(row: Row, modality: str, alone: Example, carrier: Example, *, found: int) -> PairExample:
    spans = [
        None if row[f"{side}start_s"] is None else (row[f"{side}start_s"], row[f"{side}end_s"])
        for side in ("", "carrier_")
    ]
    return PairExample(
        tier=row["component"],
        method=row["carrier_modality"],
        modality=modality,
        is_above=True,
        relation=row["relation"],
        score=row["score"],
        bound=row["bound"],
        left=alone,
        right=carrier,
        left_span_s=spans[0],
        right_span_s=spans[1],
        found=found,
    )
