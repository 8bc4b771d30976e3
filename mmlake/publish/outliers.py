"""The units of a lake that are least like the others, by the vectors of the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import evaluate
from mmlake.lake import Lake
from mmlake.publish.probe_vectors import corpus_vectors
from mmlake.publish.titles import TITLE_COLUMNS, title_with_text
from mmlake.records import ADMITTED

_DESCRIBED = ["digest", "sources", *TITLE_COLUMNS]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlier:
    """One unit and how alone it is."""

    digest: str
    modality: str
    source: str
    title: str  # its sample, of a span the seconds, and how its text begins
    distance: float  # mean cosine distance to its nearest five, 0 to 2
    nearest_distance: float
    nearest: str  # digest of the unit that is most like it
    nearest_title: str


def outliers(lake: Lake, *, modalities: Sequence[str], count: int) -> list[Outlier]:
    """The survivors that may enter a version and are least like the others of their modality, of each modality so many,
    the loneliest first. Modalities with fewer than two vectors have none."""
    found: list[Outlier] = []
    for modality in modalities:
        rows = lake.catalog.read(["digest", "status", "is_survivor"], where=f"modality = '{modality}'")
        kept = pc.and_(pc.is_in(rows["status"], value_set=pa.array(sorted(ADMITTED))), rows["is_survivor"])
        kept = rows.filter(pc.fill_null(kept, False))["digest"]
        digests, vectors = corpus_vectors(lake, modality, kept.combine_chunks())
        if len(digests) < 2:
            continue
        alone = evaluate.loneliest(vectors, seed=lake.settings.evaluate.seed, count=count)
        chosen, nearest = ([digests[row] for row in rows.tolist()] for rows in (alone.rows_U, alone.neighbour_U))
        facts = _facts(lake, sorted({*nearest, *chosen}))
        for digest, other, mean, least in zip(chosen, nearest, alone.mean_U, alone.nearest_U, strict=True):
            source, title = facts[digest]
            found.append(
                Outlier(
                    digest=digest,
                    modality=modality,
                    source=source,
                    title=title,
                    distance=round(float(mean), 4),
                    nearest_distance=round(float(least), 4),
                    nearest=other,
                    nearest_title=facts[other][1],
                )
            )
    return found


def _facts(lake: Lake, digests: Sequence[str]) -> dict[str, tuple[str, str]]:
    """(sources, title) of each of the units."""
    rows = lake.catalog.rows_of(digests, _DESCRIBED)
    return {digest: (", ".join(row["sources"] or []), title_with_text(row)) for digest, row in rows.items()}
