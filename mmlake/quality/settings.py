"""Settings of the quality stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mmlake.errors import SettingsError
from mmlake.records import LATER


@dataclass(frozen=True, kw_only=True, slots=True)
class QualitySettings:
    """How measures are judged; every field is plain JSON. A change here re-judges, it never decodes again."""

    flagged_weight: float = 0.5
    # sample weight of items with P2 findings only; half keeps them in a version without letting them set its tone
    bounds: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    # rule name -> (low, high) in place of the rule's own [low, high); null is no bound. A name that several modalities
    # use is changed for all of them
    disabled: tuple[str, ...] = ()
    # rule names that are not applied
    aesthetic_head: str = field(default="", metadata=LATER)
    # file of safetensors with the head that scores the vectors of `embed.models.clip` by how much people would like a
    # picture (LAION's, for CLIP ViT-L/14 of OpenAI); empty for no such score

    def __post_init__(self) -> None:
        """Refuse ranges that nothing fulfils. Names are checked where the rules are known (`mmlake.parts`)."""
        if not 0 <= self.flagged_weight <= 1:
            raise SettingsError(f"quality.flagged_weight={self.flagged_weight} not in [0, 1]; correct the setting")
        for name, pair in self.bounds.items():
            if len(pair) != 2 or (pair[0] is not None and pair[1] is not None and pair[0] >= pair[1]):
                raise SettingsError(
                    f"quality.bounds['{name}']={pair!r} is no range (low, high) with low below high; correct the "
                    "setting"
                )
