"""Chained Ogg films: what follows their first streams is not read, and the track says so."""

from __future__ import annotations

from pathlib import Path

from mmlake.errors import UnreadableItem
from mmlake.formats.ogg_pages import Link, links
from mmlake.preprocess.damage import Damages
from mmlake.preprocess.settings import PreprocessSettings


def first_link(path: Path) -> Link | None:
    """What is read of a chained Ogg film; None of every other file."""
    with path.open("rb") as file:
        found = links(file)
    return found[0] if len(found) > 1 else None


def add_later_links(damages: Damages, path: Path, *, at_s: float, settings: PreprocessSettings) -> None:
    """Note every link behind the first one. at_s: where that ends. Raises UnreadableItem 3002 where too few of the
    bytes are in it."""
    with path.open("rb") as file:
        found = links(file)
    reasons = [
        f"stream {number} of {len(found)} in a chained Ogg file is not read: of films only the first one is"
        for number in range(2, len(found) + 1)
    ]
    size_bytes, low = sum(link.size_bytes for link in found), settings.min_decoded_fraction
    if found and found[0].size_bytes < low * size_bytes:
        fraction = f"decoded_fraction={found[0].size_bytes / size_bytes:.3f} of {size_bytes} bytes not in [{low:g}, 1]"
        raise UnreadableItem(3002, f"{fraction}; {reasons[0]}")
    for reason, link in zip(reasons, found[1:], strict=False):
        damages.add(reason, at_s=at_s, at_byte=link.at_byte)
