"""The whole graph through Dagster, in process."""

from __future__ import annotations

import os
import time
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq
import pytest
from dagster._core.definitions.data_version import DATA_VERSION_TAG, get_input_data_version_tag

from mmlake import pipeline, publish
from mmlake.catalog import CATALOG_SCHEMA
from mmlake.errors import MmlakeError, RemoteUnavailable
from mmlake.lake import Lake
from mmlake.modalities import MODALITIES
from mmlake.provenance import read_chain
from mmlake.publish.catalog import catalog_slot
from mmlake.publish.results import result_path
from mmlake.publish.version import publish_version
from mmlake.steps import corpus_steps, row_steps
from mmlake.summary import summarize
from mmlake.tables import Slot
from mmlake_assets import checks, definitions, run
from mmlake_assets.partitions import row_key
from mmlake_assets.version_columns import VERSION_COLUMNS
from mmlake_resources import CudaExecutorResource
from tests import make


def _latest(done, key: list[str], partition: str) -> dg.AssetMaterialization:
    records = done.instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=dg.AssetKey(key), asset_partitions=[partition]), limit=1
    ).records
    return records[0].asset_materialization


def test_every_table_of_every_partition_is_made(done) -> None:
    lake = done.lake
    for modality in MODALITIES:
        for shard in lake.registry.keys(modality):
            assert all(lake.tables.has(step.name, modality, shard) for step in row_steps(MODALITIES[modality]))
        assert all(lake.tables.has(step.name, modality) for step in corpus_steps(MODALITIES[modality]))
    assert list(done.versions.values()) == ["everything-v001", "curated-v001"]


def test_each_partition_has_an_event_with_the_data_version_of_its_own_table(done) -> None:
    for modality in MODALITIES:
        for shard in done.lake.registry.keys(modality):
            event = _latest(done, [modality, "tracks"], row_key(modality, shard))
            assert event.tags[DATA_VERSION_TAG] == done.lake.tables.stamp(Slot("tracks", modality, shard)).data_version


def test_each_event_names_the_very_versions_that_its_partition_was_made_from(done) -> None:
    items, tracks = (dg.AssetKey(["image", name]) for name in ("items", "tracks"))
    for shard in done.lake.registry.keys("image"):
        event = _latest(done, ["image", "tracks"], row_key("image", shard))
        assert (
            event.tags[get_input_data_version_tag(items)]
            == done.lake.tables.stamp(Slot("items", "image", shard)).data_version
        )
        later = _latest(done, ["image", "fingerprints"], row_key("image", shard))
        assert (
            later.tags[get_input_data_version_tag(tracks)]
            == done.lake.tables.stamp(Slot("tracks", "image", shard)).data_version
        )


def test_the_rows_that_went_in_are_accounted_for_in_every_modality(done) -> None:
    for one in summarize(done.lake).modalities:
        assert one.num_rows == sum(one.statuses.values())
    assert {one.modality: one.num_rows for one in summarize(done.lake).modalities} == {
        "text": 7,
        "image": 6,
        "video": 1,
        "audio": 2,
    }


def test_planted_defects_and_duplicates_are_found(done) -> None:
    by_modality = {one.modality: one for one in summarize(done.lake).modalities}
    assert by_modality["text"].rules == {"text_too_short": 1}
    assert by_modality["text"].duplicates == {"exact": 1, "near": 1, "semantic": 0}
    assert by_modality["image"].duplicates["exact"] == 1
    assert by_modality["image"].statuses["unreadable"] == 1


def test_all_checks_pass(done) -> None:
    for check in [
        checks.contract_check(step, modality)
        for modality in MODALITIES
        for step in (*row_steps(MODALITIES[modality]), *corpus_steps(MODALITIES[modality]))
    ]:
        for key in check.check_keys:
            record = done.instance.event_log_storage.get_asset_check_execution_history(key, limit=1)[0]
            assert record.event.asset_check_evaluation.passed, key


def test_the_contracts_of_samples_catalog_manifest_and_shards_were_checked_in_the_run_and_passed(done) -> None:
    lanes = [[modality, name] for modality in MODALITIES for name in ("catalog", "dead_letters")]
    for key in (["samples"], *lanes, ["manifest"], ["training_shards"]):
        record = done.instance.event_log_storage.get_asset_check_execution_history(
            dg.AssetCheckKey(dg.AssetKey(key), "contract"), limit=1
        )[0]
        assert record.event.asset_check_evaluation.passed, key


def test_rotten_shards_and_lost_catalog_rows_break_their_contracts(own) -> None:
    lake = own.lake
    tar = next((lake.shards_dir / lake.versions.resolve("curated")).glob("*.tar"))
    data = bytearray(tar.read_bytes())
    data[600] ^= 1
    tar.write_bytes(bytes(data))
    with pytest.raises(MmlakeError, match="training_shards again"):
        publish.recheck_shards(lake, "curated-v001")
    kept = lake.catalog.read(["digest"]).column("digest").to_pylist()[1:]
    lake.catalog.remove_absent(kept)
    with pytest.raises(MmlakeError, match="1 were lost"):
        publish.recheck_catalog(lake)


def test_the_manifest_holds_the_diversity_of_each_embedding_space(done) -> None:
    block = done.lake.versions.read("everything-v001").diversity
    assert set(block) == set(MODALITIES)
    assert block["text"]["encoder"] == "minilm-l6"
    assert sum(block["text"]["histogram"]) == block["text"]["num_items"] > 2
    assert 0 <= block["text"]["normalized_entropy"] <= 1


def test_what_is_made_per_version_has_the_columns_that_its_page_shows(done) -> None:
    lake, version = done.lake, "curated-v001"
    documents = {name: publish.read_result(lake, version, name) for name in publish.VERSION_STEPS}
    _, chain = read_chain(lake.root / documents["provenance"]["chain"])
    spaces = [{"space": name, **space} for name, space in documents["diversity"]["spaces"].items()]
    held = {
        "manifest": lake.versions.samples(version).slice(0, 1).to_pylist(),
        "diversity": spaces,
        "training_shards": documents["training_shards"]["shards"],
        "probe_scores": pq.read_table(result_path(lake, version, "probe_scores", "parquet")).slice(0, 1).to_pylist(),
        "publication": [{"check": name, "problem": said} for name, said in documents["publication"]["checks"].items()],
        "provenance": [row for row in chain if row["kind"] == "table"],
    } | {name: documents[name]["rows"] for name in ("decision", "stage_costs", "precompute_plan")}
    assert {name: set(rows[0]) for name, rows in held.items()} == {
        name: {column.name for column in columns} for name, columns in VERSION_COLUMNS.items()
    }
    assert set(lake.catalog.read(CATALOG_SCHEMA.names).column_names) == set(CATALOG_SCHEMA.names)


def test_the_catalog_of_one_modality_is_materialized_alone(own) -> None:
    """`dagster asset materialize --select image/catalog --partition image`, or the same in the UI."""
    own.lake.tables.remove(catalog_slot("image"))
    before = {modality: own.lake.tables.stamp(catalog_slot(modality)) for modality in MODALITIES}
    version = own.lake.catalog.data_version("image")
    defs = definitions.build(own.resource, CudaExecutorResource(device="cpu"))
    result = dg.materialize(
        [asset for asset in defs.assets if asset.key == dg.AssetKey(["image", "catalog"])],
        instance=own.instance,
        partition_key="image",
        resources={"lake": own.resource},
    )
    assert [(one.asset_key.path, one.partition) for one in result.get_asset_materialization_events()] == [
        (["image", "catalog"], "image")
    ]
    after = {modality: own.lake.tables.stamp(catalog_slot(modality)) for modality in MODALITIES}
    assert [modality for modality in MODALITIES if after[modality] != before[modality]] == ["image"]
    assert after["image"].data_version == version
    assert publish.catalog_is_current(own.lake)


def test_a_run_over_a_changed_text_updates_the_catalog_of_texts_alone(own) -> None:
    before = {modality: own.lake.tables.stamp(catalog_slot(modality)) for modality in MODALITIES}
    make.land(own.lake.landing.root, {"text/new.jsonl": make.jsonl([make.prose(31)])})
    own.again()
    after = {modality: own.lake.tables.stamp(catalog_slot(modality)) for modality in MODALITIES}
    assert [modality for modality in MODALITIES if after[modality] != before[modality]] == ["text"]


def test_a_second_run_does_nothing(done) -> None:
    again = done.again()
    assert again.runs == []
    assert again.versions == done.versions


def _trees(lake: Lake) -> dict[str, str]:
    """Tag -> what its version holds, whoever made it and when."""
    return {tag: lake.versions.read(tag).tree for tag in lake.versions.tags()}


def test_the_plain_pipeline_ends_at_the_same_manifests(done, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "plain", landing=done.lake.landing)
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    publish.update_samples(lake)
    publish.update_catalog(lake)
    for recipe in ("everything", "curated"):
        publish_version(lake, publish.needs_version(lake, recipe)[0])
    assert _trees(lake) == _trees(done.lake)


def test_a_changed_shard_remakes_its_own_tables_only(own) -> None:
    lake = own.lake
    before = {shard: lake.tables.stamp(Slot("tracks", "text", shard)) for shard in lake.registry.keys("text")}
    path = lake.landing.root / "text" / "a.jsonl"
    path.write_bytes(make.jsonl([make.prose(1), make.prose(2), make.prose(3), make.prose(9)]))
    os.utime(path, (time.time(), time.time() + 5))
    again = own.again()
    after = {shard: lake.tables.stamp(Slot("tracks", "text", shard)) for shard in lake.registry.keys("text")}
    assert after["text/a.jsonl"].data_version != before["text/a.jsonl"].data_version
    assert after["text/b.jsonl"] == before["text/b.jsonl"]
    assert again.versions == {"everything": "everything-v002", "curated": "curated-v002"}


def test_a_run_killed_between_any_two_tables_converges_to_the_same_manifest(
    done, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables of an interrupted run are taken up, whichever was the last to be finished."""
    from mmlake.tables import Tables

    lake = Lake(tmp_path / "killed", landing=done.lake.landing)
    pipeline.refresh(lake)
    put, allowed = Tables._stamped, [0]

    def failing(self, *args, **kwargs):
        allowed[0] -= 1
        if allowed[0] < 0:
            raise KeyboardInterrupt
        return put(self, *args, **kwargs)

    monkeypatch.setattr(Tables, "_stamped", failing)
    for budget in (1, 2, 3, 5, 8, 11, 1000):
        allowed[0] = budget
        try:
            pipeline.run_tables(lake)
        except KeyboardInterrupt:
            continue
    publish.update_samples(lake)
    publish.update_catalog(lake)
    for recipe in ("everything", "curated"):
        publish_version(lake, publish.needs_version(lake, recipe)[0])
    assert _trees(lake) == _trees(done.lake)


def test_a_failing_partition_leaves_the_good_ones_logged_and_fails_the_run(
    own, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mmlake_assets import definitions

    lake = own.lake
    for shard in lake.registry.keys("text"):
        lake.tables.remove(Slot("items", "text", shard))
    (lake.landing.root / "text" / "b.jsonl").unlink()
    job = definitions.build(own.resource, definitions.CudaExecutorResource(device="cpu")).resolve_job_def("text_rows")
    tags = {
        "dagster/asset_partition_range_start": "text|text/a.jsonl",
        "dagster/asset_partition_range_end": "text|text/b.jsonl",
    }
    result = job.execute_in_process(
        instance=own.instance, tags=tags, raise_on_error=False, asset_selection=[dg.AssetKey(["text", "items"])]
    )
    assert not result.success
    logged = [event.partition for event in result.all_events if event.is_step_materialization]
    assert logged == ["text|text/a.jsonl"]


def test_a_run_that_a_person_stops_ends_as_stopped_and_not_as_failed() -> None:
    @dg.asset
    def stopped() -> None:
        raise dg.DagsterExecutionInterruptedError

    defs = dg.Definitions(assets=[stopped], jobs=[dg.define_asset_job("everything")], executor=dg.in_process_executor)
    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(KeyboardInterrupt):
        run._Runner(defs, instance, run.Ran(listing=None)).run("everything", {})


def test_a_failed_run_reports_its_cause_in_our_words_and_ends_with_its_exit_code(
    own, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a person reads after `mmlake run` is neither a class of Dagster nor half of the story."""
    (own.lake.landing.root / "text" / "a.jsonl").write_bytes(make.jsonl([make.prose(70)]))
    monkeypatch.setattr("mmlake.sources.ingested", _away)
    with pytest.raises(MmlakeError) as raised:
        own.again()
    assert raised.value.exit_code == RemoteUnavailable.exit_code
    assert "1 of 1 partitions failed, the others are done; text|text/a.jsonl: the bucket does not answer" in str(
        raised.value
    )
    assert "dagster." not in str(raised.value)


def _away(*_: object, **__: object) -> None:
    raise RemoteUnavailable("the bucket does not answer")
