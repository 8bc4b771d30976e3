"""Many small segments are counted at once, and add up to what each of them counts."""

from __future__ import annotations

import pyarrow as pa

from mmlake.versions import counts
from tests.versions.sample_rows import chosen, of_shards


def test_segments_of_a_few_samples_are_counted_together(monkeypatch) -> None:
    """What one more shard costs is its rows, not a handful of group-bys."""
    asked: list[int] = []
    sums = counts._sums
    monkeypatch.setattr(counts, "_sums", lambda names, values: asked.append(len(names)) or sums(names, values))
    samples = _samples()
    tally = counts.Tally()
    for at in range(samples.num_rows):
        tally.add_samples(samples.slice(at, 1))
    found = tally.counts()
    assert len(asked) == 4
    whole = counts.Tally()
    whole.add_samples(samples)
    assert found == whole.counts()


def test_no_more_rows_wait_than_a_large_segment_has(monkeypatch) -> None:
    monkeypatch.setattr(counts, "MAX_SAMPLES", 4)
    samples, tally, most = _samples(), counts.Tally(), 0
    for at in range(samples.num_rows):
        tally.add_samples(samples.slice(at, 1))
        most = max(most, sum(one.num_rows for one in tally._waiting))
    whole = counts.Tally()
    whole.add_samples(samples)
    assert (most, tally.counts()) == (3, whole.counts())


def _samples() -> pa.Table:
    """The samples of three shards."""
    rows, samples = of_shards(5, 3, 4)
    return chosen(rows, samples).samples
