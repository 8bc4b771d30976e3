"""Captions that say something else than what stands next to them: which parts of samples a recipe masks for it.

P parts of all samples of a batch, by number; C catalog rows; K pairs of a unit and a caption that have a cosine
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mmlake.engine.digest_index import DigestIndex, piece
from mmlake.records import CAPTION
from mmlake.versions.grouped_samples import Parts


@dataclass(frozen=True, slots=True)
class CaptionCosines:
    """The cosine of each pair, to be asked for by the catalog rows of both."""

    num_rows: int  # of the catalog
    keys_K: np.ndarray  # row of the unit x num_rows + row of the caption, ascending
    cosines_K: np.ndarray
    # whether each catalog row is the unit, or the caption, of a pair; one more, False, stands for no row
    is_unit_C: np.ndarray
    is_caption_C: np.ndarray

    @classmethod
    def of(cls, scores: pa.Table | None, index: DigestIndex, num_rows: int) -> CaptionCosines:
        """scores: digest, caption, cosine; None: of no pair. Pairs that the catalog does not know are left out."""
        is_unit_C, is_caption_C = np.zeros((2, num_rows + 1), bool)
        if scores is None:
            return cls(num_rows, np.empty(0, np.int64), np.empty(0), is_unit_C, is_caption_C)
        unit_K, caption_K = (np.asarray(index.find(piece(scores[name])), np.int64) for name in ("digest", "caption"))
        known = (unit_K >= 0) & (caption_K >= 0)
        keys, cosines = unit_K[known] * num_rows + caption_K[known], scores["cosine"].to_numpy()[known]
        order = np.argsort(keys)
        is_unit_C[unit_K[known]] = is_caption_C[caption_K[known]] = True
        return cls(num_rows, keys[order], cosines[order], is_unit_C, is_caption_C)

    def best(self, parts: Parts, at_P: np.ndarray, kept_P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(kept captions that have a cosine with a leading part of their sample, the highest of each)."""
        captions = np.flatnonzero(parts.is_role(CAPTION) & kept_P & self.is_caption_C[at_P])
        leads = np.flatnonzero(parts.leads_P & self.is_unit_C[at_P])
        # parts come in order of their samples
        first = np.searchsorted(parts.owner_P[leads], parts.owner_P[captions], side="left")
        counts = np.searchsorted(parts.owner_P[leads], parts.owner_P[captions], side="right") - first
        caption_J = np.repeat(np.arange(len(captions)), counts)
        lead_J = leads[np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))]
        wanted_J = at_P[lead_J].astype(np.int64) * self.num_rows + at_P[captions[caption_J]]
        place_J = np.minimum(np.searchsorted(self.keys_K, wanted_J), max(0, len(self.keys_K) - 1))
        found_J = self.keys_K[place_J] == wanted_J if len(self.keys_K) else np.zeros(len(wanted_J), bool)
        best = np.full(len(captions), -np.inf)
        np.maximum.at(best, caption_J[found_J], self.cosines_K[place_J[found_J]])
        scored = np.isfinite(best)
        return captions[scored], best[scored]


def below(bound: float, captions: np.ndarray, cosines: np.ndarray) -> tuple[np.ndarray, pa.Array]:
    """(the captions below the bound, what says it of each)."""
    out = cosines < bound
    said = [f"caption_score={cosine:.4f} not in [{bound:g}, 1]" for cosine in cosines[out].tolist()]
    return captions[out], pa.array(said, pa.string())
