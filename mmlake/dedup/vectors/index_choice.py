"""Which index the semantic step takes: from the number of vectors, their dimension, memory and the wanted recall.

The four rules below are all there is; `mmlake bench ann` prints what they give and measures what they rest on.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmlake.dedup.settings import DedupSettings

# share of the units with a duplicate that a step finds on real embeddings (docs/dedup-at-scale.md). It depends on the
# data: on 16,000 generated ones in broad topics cells find .958 at 64 numbers and all at 256; a version keeps its own
# estimate
CELLS_RECALL = 0.999
PQ_RECALL = 0.99  # at nprobe=16, with exact comparison of 32 candidates; at one list it is .98
_PARTS = (48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
_ID_BYTES = 8  # of an inverted list, per vector


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """An index, and why it is the one."""

    index: str
    why: str
    fits: bool  # what it holds is within `index_memory_bytes`
    vector_bytes: int  # of all float32 vectors
    code_bytes: int  # of all product codes with their ids


def choose_index(num: int, dimension: int, *, settings: DedupSettings) -> Choice:
    """What `dedup.index = "auto"` takes.

    1. flat below `flat_max_items`, or where `index_recall` is above what cells reach: it is exact, and up to there it
       costs no more. The break-even hardly depends on the dimension, since both sides are products of vectors.
    2. cells where the float32 vectors fit in `index_memory_bytes`.
    3. ivf-pq where only its codes do, and `index_recall` is within what codes reach; candidates are compared exactly.
    4. cells otherwise, with `fits` false: more memory, parts of the corpus, or a lower `index_recall` are needed.
    """
    vectors, codes = 4 * num * dimension, num * (code_parts(dimension) + _ID_BYTES)
    memory, recall = settings.index_memory_bytes, settings.index_recall

    def made(index: str, why: str, needed: int) -> Choice:
        return Choice(index=index, why=why, fits=needed <= memory, vector_bytes=vectors, code_bytes=codes)

    if num < settings.flat_max_items:
        return made("flat", f"{num:,} vectors are fewer than flat_max_items={settings.flat_max_items:,}", vectors)
    if recall > CELLS_RECALL:
        return made(
            "flat", f"index_recall={recall:g} is above the {CELLS_RECALL:g} of cells: only exact search", vectors
        )
    if vectors <= memory:
        why = f"{num:,} vectors of {vectors / 1e9:,.2f} GB are within index_memory_bytes ({memory / 1e9:,.0f} GB)"
        return made("cells", why, vectors)
    if codes <= memory and recall <= PQ_RECALL:
        why = f"{vectors / 1e9:,.0f} GB of vectors exceed index_memory_bytes, {codes / 1e9:,.0f} GB of codes do not"
        return made("ivf-pq", why, codes)
    why = f"{vectors / 1e9:,.0f} GB of vectors exceed index_memory_bytes; codes reach a recall of {PQ_RECALL:g} at most"
    return made("cells", why, vectors)


def code_parts(dimension: int) -> int:
    """Bytes of the product code of a vector."""
    return next(parts for parts in _PARTS if dimension % parts == 0)
