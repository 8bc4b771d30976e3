"""Quotas: how many samples of a group a version takes, and which.

Within a group samples are taken in the order of a hash of seed and sample. That of a sample never changes, so of N more
samples of the same kind no more than N take the place of others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mmlake.errors import SettingsError
from mmlake.recipes.groups import check_by, groups_of
from mmlake.recipes.sql import near


@dataclass(frozen=True, kw_only=True)
class Quota:
    """Bounds for the groups of one column or field."""

    by: str
    # modality, source, licence, or metadata.FIELD
    at_most: int | None = None
    # samples of each group
    share: float | None = None
    # of the version's samples at most, by each group, 0..1
    at_least: int | None = None
    # samples of each group, else the version is refused
    groups: tuple[str, ...] = ()
    # the groups that it is about; empty for all

    def check(self, where: str) -> None:
        """Raises SettingsError where the bounds are none."""
        check_by(self.by, where=where)
        if self.at_most is None and self.share is None and self.at_least is None:
            raise SettingsError(f"{where}: the quota bounds nothing; give at_most, share or at_least")
        for name, low, high in (("at_most", 0, None), ("at_least", 1, None), ("share", 0, 1)):
            value = getattr(self, name)
            if value is not None and (value < low or (high is not None and not low < value <= high)):
                raise SettingsError(
                    f"{where}: {name} is {value}, expected {'more than 0, at most 1' if high else f'{low} or more'}"
                )
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise SettingsError(
                f"{where}: at_least is {self.at_least} and at_most {self.at_most}, which no group can meet"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values; what is not set is not there."""
        values = {"by": self.by, "at_most": self.at_most, "share": self.share, "at_least": self.at_least}
        found = {name: value for name, value in values.items() if value is not None}
        return found | ({"groups": sorted(set(self.groups))} if self.groups else {})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Quota:
        """The quota of these values."""
        plain: dict[str, Any] = {name: tuple(one) if name == "groups" else one for name, one in values.items()}
        return cls(**plain)


def cut(samples: pa.Table, quotas: tuple[Quota, ...], *, seed: int, where: str) -> np.ndarray:
    """quota:<group> for each sample that is cut, else None; an array of objects. Raises SettingsError where a quota
    cannot be met."""
    causes = np.full(samples.num_rows, None, dtype=object)
    if not quotas:
        return causes
    ranks = _ranks(samples["sample"].to_pylist(), seed)
    for number, quota in enumerate(quotas, start=1):
        left = np.flatnonzero(causes == None)  # noqa: E711 - of each element
        names, group = groups_of(samples.take(pa.array(left)), quota.by)
        counts = np.bincount(group, minlength=len(names))
        place = f"{where}: quota {number} (by {quota.by})"
        bound = [name in quota.groups or not quota.groups for name in names]
        _check_least(quota, dict(zip(names, counts.tolist(), strict=True)), place)
        for at, most in enumerate(_allowed(quota, counts, np.array(bound, dtype=bool), place).tolist()):
            if counts[at] > most:
                members = left[group == at]
                causes[members[np.argsort(ranks[members], kind="stable")[most:]]] = f"quota:{names[at]}"
    return causes


def _ranks(samples: list[str], seed: int) -> np.ndarray:
    prefix = f"mmlake.quota/1 {seed} "
    hashes = b"".join(hashlib.sha256(f"{prefix}{sample}".encode()).digest()[:8] for sample in samples)
    return np.frombuffer(hashes, dtype=">u8")


def _check_least(quota: Quota, counts: dict[str, int], place: str) -> None:
    if quota.at_least is None:
        return
    for name in sorted({*counts, *quota.groups} if not quota.groups else quota.groups):
        if (count := counts.get(name, 0)) < quota.at_least:
            unknown = near(name, counts) if name not in counts else ""
            raise SettingsError(
                f"{place}: group {name!r}{unknown} has {count} samples, expected at least {quota.at_least}; lower "
                "at_least, loosen the other clauses, or add data"
            )


def _allowed(quota: Quota, counts: np.ndarray, bound: np.ndarray, place: str) -> np.ndarray:
    """How many of each group stay. Where each group may have a share of what stays, that is the most for which all
    shares hold."""
    most = counts.copy()
    if quota.at_most is not None:
        most[bound] = np.minimum(most[bound], quota.at_most)
    if quota.share is not None and most.sum():
        total, before = _largest_total(quota.share, most, bound), -1
        capped = most
        while total != before:  # whole samples: a few rounds
            capped = np.where(bound, np.minimum(most, np.floor(quota.share * total + 1e-9)), most).astype(np.int64)
            before, total = total, int(capped.sum())
        if not total:
            raise SettingsError(
                f"{place}: no {int(bound.sum())} groups can have a share of {quota.share:g} each and make a whole; "
                "raise the share, or bound fewer groups with `groups`"
            )
        most = capped
    if quota.at_least is not None and bool((most[bound] < quota.at_least).any()):
        raise SettingsError(
            f"{place}: a share of {quota.share:g} leaves a group fewer than {quota.at_least} samples; lower at_least "
            "or raise the share"
        )
    return most


def _largest_total(share: float, counts: np.ndarray, bound: np.ndarray) -> int:
    """What stays at most, where T = (samples of groups that are not cut) + share * T * (groups that are)."""
    rest, order = float(counts[~bound].sum()), np.sort(counts[bound])[::-1].astype(float)
    total = 0.0
    for num_cut in range(len(order) + 1):
        if (left := 1 - share * num_cut) <= 1e-9:
            break  # so many groups fill the whole, and none of them is cut
        total = (rest + order[num_cut:].sum()) / left
        if num_cut == len(order) or order[num_cut] <= share * total + 1e-6:
            break
    return int(total + 1e-6)
