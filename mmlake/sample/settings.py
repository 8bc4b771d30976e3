"""How large the sample corpus is and which one."""

from __future__ import annotations

from dataclasses import dataclass

from mmlake.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class SampleSettings:
    """Settings of `generate`."""

    seed: int = 7
    # any other number gives another corpus of the same make.
    scale: float = 1.0
    # 1: about 400 texts, 160 pictures, 80 recordings and 35 films in 40 MB or less. Every planted case occurs at least
    # once at any scale.

    def __post_init__(self) -> None:
        if not 0 < self.scale <= 20:
            raise SettingsError(
                f"sample.scale is {self.scale}, expected more than 0 and at most 20; 1 is the documented corpus, "
                "0.15 the smallest useful one"
            )
        if self.seed < 0:
            raise SettingsError(f"sample.seed is {self.seed}, expected 0 or more")
