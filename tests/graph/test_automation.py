"""Automation: new shards flow through by themselves, old versions never do."""

from __future__ import annotations

import dagster as dg
import pytest

from mmlake_assets import definitions
from mmlake_assets.partitions import SHARD_SETS, row_key


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


def test_the_stages_after_it_are_asked_for_together(instance) -> None:
    first = dg.evaluate_automation_conditions(definitions.defs, instance=instance)
    instance.add_dynamic_partitions(SHARD_SETS["audio"], ["audio/a.tar"])
    second = dg.evaluate_automation_conditions(definitions.defs, instance=instance, cursor=first.cursor)
    for name in ("items", "blobs", "tracks", "alignments", "measures", "verdicts", "fingerprints", "embeddings"):
        assert _asked(second, ["audio", name]) == {row_key("audio", "audio/a.tar")}, name


def test_one_modality_does_not_wake_another(instance) -> None:
    first = dg.evaluate_automation_conditions(definitions.defs, instance=instance)
    instance.add_dynamic_partitions(SHARD_SETS["audio"], ["audio/a.tar"])
    second = dg.evaluate_automation_conditions(definitions.defs, instance=instance, cursor=first.cursor)
    assert _asked(second, ["image", "items"]) == set()


def test_assets_of_a_version_are_never_asked_for() -> None:
    graph = definitions.defs.resolve_asset_graph()
    versioned = [
        key
        for key in graph.get_all_asset_keys()
        if graph.get(key).partitions_def is not None and graph.get(key).group_name == "versions"
    ]
    assert len(versioned) == 8
    assert [key for key in versioned if graph.get(key).automation_condition is not None] == []
