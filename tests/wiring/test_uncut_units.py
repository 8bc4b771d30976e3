"""A clip that cannot be cut: one row of `failed`, and a version of everything else."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import mmlake.cuts.cache as cache
from mmlake.cli.app import app
from mmlake.cuts import Uncut
from mmlake.errors import UnreadableItem
from mmlake.lake import Lake
from mmlake.publish.selected import without_uncut
from mmlake.version_report import write_version_report
from mmlake.versions import CATALOG_COLUMNS
from mmlake_assets import console
from mmlake_assets.instance import open_instance
from mmlake_assets.run import Ran, run_lake
from mmlake_resources import CudaExecutorResource, LakeResource
from tests.cuts.counted_films import counted_film

SETTINGS = """[units]
whole_up_to_s = 6.0
min_span_s = 2.0
target_span_s = 4.0
max_span_s = 8.0
"""


@pytest.fixture
def root(tmp_path) -> Any:
    (tmp_path / "in" / "films").mkdir(parents=True)
    counted_film(tmp_path / "in" / "films" / "fox.mp4", 300)
    (tmp_path / "settings.toml").write_text(SETTINGS)
    return tmp_path / "lake"


@pytest.fixture
def refused(monkeypatch) -> list[str]:
    """The first clip of the film gives up, whenever it is tried."""
    real, tried = cache.cut_film, list[str]()

    def cut(film: Any, out: Any, span: Any, **named: Any) -> Any:
        if span.start_us == 0:
            tried.append(span.digest)
            raise UnreadableItem(3303, "num_frames=0 from 0 s on, expected some")
        return real(film, out, span, **named)

    monkeypatch.setattr(cache, "cut_film", cut)
    return tried


def run(root: Any) -> Ran:
    with open_instance(root) as instance:
        return run_lake(
            LakeResource(
                root=str(root), landing=str(root.parent / "in"), settings_file=str(root.parent / "settings.toml")
            ),
            CudaExecutorResource(device="cpu"),
            instance,
            recipes=("everything",),
            phase=lambda name, total: None,
        )


def read(*words: object) -> Any:
    assert console.entry  # its import adds the commands that run
    result = CliRunner().invoke(app, [str(word) for word in (*words, "--json")])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_clip_that_cannot_be_cut_is_a_row_and_the_version_holds_all_others(root, refused, monkeypatch) -> None:
    ran = run(root)
    (digest,) = set(refused)
    lake = Lake(root, landing=root.parent / "in")
    version = ran.versions["everything"]
    assert lake.versions.branches()["everything"] == lake.versions.resolve(version)
    out = lake.versions.excluded(version).filter(lake.versions.excluded(version)["is_whole"]).to_pylist()
    assert [(row["digest"], row["cause"]) for row in out] == [(digest, "status:unreadable")]
    assert "3303 cut_failed: num_frames=0" in out[0]["detail"]
    held = {part["digest"] for row in lake.versions.samples(version).to_pylist() for part in row["parts"]}
    units = {row["digest"] for row in lake.catalog.read(["digest"]).to_pylist()}
    assert units - held == {digest} and held

    (letter,) = read("failed", "--lake", root)
    assert (letter["stage"], letter["digest"], letter["error_code"]) == ("shards", digest, 3303)
    assert letter["source_ref"] and "fox.mp4" in letter["source_ref"]
    assert (read("fsck", "--lake", root)["problems"], read("verify", version, "--lake", root)["problems"]) == ([], [])

    (video,) = [row for row in read("status", "--lake", root)["modalities"] if row["modality"] == "video"]
    (films,) = video["sources"]
    assert (video["statuses"]["unreadable"], films["causes"]["cut_failed"]) == (1, 1)
    assert films["num_usable"] + sum(films["causes"].values()) == films["num_units"] == len(units)

    report = write_version_report(lake, version)  # and its player does without
    assert report.stat().st_size > 10_000

    again = run(root)  # nothing changed: nobody tries it again, and there is nothing to do
    assert (again.made, again.runs) == ([], [])

    monkeypatch.undo()
    done = read("retry", "--code", "3303", "--lake", root, "--settings", root.parent / "settings.toml")
    assert (done["tried_again"], done["read_now"], done["failed_again"]) == (1, 1, 0)
    lake = Lake(root, landing=root.parent / "in")
    held = {part["digest"] for row in lake.versions.samples("everything").to_pylist() for part in row["parts"]}
    assert held == units
    assert read("failed", "--lake", root) == []


def test_other_limits_try_again_and_a_damaged_memory_is_none(root, refused) -> None:
    run(root)
    (root.parent / "settings.toml").write_text(SETTINGS + "\n[cuts]\ntimeout_s = 900.0\n")
    run(root)
    assert len(refused) == 2  # a longer or shorter time may make the difference
    (root / "cuts" / "uncut.json").write_bytes(b"{}x")
    assert "uncut.json is not what was written" in CliRunner().invoke(app, ["fsck", "--lake", str(root)]).output
    assert read("fsck", "--kind", "cuts", "--repair", "--lake", root)["problems"] == []
    assert not (root / "cuts" / "uncut.json").exists()
    assert Lake(root).cuts.uncut.held() == {}


def test_of_the_duplicates_that_went_for_what_cannot_be_cut_one_stays() -> None:
    def row(digest: str, **said: Any) -> dict[str, Any]:
        usual = {"modality": "video", "status": "ok", "weight": 1.0, "licences": [], "sources": ["films"]}
        return dict.fromkeys(CATALOG_COLUMNS) | usual | {"digest": digest, "survivor": digest} | said

    rows = [
        row("a"),
        row("b", tier="near", survivor="a", status="quarantined"),
        row("c", tier="near", survivor="a"),
        row("d", tier="semantic", survivor="a"),
        row("e", tier="near", survivor="f"),
        row("f"),
    ]
    lost = Uncut(
        digest="a", parent_digest="p", modality="video", error_code=3303, reason="no frame", at="", tried_with=""
    )
    found = {one["digest"]: one for one in without_uncut(pa.Table.from_pylist(rows), {"a": lost}).to_pylist()}
    assert (found["a"]["status"], found["a"]["reason"]) == ("unreadable", "3303 cut_failed: no frame")
    assert [found[digest]["tier"] for digest in "bcdef"] == ["near", None, "semantic", "near", None]
    assert [found[digest]["status"] for digest in "bcdef"] == ["quarantined", "ok", "ok", "ok", "ok"]
