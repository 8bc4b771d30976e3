"""A second witness for semantic pairs of text: whether what they share is the wording of a template.

A sentence encoder puts pages of one template ("create a gateway", "delete a gateway") as close together as it puts
paraphrases: .88 to .97 for both on command references. Shared wording alone says nothing: people who retell a sentence
keep half of its words. What distinguishes them is who else has that wording: nobody, where one text retells the other;
many siblings, where both fill in a template.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mmlake.dedup.prints import Positions, PrintTable
from mmlake.dedup.settings import DedupSettings
from mmlake.dedup.text_matching import sampled, shared_counts
from mmlake.dedup.text_templates import Commonness, Siblings
from mmlake.dedup.text_verdicts import TEMPLATE


def template_veto(
    prints: PrintTable, *, settings: DedupSettings
) -> Callable[[Positions, Positions], NDArray[np.bool_]]:
    """Which pairs, given as two arrays of positions, are kept apart: those that share more than
    `settings.semantic_shared_fraction` of their smaller 5-gram set, where many other units share the same, or each of
    the two has many siblings. Units without shingles are never kept apart.

    prints: of all units that are compared, for their number counts; only the method `shingles` is read.
    """
    shingles = prints["shingles"]
    sizes = shingles.lengths
    fraction = settings.semantic_shared_fraction
    commonness, siblings = Commonness(shingles), Siblings(sampled(shingles), fraction=fraction)

    def is_apart(left: Positions, right: Positions) -> NDArray[np.bool_]:
        apart = np.zeros(len(left), np.bool_)
        for at, (one, other) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
            others = np.array([other], np.int64)
            shared = int(shared_counts(shingles.values, shingles.offsets, one, others)[0])
            if shared > fraction * min(sizes[one], sizes[other]):
                apart[at] = (siblings.are_many(one) and siblings.are_many(other)) or bool(
                    commonness.wording(one, others)[0] == TEMPLATE
                )
        return apart

    return is_apart
