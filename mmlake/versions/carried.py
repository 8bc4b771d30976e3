"""Which units a version leaves out because a film or recording of the same version carries them: a picture that is a
keyframe, a recording that is a sound track, a text that is a transcript."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def carried_out(
    digests: pa.Array, carried_by: pa.Array | None, stays_C: np.ndarray, drop: Sequence[str]
) -> tuple[pa.Array, pa.Array]:
    """(`carried:<component>`, the carrier) of each row that goes; null of the others. What carries stays in its film,
    and what lies by itself goes, while the film stays.

    digests, carried_by: of the catalog's rows; carried_by has `component:digest` of each carrier. stays_C: whether
    nothing else keeps the row out. drop: components.
    """
    num = len(digests)
    if carried_by is None or not drop or not pa.types.is_list(carried_by.type):
        return pa.nulls(num, pa.string()), pa.nulls(num, pa.string())
    owners = pc.list_parent_indices(carried_by).to_numpy()
    entries = pc.list_flatten(carried_by)
    halves = pc.split_pattern(entries, ":", max_splits=1)
    components, carriers = pc.list_element(halves, 0), pc.list_element(halves, 1)
    places = pc.fill_null(pc.index_in(carriers, value_set=digests), -1).to_numpy(zero_copy_only=False)
    asked = pc.is_in(components, value_set=pa.array(drop, pa.string())).to_numpy(zero_copy_only=False) & (places >= 0)
    is_held = asked & np.append(stays_C, False)[places]
    # a recording that goes for its film carries nothing out: what it says may be in no other place
    goes_C = np.zeros(num, bool)
    goes_C[owners[is_held]] = True
    is_held &= ~np.append(goes_C, False)[places]
    held = np.flatnonzero(is_held)
    first = np.full(num, -1)
    first[owners[held[::-1]]] = held[::-1]  # of several the first
    taken = pa.array(first, mask=first < 0)
    return pc.binary_join_element_wise("carried", components.take(taken), ":"), carriers.take(taken)
