"""Files behind the first one, where several were laid end to end: chained Ogg films, and what no decoder reads.

Enters: the file. Leaves: places in the damages of its track, or an UnreadableItem where most of it is not read.
"""

from __future__ import annotations

from pathlib import Path

from mmlake.errors import UnreadableItem
from mmlake.media.joined_files import second_file
from mmlake.media.ogg_pages import Link, links
from mmlake.media.transport_clock import other_streams
from mmlake.preprocess.damage import Damages
from mmlake.preprocess.settings import PreprocessSettings


def first_link(path: Path) -> Link | None:
    """What is read of a chained Ogg film; None of every other file."""
    with path.open("rb") as file:
        found = links(file)
    return found[0] if len(found) > 1 else None


def add_later_files(damages: Damages, path: Path, *, at_s: float, settings: PreprocessSettings) -> None:
    """Note what is behind the first one of films. at_s: where that ends. Raises UnreadableItem 3012 where too few of
    the bytes are in it."""
    _add_later_links(damages, path, at_s=at_s, settings=settings)
    add_later_file(damages, path, at_s=at_s, settings=settings)


def _add_later_links(damages: Damages, path: Path, *, at_s: float, settings: PreprocessSettings) -> None:
    """Every link of an Ogg film behind the first one."""
    with path.open("rb") as file:
        found = links(file)
    reasons = [
        f"stream {number} of {len(found)} in a chained Ogg file is not read: of films only the first one is"
        for number in range(2, len(found) + 1)
    ]
    if reasons:
        _check(found[0].size_bytes, sum(link.size_bytes for link in found), reasons[0], settings)
    for reason, link in zip(reasons, found[1:], strict=False):
        damages.add(reason, at_s=at_s, at_byte=link.at_byte)


def add_later_file(damages: Damages, path: Path, *, at_s: float, settings: PreprocessSettings) -> None:
    """Note that a second file, or other streams of MPEG-TS, begin behind the first. at_s: where that ends. Raises
    UnreadableItem 3012 where too few of the bytes are in the first."""
    with path.open("rb") as file:
        at_byte, what = second_file(file), "a second file begins"
    if at_byte is None:
        at_byte, what = other_streams(path), "other streams begin"
    if at_byte is not None:
        reason = f"{what} at byte {at_byte}, not read: players know the first alone"
        _check(at_byte, path.stat().st_size, reason, settings)
        damages.add(reason, at_s=at_s, at_byte=at_byte)


def _check(read_bytes: int, size_bytes: int, reason: str, settings: PreprocessSettings) -> None:
    low = settings.min_decoded_fraction
    if read_bytes < low * size_bytes:
        fraction = f"decoded_fraction={read_bytes / size_bytes:.3f} of {size_bytes} bytes not in [{low:g}, 1]"
        raise UnreadableItem(3012, f"{fraction}; {reason}")
