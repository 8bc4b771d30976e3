"""The check that a version holds nothing of an eval set."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mmlake import schemas
from mmlake.errors import ContractBroken
from mmlake.lake import Lake
from mmlake.publish.selected import held_digests
from mmlake.recipes.recipe import TIERS
from mmlake.steps import CORPUS_STEPS
from mmlake.tables import Slot

_SHOWN = 3


def refuse_contaminated(lake: Lake, version: str) -> None:
    """Raises ContractBroken where the version holds a unit that an eval set of [decontaminate] has, naming the first
    ones, and where the corpus was not compared with these sets yet."""
    if not lake.settings.decontaminate.sets:
        return
    held = pa.array(
        sorted({digest for samples in lake.versions.iter_samples(version) for digest in held_digests(samples)})
    )
    found = [schemas.empty(schemas.CONTAMINATION)]
    for modality in lake.parts.modalities:
        rows = _compared(lake, modality)
        found.append(rows.filter(pc.is_in(rows["digest"], value_set=held.cast(pa.string()))))
    rows = pa.concat_tables(found)
    if not rows.num_rows:
        return
    best: dict[str, dict[str, Any]] = {}
    for row in sorted(rows.to_pylist(), key=lambda row: (row["digest"], TIERS.index(row["tier"]), -row["score"])):
        best.setdefault(row["digest"], row)
    shown = "; ".join(
        f"{digest[:16]} is {schemas.contamination_of(row)}" for digest, row in islice(best.items(), _SHOWN)
    )
    raise ContractBroken(
        f"{len(best)} {'unit of the version is' if len(best) == 1 else 'units of the version are'} in an eval set: "
        f'{shown}{"; ..." if len(best) > _SHOWN else ""}; leave them out with `where = "NOT contaminated"` in the '
        "recipe, or take the set out of [decontaminate]"
    )


def _compared(lake: Lake, modality: str) -> pa.Table:
    """The modality's CONTAMINATION. Raises ContractBroken where it was made of other sets than the settings name."""
    step = CORPUS_STEPS["contamination"]
    stamp = lake.tables.stamp(Slot(step.name, modality))
    assert step.parts is not None
    sets = step.parts(lake, modality, "")
    if (
        stamp is None
        or stamp.settings_digest != lake.settings.digest(step.settings)
        or any(stamp.inputs.get(name) != revision for name, revision in sets.items())
    ):
        raise ContractBroken(
            f"{modality}/contamination was not made of the eval sets as they are now; materialize it again, or run "
            "`mmlake run`"
        )
    return lake.tables.read(Slot(step.name, modality))
