"""A selection comes out the same however many source shards are in memory at a time."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmlake.recipes import Quota
from mmlake.versions import sample_batches, select
from tests.versions.sample_rows import _SAMPLES, CURATED, caption, catalog_of, catalog_row, name, part, picture, sample


def _tables(choices) -> tuple[pa.Table, list[pa.Table]]:
    """Catalog rows 0 to 7 and a table of samples per shard: pictures with captions and documents, some of them in
    several shards, some with the same leading part."""
    rows = [catalog_row(number) for number in range(6)]
    rows += [catalog_row(6, status="quarantined", rule="blank", reason="luma=0"), catalog_row(7, tier="near")]
    rows[7]["survivor"] = name(0)
    by_shard: dict[str, dict[str, dict]] = {}
    for shard, source, lead, words in choices:
        parts = [part(lead)] if words is None else [picture(lead), caption(words)]
        one = sample(*parts) | {"shard": f"{source}/{shard}", "source": source, "num_occurrences": 1 + lead % 2}
        one["sample_ids"] = [f"{source}/{shard}#{lead}"]
        by_shard.setdefault(one["shard"], {})[one["sample"]] = one
    schema = _SAMPLES
    tables = [pa.Table.from_pylist([*by_shard[shard].values()], schema=schema) for shard in sorted(by_shard)]
    samples = [one for shard in sorted(by_shard) for one in by_shard[shard].values()]
    return catalog_of(rows, samples), [schema.empty_table(), *tables]


_LEAD, _WORDS = st.integers(0, 7), st.none() | st.integers(0, 7)
_SAMPLE = st.tuples(st.integers(0, 3), st.sampled_from(["news", "web"]), _LEAD, _WORDS)
_WITH_QUOTA = replace(CURATED, quotas=(Quota(by="source", at_most=2),))


@pytest.mark.parametrize("recipe", [CURATED, _WITH_QUOTA], ids=["curated", "quota"])
@given(choices=st.lists(_SAMPLE, max_size=24), rows=st.integers(1, 6))
def test_batches_of_any_size_select_what_one_table_selects(recipe, choices, rows):
    catalog, tables = _tables(choices)
    more = {"priority": lambda source: {"web": 1, "news": 2}[source]}
    whole = select(catalog, pa.concat_tables(tables), recipe, **more)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_batches, "BATCH_ROWS", rows)
        parted = select(catalog, lambda: iter(tables), recipe, **more)
    assert parted.samples.to_pylist() == whole.samples.to_pylist()
    assert parted.excluded.to_pylist() == whole.excluded.to_pylist()


def test_no_more_shards_are_held_than_a_batch_has(monkeypatch):
    catalog, tables = _tables([(shard, "news", lead, shard) for shard in range(4) for lead in range(6)])
    held = []
    monkeypatch.setattr(sample_batches, "BATCH_ROWS", 6)
    grouped = sample_batches.Samples.of
    monkeypatch.setattr(sample_batches.Samples, "of", lambda table: held.append(table.num_rows) or grouped(table))
    select(catalog, lambda: iter(tables), CURATED)
    assert held and max(held) == 6
