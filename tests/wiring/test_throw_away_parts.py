"""A part of each kind is added by a row alone, and used from the landing zone to the training shards."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mmlake import pipeline, publish
from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.loader import ShardStream
from mmlake.parts import BUILT_IN
from mmlake.publish.version import publish_version
from mmlake.tables import Slot
from tests import make
from tests.wiring import throw_away


def off(*points: tuple[float, float, float]) -> bytes:
    return "\n".join(["OFF", f"{len(points)} 0 0", *(" ".join(map(str, one)) for one in points)]).encode() + b"\n"


CORNER = ((0, 0, 0), (3, 0, 0), (0, 2, 0), (0, 0, 1))
FILES = {
    "meshes/corner.off": off(*CORNER),
    "meshes/corner-again.off": off(*CORNER[::-1]),
    "meshes/plane.off": off((0, 0, 0), (7, 0, 0), (0, 9, 0)),
    "meshes/far.off": off((0, 0, 0), (900, 0, 1), (0, 2, 0)),
    "meshes/torn.off": b"OFX\n",
    "text/a.jsonl": make.jsonl(["A document that has enough words in it to pass for one, and then a few words more."]),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> Lake:
    base = tmp_path_factory.mktemp("mesh")
    make.land(base / "landing", FILES)
    lake = Lake(base / "lake", landing=base / "landing", parts=throw_away.parts())
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    publish.update_samples(lake)
    publish.update_catalog(lake)
    name, _ = publish.needs_version(lake, "curated")
    publish_version(lake, name)
    return lake


def verdicts(lake: Lake) -> dict[str, str | None]:
    """Name of the file -> rule."""
    rules = {}
    for shard in lake.tables.shards("verdicts", "mesh"):
        found = lake.tables.read(Slot("verdicts", "mesh", shard)).to_pylist()
        rules[shard.rpartition("/")[2]] = found[0]["rule"]
    return rules


def test_the_connector_the_decoder_the_rules_and_the_scorer_of_a_new_modality_are_used(lake):
    assert verdicts(lake) == {
        "corner.off": None,
        "corner-again.off": None,
        "plane.off": "flat",
        "far.off": "too_far",
        "torn.off": "undecodable",
    }


def test_the_tier_and_the_encoder_of_a_new_modality_are_used(lake):
    near = lake.tables.read(Slot("near_duplicates", "mesh")).to_pylist()
    assert [(row["method"], row["score"]) for row in near] == [("coordinate-sum", 1.0)]
    vectors = lake.tables.concat("embeddings", "mesh").to_pylist()
    assert {row["encoder"] for row in vectors} == {"extent"}
    assert len(vectors) == 4  # all that decode, judged well or not


def test_the_catalog_a_version_and_the_loader_have_the_items_of_a_new_modality(lake):
    assert lake.catalog.read(["modality"]).column("modality").to_pylist().count("mesh") == 5
    version = lake.versions.read("curated")
    meshes = list(ShardStream(lake.shards_dir / version.id, modality="mesh", shuffle=False))
    assert len(meshes) == 2
    assert all(sample["off" if "off" in sample else "bin"].startswith(b"OFF") for sample in meshes)


def test_the_part_of_each_kind_stands_in_one_file_that_changes_no_table():
    source = ast.parse(Path(throw_away.__file__).read_text())
    stored = [node for node in ast.walk(source) if isinstance(node, (ast.Subscript, ast.Attribute))]
    assert [node for node in stored if not isinstance(node.ctx, ast.Load)] == []
    assert "mesh" not in BUILT_IN.modalities
    assert "off" not in BUILT_IN.connectors


def test_a_modality_that_no_table_has_is_refused(tmp_path):
    lake = Lake(tmp_path / "lake", landing=tmp_path)
    for ask in (lake.parts.modality, lake.encoder_of, lambda name: pipeline.run_tables(lake, modalities=[name])):
        with pytest.raises(SettingsError, match="'smell', expected one of text, image, video, audio"):
            ask("smell")
