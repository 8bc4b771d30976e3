"""The asset graph as it stood when it was last inspected. `python -m tests.graph.test_snapshot` writes it anew."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg

from mmlake.modalities import MODALITIES
from mmlake_assets import definitions
from mmlake_assets.column_notes import note_of

SNAPSHOT = Path(__file__).parent / "graph.json"
GROUPS = (*MODALITIES, "lake", "versions")  # as the graph is read, from left to right


def graph() -> dict[str, dict[str, object]]:
    """Every asset with what makes it what it is, by key."""
    resolved = definitions.defs.resolve_asset_graph()
    found = {}
    for key in sorted(resolved.get_all_asset_keys(), key=lambda key: key.path):
        node = resolved.get(key)
        found[key.to_user_string()] = {
            "group": node.group_name,
            "stage": node.tags["mmlake/stage"],
            "deps": sorted(parent.to_user_string() for parent in node.parent_keys),
            "partitions": _partitions(node.partitions_def),
            "kinds": sorted(node.kinds),
            "checks": sorted(check.name for check in node.check_keys),
            "pools": sorted(node.pools or ()),
            "per_run": node.backfill_policy.max_partitions_per_run if node.backfill_policy else None,
        }
    return found


def _partitions(definition: dg.PartitionsDefinition | None) -> str | None:
    if isinstance(definition, dg.MultiPartitionsDefinition):
        return " x ".join(_partitions(dimension.partitions_def) or "" for dimension in definition.partitions_defs)
    if isinstance(definition, dg.DynamicPartitionsDefinition):
        return definition.name
    return "+".join(definition.get_partition_keys()) if definition is not None else None


def test_the_keys_are_those_of_the_snapshot() -> None:
    assert sorted(graph()) == sorted(json.loads(SNAPSHOT.read_text()))


def test_each_asset_is_as_in_the_snapshot() -> None:
    assert graph() == json.loads(SNAPSHOT.read_text())


def test_every_asset_page_is_filled() -> None:
    resolved = definitions.defs.resolve_asset_graph()
    for key in resolved.get_all_asset_keys():
        node = resolved.get(key)
        assert node.description and node.owners and node.kinds and node.code_version, key
        assert node.group_name in GROUPS and node.tags["mmlake/stage"], key


def test_each_group_is_one_lane_whose_nodes_have_names_of_their_own() -> None:
    """A node shows the last part of its key; of one modality nothing depends on another but what compares the two."""
    resolved = definitions.defs.resolve_asset_graph()
    for group in GROUPS:
        names = [key.path[-1] for key in resolved.get_all_asset_keys() if resolved.get(key).group_name == group]
        assert names and len(names) == len(set(names)), group
    for modality in MODALITIES:
        lane = [key for key in resolved.get_all_asset_keys() if resolved.get(key).group_name == modality]
        assert {key.path[0] for key in lane} == {modality}
        parents = {(key.path[1], parent) for key in lane for parent in resolved.get(key).parent_keys}
        foreign = {(name, *parent.path) for name, parent in parents if parent.path[0] != modality}
        carriers = {"text": ("video", "audio"), "image": ("video",), "audio": ("video",)}.get(modality, ())
        described = () if modality == "text" else ("items", "tracks")
        assert foreign == {
            *(("cross_pairs", carrier, "component_fingerprints") for carrier in carriers),
            *(("caption_scores", "text", table) for table in described),
        }


def test_every_table_has_a_blocking_contract_check_and_its_columns() -> None:
    resolved = definitions.defs.resolve_asset_graph()
    tables = [key for key in resolved.get_all_asset_keys() if len(key.path) == 2]
    assert len(tables) == 70
    assert {
        key.to_user_string()
        for key in resolved.get_all_asset_keys()
        if "contract" in {check.name for check in resolved.get(key).check_keys}
    } >= {
        "samples",
        "manifest",
        "training_shards",
    }
    for key in tables:
        assert "contract" in {check.name for check in resolved.get(key).check_keys}, key
        assert resolved.get(key).metadata["dagster/column_schema"].columns, key


def _columns() -> dict[str, list[dg.TableColumn]]:
    """Asset -> what its page shows."""
    resolved = definitions.defs.resolve_asset_graph()
    return {
        key.to_user_string(): resolved.get(key).metadata.get("dagster/column_schema", dg.TableSchema([])).columns
        for key in resolved.get_all_asset_keys()
    }


def test_every_asset_shows_its_columns() -> None:
    assert [asset for asset, columns in _columns().items() if not columns] == []


def test_every_column_says_what_it_means() -> None:
    columns = {(asset, column.name): column.description for asset, columns in _columns().items() for column in columns}
    assert [place for place, description in columns.items() if not description] == []
    assert note_of("recall_at_5") == "share of the right answers that are among the first 5"
    assert note_of("of nobody") is None


def test_every_sensor_says_what_it_does() -> None:
    assert all(sensor.description for sensor in definitions.defs.sensors)


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(graph(), indent=1, sort_keys=True) + "\n")
