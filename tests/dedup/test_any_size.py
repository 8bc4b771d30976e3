"""A join that has almost no memory gives the rows of one that has all it wants."""

from __future__ import annotations

import hashlib
import mmap
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from test_kept_joins import CRITERIA, MADE, fingerprints, nodes

from mmlake import dedup
from mmlake.dedup.audio.keys import together
from mmlake.dedup.greedy import Edge
from mmlake.dedup.image import fingerprints as image_fingerprints
from mmlake.dedup.image.matcher import ImageMatcher
from mmlake.dedup.kept.store import KeptJoins
from mmlake.dedup.loops import text_kernels
from mmlake.dedup.matching import SAME
from mmlake.dedup.prints import Ragged, digests_of
from mmlake.dedup.stars.leaders import Stars, Walk
from mmlake.dedup.stars.standings import in_order
from mmlake.dedup.text import fingerprints as text_fingerprints
from mmlake.dedup.text.matcher import TextMatcher
from mmlake.engine import Engine, EngineSettings
from tests import make
from tests.thorough import drawn

SETTINGS = dedup.DedupSettings()
NOTHING = EngineSettings(memory_gib=1e-6)  # sorts of 134 bytes, arrays of 33


def texts(num=120):
    """Documents, a third of them with one word replaced, some equal, some without a word."""
    rng = np.random.default_rng(1)
    pages = [make.prose(at) for at in range(num)] + ["", "..."]
    for at in range(num // 3):
        words = pages[at].split()
        words[int(rng.integers(len(words)))] = "changed"
        pages.append(" ".join(words))
    return [dict(one._asdict()) for one in text_fingerprints.prints([*pages, pages[0].lower()])]


MADE = {"text": texts, **MADE}


def corpus(modality):
    made = MADE[modality]() if modality == "text" else MADE[modality]()[: drawn(13, 30)]
    names = [hashlib.sha256(f"{modality} {at}".encode()).hexdigest() for at in range(len(made))]
    return fingerprints(modality, dict(zip(names, made, strict=True))), names


def in_shards(table, num):
    """The rows in so many parts, in no order, some of them twice."""
    rng = np.random.default_rng(num)
    rows = np.concatenate((np.arange(table.num_rows), rng.integers(0, table.num_rows, 5)))
    return [table.take(pa.array(part)) for part in np.array_split(rng.permutation(rows), num)]


@pytest.mark.parametrize("modality", MADE)
@pytest.mark.parametrize("with_nodes", [True, False])
def test_a_join_without_memory_finds_the_same_pairs(tmp_path, modality, with_nodes):
    table, names = corpus(modality)
    how = {"settings": SETTINGS}
    if with_nodes:
        how |= {"criteria": CRITERIA, "nodes": nodes(names, np.random.default_rng(2))}
    whole = dedup.near_pairs(table, dedup.tiers_of(modality), **how)
    small = dedup.near_pairs(in_shards(table, 7), dedup.tiers_of(modality), engine=Engine(tmp_path, NOTHING), **how)
    assert whole.num_rows
    assert small.equals(whole)
    assert list(tmp_path.iterdir()) == []


def test_compiled_loops_read_arrays_that_lie_in_files(tmp_path, monkeypatch):
    monkeypatch.setattr(text_kernels, "is_worthwhile", lambda work: True)
    table, _ = corpus("text")
    whole = dedup.near_pairs(table, dedup.tiers_of("text"), settings=SETTINGS)
    small = dedup.near_pairs(table, dedup.tiers_of("text"), settings=SETTINGS, engine=Engine(tmp_path, NOTHING))
    assert small.equals(whole)


def test_a_kept_join_goes_on_with_another_memory(tmp_path):
    table, _ = corpus("image")
    tiers, kept = dedup.tiers_of("image"), KeptJoins(tmp_path / "kept", "one")
    whole = dedup.near_pairs(table, tiers, settings=SETTINGS)
    for settings in (NOTHING, EngineSettings(), NOTHING):
        engine = Engine(tmp_path / "scratch", settings)
        assert dedup.near_pairs(table, tiers, settings=SETTINGS, kept=kept, engine=engine).equals(whole)


def test_what_is_no_node_is_not_compared(tmp_path):
    table, names = corpus("text")
    places = nodes(names[:60], np.random.default_rng(3))
    found = dedup.near_pairs(table, dedup.tiers_of("text"), settings=SETTINGS, nodes=places, criteria=CRITERIA)
    assert {*found["left"].to_pylist(), *found["right"].to_pylist()} <= set(names[:60])


def lies_in_file(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, memoryview | mmap.mmap)


def test_what_grows_with_the_number_of_texts_lies_in_files(tmp_path):
    """Keys, counts of shared wording, and what the walk knows of each text."""
    made = texts()
    prints = {name: Ragged.of(one[name] for one in made) for name in ("shingles", "words")}
    with Engine(tmp_path, NOTHING).used():
        matcher = TextMatcher(prints, SETTINGS)
        walk = Walk(matcher, in_order(len(made)))
        followers = walk._followers
        grown = [matcher.keys.values, matcher._commonness.table, matcher.pairs.rows.score, digests_of(prints)]
        grown += [walk.place, walk.leader_of, followers._first, followers._next, followers._score]
    assert all(map(lies_in_file, grown))
    assert not lies_in_file(TextMatcher(prints, SETTINGS).keys.values)


def test_a_million_edges_take_no_object_each():
    """Columns of numbers: 42 bytes an edge, and a slack of an eighth while they grow."""
    found, edge = Stars(), Edge(SAME, 0.9, 0, None)
    tracemalloc.start()
    for at in range(100_000):
        found.add(at, at + 1, edge, SAME)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100_000 * 48


def test_keys_of_pictures_are_the_same_without_memory(tmp_path):
    made = MADE["image"]()
    prints = {name: Ragged.of(one[name] for one in made) for name in image_fingerprints.METHODS}
    whole = ImageMatcher(prints, SETTINGS).keys
    with Engine(tmp_path, NOTHING).used():
        small = ImageMatcher(prints, SETTINGS).keys
    assert len(whole.values)
    assert np.array_equal(small.values, whole.values)
    assert np.array_equal(small.offsets, whole.offsets)


def test_keys_of_recordings_are_laid_together_in_files(tmp_path):
    """They lay in memory, with three arrays of places of all of them: 939 MB of 200,000 recordings."""
    rng = np.random.default_rng(0)
    parts = [Ragged.of([rng.integers(0, 9, size, np.uint64) for size in sizes]) for sizes in ((3, 0, 2), (1, 4, 0))]
    with Engine(tmp_path, NOTHING).used():
        both = together(parts)
    assert lies_in_file(both.values)
    for at in range(3):
        assert both[at].tolist() == [*parts[0][at].tolist(), *parts[1][at].tolist()]
