"""Automation: new shards flow through by themselves, old versions never do."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster._core.definitions.data_version import DATA_VERSION_TAG

from mmlake.modalities import MODALITIES
from mmlake.pipeline import refresh
from mmlake.steps import row_steps
from mmlake_assets import definitions
from mmlake_assets.partitions import SHARD_SETS, row_key
from mmlake_resources import CudaExecutorResource
from tests import make


@pytest.fixture
def instance(tmp_path) -> dg.DagsterInstance:
    with dg.DagsterInstance.ephemeral(tempdir=str(tmp_path)) as made:
        yield made


def _asked(result: dg.EvaluateAutomationConditionsResult, key: list[str]) -> set[str]:
    return set(result.get_requested_partitions(dg.AssetKey(key)))


def test_a_shard_that_lands_is_asked_for(instance) -> None:
    first = dg.evaluate_automation_conditions(definitions.defs, instance=instance)
    instance.add_dynamic_partitions(SHARD_SETS["image"], ["image/a.tar"])
    second = dg.evaluate_automation_conditions(definitions.defs, instance=instance, cursor=first.cursor)
    assert _asked(first, ["image", "items"]) == set()
    assert _asked(second, ["image", "items"]) == {row_key("image", "image/a.tar")}


def test_a_shard_that_was_there_before_the_first_scan_is_asked_for_once(instance) -> None:
    instance.add_dynamic_partitions(SHARD_SETS["text"], ["text/a.jsonl"])
    first = dg.evaluate_automation_conditions(definitions.defs, instance=instance)
    second = dg.evaluate_automation_conditions(definitions.defs, instance=instance, cursor=first.cursor)
    assert _asked(first, ["text", "items"]) == {row_key("text", "text/a.jsonl")}
    assert _asked(second, ["text", "items"]) == set()


def test_the_stages_after_it_are_asked_for_together_and_no_other_modality_is(instance) -> None:
    first = dg.evaluate_automation_conditions(definitions.defs, instance=instance)
    instance.add_dynamic_partitions(SHARD_SETS["audio"], ["audio/a.tar"])
    second = dg.evaluate_automation_conditions(definitions.defs, instance=instance, cursor=first.cursor)
    asked = ("items", "blobs", "tracks", "alignments", "speakers", "measures", "verdicts", "fingerprints", "embeddings")
    for name in asked:
        assert _asked(second, ["audio", name]) == {row_key("audio", "audio/a.tar")}, name
    assert _asked(second, ["image", "items"]) == set()


def _run(own, *names: str, modality: str = "text", shard: str = "text/a.jsonl") -> None:
    """These assets of one shard, as a person materializes them."""
    job = definitions.build(own.resource, CudaExecutorResource(device="cpu")).resolve_job_def(f"{modality}_rows")
    key, selection = row_key(modality, shard), [dg.AssetKey([modality, name]) for name in names]
    assert job.execute_in_process(instance=own.instance, partition_key=key, asset_selection=selection).success


def _all_asked(result: dg.EvaluateAutomationConditionsResult) -> dict[str, set[str | None]]:
    return {
        one.key.to_user_string(): set(result.get_requested_partitions(one.key))
        for one in result.results
        if one.true_subset.size
    }


def test_a_run_that_finds_nothing_changed_asks_for_nothing_further(own) -> None:
    """Each event of an input asked for what follows from it: one shard materialized again caused seven runs."""
    first = dg.evaluate_automation_conditions(definitions.defs, instance=own.instance)
    _run(own, "items")
    second = dg.evaluate_automation_conditions(definitions.defs, instance=own.instance, cursor=first.cursor)
    assert _all_asked(first) == _all_asked(second) == {}


def test_a_shard_whose_items_changed_asks_for_what_follows_from_them_and_for_no_other_shard(own) -> None:
    first = dg.evaluate_automation_conditions(definitions.defs, instance=own.instance)
    (own.lake.landing.root / "text" / "a.jsonl").write_bytes(make.jsonl([make.prose(1), make.prose(77)]))
    refresh(own.lake)
    _run(own, "items")
    second = dg.evaluate_automation_conditions(definitions.defs, instance=own.instance, cursor=first.cursor)
    asked, key = _all_asked(second), row_key("text", "text/a.jsonl")
    rows = [f"text/{step.name}" for step in row_steps(MODALITIES["text"]) if step.name != "items"]
    assert {name: asked[name] for name in rows} == {name: {key} for name in rows}
    corpus = {
        f"text/{name}" for name in ("near_duplicates", "semantic_duplicates", "duplicate_clusters", "contamination")
    }
    over_all = corpus | {"text/catalog", "text/dead_letters", "samples"}
    # the texts may be captions; where they are none, both find their tables up to date
    over_all |= {f"{name}/{table}" for name in ("image", "video", "audio") for table in ("caption_scores", "catalog")}
    assert asked.keys() - set(rows) == over_all  # what reads items itself; the rest when its own inputs have changed
    third = dg.evaluate_automation_conditions(definitions.defs, instance=own.instance, cursor=second.cursor)
    assert _all_asked(third) == {}


def test_a_change_that_came_while_the_catalog_was_made_asks_for_it_again(own) -> None:
    """The run may have read the old table: eager() forgets the change when the run has ended or was asked for in the
    same tick, and the catalog stays without it."""
    first = dg.evaluate_automation_conditions(definitions.defs, instance=own.instance)
    _report(own, "one")
    second = dg.evaluate_automation_conditions(definitions.defs, instance=own.instance, cursor=first.cursor)
    _report(own, "two")
    third = dg.evaluate_automation_conditions(definitions.defs, instance=own.instance, cursor=second.cursor)
    fourth = dg.evaluate_automation_conditions(definitions.defs, instance=own.instance, cursor=third.cursor)
    asked = [_all_asked(one).keys() & {"text/catalog"} for one in (second, third, fourth)]
    assert asked == [{"text/catalog"}, {"text/catalog"}, set()]


def _report(own, value: str) -> None:
    """Other clusters, and a catalog that ended after them."""
    own.instance.report_runless_asset_event(
        dg.AssetMaterialization(["text", "duplicate_clusters"], partition="text", tags=_data_version(value))
    )
    own.instance.report_runless_asset_event(
        dg.AssetMaterialization(["text", "catalog"], partition="text", tags=_data_version("old"))
    )


def _data_version(value: str) -> dict[str, str]:
    return {DATA_VERSION_TAG: value, "dagster/data_version_is_user_provided": "true"}


def test_assets_of_a_version_are_never_asked_for() -> None:
    graph = definitions.defs.resolve_asset_graph()
    versioned = [
        key
        for key in graph.get_all_asset_keys()
        if graph.get(key).partitions_def is not None and graph.get(key).group_name == "versions"
    ]
    assert len(versioned) == 9
    assert [key for key in versioned if graph.get(key).automation_condition is not None] == []
