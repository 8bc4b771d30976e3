"""The tree of a version is its content: neither the order nor the number of runs is in it."""

from __future__ import annotations

from pathlib import Path

from tests import make
from tests.wiring.conftest import Site

# the last repeats a text of the first under another name
FILES = {
    "text/a.jsonl": [make.prose(1), make.prose(2), "Too short."],
    "text/b.jsonl": [make.prose(3), make.prose(4)],
    "text/c.jsonl": [make.prose(5), make.prose(1)],
}


class _Empty(Site):
    """A landing zone without anything, and its lake."""

    def __init__(self, base: Path) -> None:
        self.zone, self.root = base / "landing", base / "lake"


def test_one_run_and_three_in_another_order_end_at_one_tree(tmp_path: Path) -> None:
    """Parents, times and numbers differ; the content and what is left out do not."""
    at_once, by_parts = _Empty(tmp_path / "once"), _Empty(tmp_path / "parts")
    for name, texts in FILES.items():
        at_once.land(name, texts)
    at_once.publish("everything")
    at_once.publish()
    for name in ("text/c.jsonl", "text/a.jsonl", "text/b.jsonl"):
        by_parts.land(name, FILES[name])
        by_parts.publish("everything")
        by_parts.publish()
    one, other = at_once.lake().versions, by_parts.lake().versions
    for branch in ("everything", "curated"):
        assert one.read(branch).tree == other.read(branch).tree
        assert one.read(branch).excluded_segments == other.read(branch).excluded_segments
        assert one.samples(branch).equals(other.samples(branch))
    assert (len(one.log("curated")), len(other.log("curated"))) == (1, 3)
    assert len(other.read("curated").parents) == 1


def test_a_shard_that_comes_leaves_the_segments_of_the_others(tmp_path: Path) -> None:
    site = _Empty(tmp_path)
    for name in ("text/a.jsonl", "text/b.jsonl"):
        site.land(name, FILES[name])
    first = site.publish("everything")
    site.land("text/d.jsonl", [make.prose(7)])
    second = site.publish("everything")
    versions = site.lake().versions
    before, after = ({one.digest for one in versions.tree(name).segments} for name in (first, second))
    assert (len(before), len(after - before), before - after) == (2, 1, set())
