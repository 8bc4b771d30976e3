"""How often the samples of each group are given out in an epoch: from weights, a temperature and epochs per group to
whole numbers of positions.

    g groups    n_g samples of a group    c_g positions of an epoch that are the group's
Groups that `epochs` names have c_g = epochs * n_g. The others share the positions that they would have without a
mixture (the sum of their n_g) in proportion to weight_g * n_g ** (1 / T).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmlake.errors import SettingsError
from mmlake.recipes.groups import check_by
from mmlake.recipes.sql import near

# n ** 10: of two groups one of which is twice as large, that has 99.9 % of the positions; n ** 1000 is no float
_MIN_TEMPERATURE = 0.1


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Weights, a temperature and epochs of the groups of one column or field."""

    by: str
    # modality, source, licence, or metadata.FIELD
    weights: tuple[tuple[str, float], ...] = ()
    # of groups; 1 where none is given, 0 leaves the group out
    temperature: float = 1.0
    # 1 keeps the groups' sizes, larger ones bring them closer together
    epochs: tuple[tuple[str, float], ...] = ()
    # how often each sample of the group is given out in an epoch: 3, or 0.5 for every second epoch

    def __post_init__(self) -> None:
        for name in ("weights", "epochs"):
            object.__setattr__(self, name, tuple(sorted((one, float(value)) for one, value in getattr(self, name))))

    def check(self, where: str) -> None:
        """Raises SettingsError where it is no mixture."""
        check_by(self.by, where=where)
        if not _MIN_TEMPERATURE <= self.temperature <= 1e6:
            raise SettingsError(
                f"{where}: temperature is {self.temperature}, expected a number from {_MIN_TEMPERATURE} to 1000000"
            )
        for name in ("weights", "epochs"):
            for group, value in getattr(self, name):
                if not 0 <= value < 1e9:
                    raise SettingsError(f"{where}: {name} of {group!r} is {value}, expected a number of 0 or more")
        if both := sorted({group for group, _ in self.weights} & {group for group, _ in self.epochs}):
            raise SettingsError(
                f"{where}: group {both[0]!r} has a weight and a number of epochs, which both say how often it comes; "
                "keep one of the two"
            )
        if not self.weights and not self.epochs and self.temperature == 1:
            raise SettingsError(f"{where}: the mixture changes nothing; give weights, temperature or epochs")

    def counts(self, groups: Mapping[str, int]) -> dict[str, int]:
        """Positions of each group in an epoch. groups: name -> number of samples, 1 or more. Where the fractions do not
        come out even, the largest remainders are rounded up: each count is within one of its share."""
        epochs, weights = dict(self.epochs), dict(self.weights)
        found = {name: round(epochs[name] * size) for name, size in groups.items() if name in epochs}
        shared = sorted(name for name in groups if name not in epochs)
        masses = np.array([weights.get(name, 1.0) * groups[name] ** (1 / self.temperature) for name in shared])
        total = sum(groups[name] for name in shared)
        if len(shared) and masses.sum() > 0:
            exact = masses / masses.sum() * total
            whole = np.floor(exact + 1e-9).astype(np.int64)
            short = total - int(whole.sum())
            whole[np.argsort(-(exact - whole), kind="stable")[:short]] += 1
            found |= dict(zip(shared, whole.tolist(), strict=True))
        return {name: found.get(name, 0) for name in groups}

    def check_groups(self, groups: Sequence[str], where: str) -> None:
        """Raises SettingsError where a weight or a number of epochs is for a group that has no sample."""
        for name in ("weights", "epochs"):
            for group, _ in getattr(self, name):
                if group not in groups:
                    raise SettingsError(
                        f"{where}: mixture: {name} name the group {group!r}{near(group, groups)}, of which the version "
                        f"has no sample; its groups by {self.by} are {', '.join(sorted(groups)[:20]) or 'none'}"
                    )

    def to_dict(self) -> dict[str, Any]:
        """Plain values; what is not set is not there."""
        found: dict[str, Any] = {"by": self.by}
        for name in ("weights", "epochs"):
            if getattr(self, name):
                found[name] = dict(getattr(self, name))
        return found | ({"temperature": self.temperature} if self.temperature != 1 else {})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Mixture:
        """The mixture of these values."""
        plain: dict[str, Any] = {
            name: tuple(one.items()) if isinstance(one, Mapping) else one for name, one in values.items()
        }
        return cls(**plain)
