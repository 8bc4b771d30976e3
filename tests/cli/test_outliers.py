"""`mmlake outliers` on a real lake."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from mmlake.cli.app import app
from mmlake.lake import Lake
from mmlake.records import ADMITTED


@pytest.fixture
def lake(done) -> Path:
    return Path(done.resource.root)


def listed(lake: Path, *words: str) -> list[dict]:
    result = CliRunner().invoke(app, ["outliers", "--lake", str(lake), "--json", *words])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["outliers"]


def test_units_are_listed_by_how_alone_they_are_and_each_names_its_nearest(lake: Path) -> None:
    found = listed(lake, "--limit", "5")
    assert found
    rows = {
        row["digest"]: row
        for row in Lake(lake).catalog.read(["digest", "modality", "status", "is_survivor"]).to_pylist()
    }
    for one in found:
        assert 0 <= one["nearest_distance"] <= one["distance"] + 1e-4 <= 2
        assert one["nearest"] != one["digest"]
        for digest in (one["digest"], one["nearest"]):
            row = rows[digest]
            assert (row["modality"], row["is_survivor"], row["status"] in ADMITTED) == (one["modality"], True, True)
    for modality in {one["modality"] for one in found}:
        distances = [one["distance"] for one in found if one["modality"] == modality]
        assert distances == sorted(distances, reverse=True)
        assert len(distances) <= 5


def test_one_modality_may_be_asked_for_and_the_table_has_a_line_per_unit(lake: Path) -> None:
    names = pc.unique(Lake(lake).catalog.read(["modality"])["modality"]).to_pylist()
    for name in names:
        assert {one["modality"] for one in listed(lake, "--modality", name)} <= {name}
    shown = CliRunner().invoke(app, ["outliers", "--lake", str(lake), "--limit", "1"])
    assert shown.exit_code == 0
    assert all(one["digest"][:12] in shown.stdout for one in listed(lake, "--limit", "1"))
