"""The cost ledger and the precompute plan."""

from __future__ import annotations

import pytest

from mmlake.costs import Prices, precompute_plan, stage_costs
from mmlake.errors import SettingsError
from mmlake.tables import Slot, Stamp

# 0.0001 USD a CPU second, 0.001 a GPU second
PRICES = Prices(usd_per_cpu_hour=0.36, usd_per_gpu_hour=3.6, usd_per_gb_month=0.02, usd_per_gb_egress=0.1)


def stamp(
    *, rows: int = 10, seconds: float = 2.0, cpu: float = 4.0, size: int = 1000, media: int = 500, **counts: int
) -> Stamp:
    made = {"data_version": "0" * 64, "schema_version": 1, "code_version": "1", "settings_digest": "s", "inputs": {}}
    return Stamp(
        **made, num_rows=rows, size_bytes=size, counts=counts, seconds=seconds, cpu_seconds=cpu, media_bytes=media
    )


def test_partitions_of_one_step_and_modality_add_up():
    row = stage_costs(
        {"image/tracks[a]": stamp(), "image/tracks[b/c]": stamp(rows=5, seconds=1.0)}, prices=PRICES
    ).to_pylist()[0]
    assert (row["stage"], row["modality"], row["num_partitions"], row["num_items"]) == ("tracks", "image", 2, 15)
    assert (row["seconds"], row["items_per_s"], row["media_bytes"], row["table_bytes"]) == (3.0, 5.0, 1000, 2000)


def test_cost_is_cpu_time_at_the_cpu_price():
    row = stage_costs({"image/tracks[a]": stamp()}, prices=PRICES).to_pylist()[0]
    assert row["cost_usd"] == pytest.approx(4 * 0.0001)
    assert row["usd_per_1000_items"] == pytest.approx(4 * 0.0001 * 100)


def test_a_step_on_a_gpu_pays_for_its_wall_time_as_well():
    row = stage_costs({"image/embeddings[a]": stamp()}, prices=PRICES, gpu_stages=["embeddings"]).to_pylist()[0]
    assert row["gpu_seconds"] == 2.0
    assert row["cost_usd"] == pytest.approx(4 * 0.0001 + 2 * 0.001)


def test_items_are_those_accounted_for_where_rows_are_something_else():
    assert stage_costs({"image/measures[a]": stamp(rows=60, accounted=10)}).to_pylist()[0]["num_items"] == 10


def test_slots_and_their_texts_give_the_same_ledger():
    assert stage_costs({Slot("tracks", "image", "a"): stamp()}).equals(stage_costs({"image/tracks[a]": stamp()}))


def test_rows_come_in_data_order_and_end_with_the_total():
    table = stage_costs(
        {
            "text/verdicts[a]": stamp(),
            "text/items[a]": stamp(rows=7),
            "image/items[a]": stamp(rows=4),
            "text/duplicate_clusters": stamp(),
            "all/catalog": stamp(),
        }
    )
    assert [(row["stage"], row["modality"]) for row in table.to_pylist()] == [
        ("items", "image"),
        ("items", "text"),
        ("verdicts", "text"),
        ("duplicate_clusters", "text"),
        ("catalog", "all"),
        ("total", "all"),
    ]
    assert table.to_pylist()[-1]["num_items"] == 11
    assert table.to_pylist()[-1]["seconds"] == 10.0


def test_no_stamps_give_an_empty_ledger_and_no_time_gives_no_rate():
    assert stage_costs({}).num_rows == 0
    row = stage_costs({"text/items[a]": stamp(rows=0, seconds=0.0, cpu=0.0)}).to_pylist()[0]
    assert (row["items_per_s"], row["usd_per_1000_items"]) == (None, None)


def test_a_text_that_is_no_slot_is_refused():
    with pytest.raises(SettingsError, match="no slot"):
        stage_costs({"tracks": stamp()})


def plan(*, size: int, reads: float, prices: Prices = PRICES) -> dict:
    return precompute_plan(
        stage_costs({"image/tracks[a]": stamp()}, prices=prices),
        {"image/tracks": size},
        reads_per_month=reads,
        prices=prices,
    ).to_pylist()[0]


def test_break_even_is_storage_over_the_cost_of_one_recomputation():
    row = plan(size=2_000_000_000, reads=1)
    assert row["store_usd_per_month"] == pytest.approx(0.04)
    assert row["recompute_usd_per_read"] == pytest.approx(0.0004)
    assert row["break_even_reads_per_month"] == pytest.approx(100)


@pytest.mark.parametrize(("reads", "decision"), [(99, "recompute"), (101, "precompute")])
def test_the_decision_turns_at_the_break_even(reads, decision):
    row = plan(size=2_000_000_000, reads=reads)
    assert row["decision"] == decision
    assert "storing pays above 100 reads" in row["reason"]


def test_reads_from_another_region_pay_for_what_they_move():
    afar = Prices(usd_per_cpu_hour=0.36, usd_per_gb_month=0.02, usd_per_gb_egress=0.1, egress_fraction=0.5)
    row = plan(size=2_000_000_000, reads=10, prices=afar)
    assert row["store_usd_per_month"] == pytest.approx(0.04 + 10 * 2 * 0.1 * 0.5)
    assert row["break_even_reads_per_month"] is None


def test_sizes_default_to_the_tables_own_and_unknown_artifacts_are_refused():
    costs = stage_costs({"image/tracks[a]": stamp(size=1234)})
    assert precompute_plan(costs, {}, reads_per_month=1).to_pylist()[0]["stored_bytes"] == 1234
    with pytest.raises(SettingsError, match="no cost"):
        precompute_plan(costs, {"image/trakcs": 1}, reads_per_month=1)


def test_a_negative_or_missing_number_of_reads_is_refused():
    costs = stage_costs({"image/tracks[a]": stamp()})
    for reads in (-1.0, {}):
        with pytest.raises(SettingsError, match="reads_per_month"):
            precompute_plan(costs, {}, reads_per_month=reads)
