"""Units of one item in one call: what each becomes, and how often the item is opened."""

from __future__ import annotations

import io
import tracemalloc
from contextlib import contextmanager, nullcontext
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
import soundfile

from mmlake.border import IN_PROCESS, Failure
from mmlake.errors import ContractBroken, UnreadableItem
from mmlake.spans import Shared, Sound, by_parent, map_units, rows_of, span_of

ROWS = [{"digest": str(at), "parent_digest": "ab"[at // 4]} for at in range(6)]


class Crashing:
    """A runner whose worker ends when it is given more than one unit."""

    def map(self, kernel, items, *, code, what, advance=None):
        """See `mmlake.border.Runner`."""
        for item in items:
            yield Failure(3101, "the worker ended") if len(item) > 1 else kernel(item)


def made(make, runner=IN_PROCESS, groups=None):
    """What became of six units of two items, by name."""
    opened = lambda rows: nullcontext([row["digest"] for row in rows])
    found = map_units(runner, make, groups or by_parent(ROWS), opened=opened, code=5001, what="no number")
    return {row["digest"]: one for row, one in found}


def torn_at_two(digests):
    """Ends at the unit that raises, as a decoder does."""
    for digest in digests:
        if digest == "2":
            raise UnreadableItem(3001, "torn")
        yield int(digest)


def with_going_on(digests):
    return map(partial(_number, wrong="2"), digests)


def _number(digest, *, wrong):
    if digest == wrong:
        raise UnreadableItem(3001, "torn")
    return int(digest)


GOOD = {str(at): at for at in (0, 1, 3, 4, 5)}


@pytest.mark.parametrize("make", [torn_at_two, with_going_on])
@pytest.mark.parametrize("runner", [IN_PROCESS, Crashing()])
def test_one_unit_that_fails_costs_no_other(make, runner):
    assert made(make, runner) == GOOD | {"2": Failure(3001, "torn")}


def test_units_that_the_common_decode_does_not_reach_are_tried_alone_and_no_others():
    calls = []

    def make(digests):
        calls.append(tuple(digests))
        return torn_at_two(digests)

    made(make)
    assert calls == [("0", "1", "2", "3"), ("4", "5"), ("3",)]


def test_units_of_an_item_that_cannot_be_opened_each_say_so():
    @contextmanager
    def opened(rows):
        raise UnreadableItem(3003, "no sound")
        yield

    found = list(map_units(IN_PROCESS, torn_at_two, by_parent(ROWS), opened=opened, code=5001, what="no number"))
    assert sorted(row["digest"] for row, _ in found) == list("012345")
    assert {one for _, one in found} == {Failure(3003, "no sound")}


def test_a_kernel_that_gives_too_few_results_is_wrong():
    with pytest.raises(ContractBroken, match="no result for 0"):
        made(lambda digests: [])


class Places:
    """Counts how often each key is opened, and which are open."""

    def __init__(self):
        self.opened, self.open = [], set()

    @contextmanager
    def __call__(self, key):
        self.opened.append(key)
        self.open.add(key)
        yield key
        self.open.remove(key)


def test_what_consecutive_rows_want_is_opened_once_and_left_when_another_is_wanted():
    places = Places()
    with Shared() as shared:
        for key in "aaab":
            with shared.one(key, partial(places, key)) as value:
                assert value == key and places.open == {key}
        assert places.open == {"b"}
    assert places.opened == ["a", "b"] and not places.open


def test_what_is_in_hand_stays_open_while_another_is_wanted():
    places = Places()
    with Shared() as shared:
        with shared.one("a", partial(places, "a")):
            with shared.one("b", partial(places, "b")):
                assert places.open == {"a", "b"}
            with shared.one("a", partial(places, "a")):
                assert places.open == {"a"}
        assert places.opened == ["a", "b"]


def test_what_cannot_be_opened_is_tried_each_time():
    with Shared() as shared:
        for _ in range(2):
            with pytest.raises(OSError, match="no"), shared.one("a", lambda: (_ for _ in ()).throw(OSError("no"))):
                pass


@pytest.mark.parametrize("kind", ["FLAC", "WAV"])
def test_the_sound_of_a_span_is_its_own_samples(tmp_path, kind):
    samples = np.random.default_rng(0).uniform(-0.5, 0.5, 48_000).astype(np.float32)
    path = tmp_path / "a"
    soundfile.write(path, samples, 16_000, format=kind)
    whole, rate_hz = Sound(path.read_bytes()).samples()
    assert rate_hz == 16_000 and len(whole) == 48_000
    spans = [(0.0, 0.5), (0.5, 1.25), (1.25, 3.0), (2.9, 9.0), (5.0, 6.0)]
    parts = [Sound(path, span).samples()[0] for span in spans]
    bounds = [(0, 8_000), (8_000, 20_000), (20_000, 48_000), (46_400, 48_000), (48_000, 48_000)]
    assert all(np.array_equal(part, whole[low:high]) for part, (low, high) in zip(parts, bounds, strict=True))


def test_channels_become_one():
    sink = io.BytesIO()
    soundfile.write(sink, np.tile([[0.5, 0.0]], (100, 1)), 8_000, format="WAV")
    samples, rate_hz = Sound(sink.getvalue()).samples()
    assert rate_hz == 8_000 and samples == pytest.approx(np.full(100, 0.25), abs=1e-4)


def test_a_whole_item_has_no_span():
    assert span_of({"span_start_s": None, "span_end_s": None}) is None
    assert span_of({"span_start_s": 1.5, "span_end_s": 2.0}) == (1.5, 2.0)


def test_few_large_rows_are_python_objects_at_once():
    """A clip of 30 s has 240 signals of 35 numbers: 256 of them were 150 MB, and 256 lines of text are nothing."""
    large = pa.table({"at": range(40), "numbers": [np.arange(50_000, dtype=np.float32)] * 40})
    tracemalloc.start()
    for at, row in enumerate(rows_of(large, most_rows=256)):
        assert row["at"] == at
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 20 * 50_000 * 36  # 36 bytes each, of half of the rows
    small = pa.table({"at": range(1_000)})
    assert [row["at"] for row in rows_of(small, most_rows=256)] == list(range(1_000))
    assert list(rows_of(small.slice(0, 0), most_rows=256)) == []
