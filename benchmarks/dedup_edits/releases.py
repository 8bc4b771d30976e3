"""Pages of the documentation of two releases: which revisions of a page are found, by how many words both share.

    python -m benchmarks.dedup_edits.releases OLD NEW

OLD, NEW: directories of what is unpacked of two releases of a package (`pip download --no-binary :all: --no-deps`,
`npm pack`). Pages are paired by their paths below these and by nothing else, so a page that got another subject under
the same name counts as missed. Texts pass preprocessing as they do in a lake; all are one join.
"""

from __future__ import annotations

import argparse
import difflib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.dedup_edits.text import survivors
from benchmarks.dedup_edits.typed_texts import prepared
from mmlake.dedup import DedupSettings
from mmlake.dedup.matching import NONE
from mmlake.dedup.text.fingerprints import print_table, unpacked
from mmlake.dedup.text.matcher import TextMatcher
from mmlake.store import BlobStore

_SUFFIXES = (".md", ".rst", ".txt", ".html")
_LEAST_WORDS = 40
_BOUNDS = (0.9, 0.8, 0.7, 0.5, 0.0)  # of the words that both have in one order


def pages(root: Path) -> dict[str, str]:
    """Path below the root -> text, of pages of 40 words and more."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.suffix in _SUFFIXES and path.is_file() and not path.is_symlink():
            text = prepared(path.read_text("utf-8", errors="replace"))
            if len(text.split()) >= _LEAST_WORDS:
                found[path.relative_to(root).as_posix()] = text
    return found


def in_order(one: np.ndarray, other: np.ndarray) -> float:
    """How many words both have in one order, as a share of the mean of their numbers (Ratcliff and Obershelp)."""
    return difflib.SequenceMatcher(None, one.tolist(), other.tolist(), autojunk=False).ratio()


class Releases:
    """The texts of two releases, equal ones once, with a matcher of all."""

    def __init__(self, old: Path, new: Path) -> None:
        self.places: dict[str, list[str]] = {}  # text -> paths, each behind its release
        for name, root in (("old", old), ("new", new)):
            for path, text in pages(root).items():
                self.places.setdefault(text, []).append(f"{name} {path}")
        self.texts = list(self.places)
        prints = print_table(self.texts)
        self.words = [unpacked(prints["words"][at]) for at in range(len(self.texts))]
        self.matcher = TextMatcher(prints, DedupSettings())

    def revisions(self) -> Iterator[tuple[int, int, str]]:
        """(position, position, path) of each page that changed."""
        at_place = {place: at for at, text in enumerate(self.texts) for place in self.places[text]}
        for place, at in at_place.items():
            name, path = place.split(" ", 1)
            other = at_place.get(f"new {path}", at)
            if name == "old" and other != at:
                yield at, other, path

    def is_found(self, one: int, other: int) -> bool:
        """Whether the matcher calls the two the same, or one a part of the other."""
        return bool(self.matcher.compare(one, np.array([other])).relation[0] != NONE)

    def others(self) -> list[tuple[str, str]]:
        """Pages that go for one of another path, and that one."""
        stays = survivors(self.texts, BlobStore(Path("/nonexistent")))
        found = []
        for at, keeper in enumerate(stays):
            mine, theirs = (self.places[self.texts[one]] for one in (at, keeper))
            if not {place[4:] for place in mine} & {place[4:] for place in theirs}:
                found.append((mine[0], theirs[0]))
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--others", action="store_true", help="name pairs of pages of different paths")
    arguments = parser.parse_args()
    releases = Releases(arguments.old, arguments.new)
    changed, found = Counter[float](), Counter[float]()
    for one, other, _ in releases.revisions():
        share = in_order(releases.words[one], releases.words[other])
        bound = next(bound for bound in _BOUNDS if share >= bound)
        changed[bound] += 1
        found[bound] += releases.is_found(one, other)
    others = releases.others()
    shown = ", ".join(f"from {bound}: {found[bound]} of {changed[bound]}" for bound in _BOUNDS)
    print(
        f"{len(releases.texts)} texts; found by words in order, {shown}; together {found.total()} of {changed.total()}"
    )
    print(f"pairs of different paths: {len(others)}")
    for pair in others if arguments.others else ():
        print(*pair, sep="  ->  ")


if __name__ == "__main__":
    main()
