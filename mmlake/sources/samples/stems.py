"""The members of an archive by number: which are one sample, which share a name, and what locators call them.

Enters: hashes of names, a few bytes per member, so that a shard may have millions. Leaves: orders and labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from mmlake.formats.texts import printable
from mmlake.sources.samples.member import Member


def stem_of(name: str) -> str:
    """What the sample of a member is called: its path up to the first dot inside the file name, folder included."""
    folder, _, base = name.removeprefix("./").rpartition("/")
    # the dot before a hidden file is no end: else all of a folder would be one sample
    stem = base[:1] + base[1:].partition(".")[0]
    return f"{folder}/{stem}" if folder else stem


def stems_of(names: list[str], joined: str) -> list[str]:
    """The same of many. joined: the names with a zero between each two."""
    if "/" in joined or joined[:1] == "." or "\0." in joined:
        return [stem_of(name) for name in names]
    return [name.partition(".")[0] for name in names]


def label_of(name: str) -> str:
    """What locators call a member whose name no other has."""
    return name if _is_label(name) else printable(name).replace("#", "%23")


def labels_alone(names: list[str], joined: str) -> list[str]:
    """The same of many. joined: the names with a zero between each two."""
    return names if _is_label(joined) else [label_of(name) for name in names]


def _is_label(name: str) -> bool:
    """Whether no other name gets this as its label."""
    return name.isascii() and "#" not in name and "%" not in name and "\\" not in name


def labels_of(hashes: np.ndarray, name_at: Callable[[int], str]) -> dict[int, tuple[str, bool]]:
    """(label, whether the name stood before) by number of all members whose labels may meet: a repetition has
    `#dup=<n>` behind it, unique in the archive.

    hashes: of what `label_of` gives for each.
    """
    _, places, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    found: dict[int, tuple[str, bool]] = {}
    seen: dict[str, int] = {}
    labels: set[str] = set()
    for at in np.flatnonzero(counts[places] > 1).tolist():
        name = name_at(at)
        num_before = seen.get(name, 0)
        seen[name] = num_before + 1
        base = label_of(name)
        label = f"{base}#dup={num_before}" if num_before else base
        number = num_before
        while label in labels:
            number += 1
            label = f"{base}#dup={number}"
        labels.add(label)
        found[at] = (label, num_before > 0)
    return found


def by_first(stems: np.ndarray) -> list[int] | None:
    """The members in the order of their samples' first members; None where they lie so already, as in nearly every
    archive. stems: hashes."""
    starts = stems[np.flatnonzero(np.diff(stems, prepend=stems[:1] - 1))] if len(stems) else stems
    if len(np.unique(starts)) == len(starts):
        return None
    _, firsts, samples = np.unique(stems, return_index=True, return_inverse=True)
    return np.argsort(firsts[samples], kind="stable").tolist()


def is_mixed(stems: np.ndarray, records: np.ndarray) -> bool:
    """Whether some samples have a record and others none, or some have several."""
    counts = np.bincount(np.unique(stems, return_inverse=True)[1], weights=records)
    return bool(np.any(counts > 1) or (np.any(counts == 1) and np.any(counts == 0)))


def by_sample(members: Iterable[Member]) -> Iterator[list[Member]]:
    """The members of each sample, where those of one sample follow one another."""
    group: list[Member] = []
    for member in members:
        if group and member.stem != group[0].stem:
            yield group
            group = []
        group.append(member)
    if group:
        yield group
