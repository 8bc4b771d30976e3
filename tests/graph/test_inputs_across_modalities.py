"""Steps whose inputs are tables of other modalities: what their stamps say, and which edges they have in the graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.definitions.partitions.context import partition_loading_context

from mmlake import pipeline, schemas
from mmlake.errors import MmlakeError
from mmlake.lake import Lake
from mmlake.steps import CORPUS_STEPS, OVER_ALL, ROW_STEPS, SAMPLES_STEP, Step, is_current, run_step
from mmlake.steps.step import Job
from mmlake.tables import Slot
from mmlake_assets.factory import corpus_asset, row_asset
from mmlake_assets.partitions import SHARD_SETS, row_key
from mmlake_resources import CudaExecutorResource, LakeResource
from tests import make


def _blobs(job: Job) -> pa.Table:
    """A blob per item of the picture's shard, texts included."""
    own, others = job.read("items"), job.read_held(["text/items"])
    items = pa.concat_tables([own, *others])
    digests = sorted(set(items["digest"].to_pylist()))
    rows = [{"digest": digest, "num_occurrences": 1, "size_bytes": 1, "status": "ok"} for digest in digests]
    return schemas.from_rows(schemas.BLOBS, rows)


ECHO = Step(
    name="blobs",
    stage="store",
    schema=schemas.BLOBS,
    code_version="1",
    make=_blobs,
    check=lambda job, table: table.num_rows,
    inputs=("items", "text/items"),
    description="Blobs of pictures and of the texts of the same shard.",
)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A shard of a picture with its caption, and one of a picture alone."""
    make.land(
        tmp_path / "landing",
        {
            "both.tar": make.tar({"0.png": make.picture(1), "0.txt": b"A cat."}),
            "alone.tar": make.tar({"1.png": make.picture(2)}),
        },
    )
    made = Lake(tmp_path / "lake", landing=tmp_path / "landing")
    pipeline.refresh(made)
    for modality in made.parts.modalities:
        for shard in made.registry.keys(modality):
            run_step(ROW_STEPS["items"], made, modality, shard)
    return made


def _version(lake: Lake, modality: str, shard: str) -> str:
    return lake.tables.stamp(Slot("items", modality, shard)).data_version


def test_a_step_reads_the_tables_of_other_modalities_that_its_shard_has(lake: Lake) -> None:
    both, alone = (run_step(ECHO, lake, "image", shard) for shard in ("both.tar", "alone.tar"))
    assert (both.stamp.num_rows, alone.stamp.num_rows) == (2, 1)
    own, other = _version(lake, "image", "both.tar"), _version(lake, "text", "both.tar")
    assert both.stamp.inputs == {"image/items": own, "text/items": other}
    assert alone.stamp.inputs == {"image/items": _version(lake, "image", "alone.tar")}


def test_a_table_is_made_again_when_the_one_of_the_other_modality_changes_comes_or_goes(lake: Lake) -> None:
    run_step(ECHO, lake, "image", "both.tar")
    assert is_current(ECHO, lake, "image", "both.tar")
    lake.tables.remove(Slot("items", "text", "both.tar"))
    assert not is_current(ECHO, lake, "image", "both.tar")
    assert run_step(ECHO, lake, "image", "both.tar").stamp.num_rows == 1
    run_step(ROW_STEPS["items"], lake, "text", "both.tar")
    assert not is_current(ECHO, lake, "image", "both.tar")


def test_an_input_of_the_same_modality_has_to_be_there(lake: Lake) -> None:
    lake.tables.remove(Slot("items", "image", "both.tar"))
    with pytest.raises(MmlakeError, match=r"image/items\[both\.tar\] has not been made"):
        run_step(ECHO, lake, "image", "both.tar")


def test_samples_are_made_by_the_step_that_makes_every_table(lake: Lake) -> None:
    made = run_step(SAMPLES_STEP, lake, OVER_ALL, "both.tar")
    assert made.stamp.counts == {"accounted": 2, "occurrences": 1, "image": 1}
    assert made.stamp.inputs.keys() == {"image/items", "text/items"}
    assert is_current(SAMPLES_STEP, lake, OVER_ALL, "both.tar")
    assert run_step(SAMPLES_STEP, lake, OVER_ALL, "both.tar").reused
    lake.tables.remove(Slot("items", "text", "both.tar"))
    assert run_step(SAMPLES_STEP, lake, OVER_ALL, "both.tar").stamp.counts["accounted"] == 1


def _graph() -> dg.Definitions:
    over_all = replace(CORPUS_STEPS["near_duplicates"], inputs=("items", "text/items"))
    items = [row_asset(ROW_STEPS["items"], modality) for modality in ("image", "text")]
    assets = [*items, row_asset(ECHO, "image"), corpus_asset(over_all, "image")]
    resources = {"lake": LakeResource(root="lake"), "compute": CudaExecutorResource(device="cpu")}
    return dg.Definitions(assets=assets, resources=resources)


def test_no_edge_leads_to_a_partition_that_another_modality_may_not_have() -> None:
    """A backfill that meets a parent partition which is not registered fails with all of its assets."""
    graph = _graph().resolve_asset_graph()
    assert graph.get(dg.AssetKey(["image", "blobs"])).parent_keys == {dg.AssetKey(["image", "items"])}


def test_a_table_over_all_shards_depends_on_whatever_shards_the_other_modality_has() -> None:
    graph = _graph().resolve_asset_graph()
    node = graph.get(dg.AssetKey(["image", "near_duplicates"]))
    texts = graph.get(dg.AssetKey(["text", "items"]))
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(SHARD_SETS["text"], ["a.jsonl", "b.jsonl"])
        with partition_loading_context(dynamic_partitions_store=instance):
            wanted = node.partitions_def.subset_with_partition_keys(["image"])
            mapped = node.partition_mappings[texts.key].get_upstream_mapped_partitions_result_for_partitions(
                wanted, node.partitions_def, texts.partitions_def, dynamic_partitions_store=instance
            )
            found = set(mapped.partitions_subset.get_partition_keys())
    assert found == {row_key("text", "a.jsonl"), row_key("text", "b.jsonl")}
    assert not mapped.required_but_nonexistent_partition_keys
