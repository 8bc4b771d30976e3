"""Eval sets of pictures, recordings and texts against what films carry."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmlake import item_provenance, pipeline, publish
from mmlake.errors import ContractBroken
from mmlake.lake import Lake
from mmlake.publish.version import publish_version
from mmlake.sample import sounds
from mmlake.settings import Settings
from mmlake.tables import Slot
from tests import crossed, make


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> Lake:
    """Two films; a picture, a stretch of sound and the words of the first are in an eval set, with others."""
    base = tmp_path_factory.mktemp("contaminated")
    films = [crossed.film(number) for number in range(3)]
    zone = {f"{at}.{kind}": data for at in range(2) for kind, data in _files(films[at]).items()}
    evals = {
        "pictures/shown.jpg": crossed.jpeg(films[0].pictures[1], cut=0.08),
        "pictures/other.jpg": crossed.jpeg(films[2].pictures[1]),
        "sounds/heard.wav": sounds.encoded(films[0].samples[4 * 16_000 : 14 * 16_000], "wav"),
        "said.jsonl": make.jsonl([crossed.reworded(films[0].text, 0), films[2].text]),
    }
    landing, folder = make.land(base / "landing", zone), make.land(base / "bench", evals)
    settings = Settings.of({"decontaminate": {"sets": [f"bench={folder}"]}})
    made = Lake(base / "lake", landing=landing, settings=settings)
    pipeline.refresh(made)
    pipeline.run_tables(made)
    publish.update_samples(made)
    publish.update_catalog(made)
    return made


def _files(film: crossed.Film) -> dict[str, bytes]:
    return {"mp4": film.data, "txt": film.text.encode()}


def _rows(lake: Lake) -> list[dict]:
    return lake.tables.read(Slot("contamination", "video")).to_pylist()


def test_a_film_that_carries_what_an_eval_set_holds_is_found_by_each_component_and_no_other_film_is(lake):
    found = {(row["component"], Path(row["eval_key"]).stem.partition(".")[0], row["relation"]) for row in _rows(lake)}
    assert found == {("keyframe", "shown", "same"), ("sound", "heard", "holds"), ("transcript", "d0", "same")}
    assert len({row["digest"] for row in _rows(lake)}) == 1
    by_component = {row["component"]: row for row in _rows(lake)}
    assert by_component["keyframe"]["time_s"] == 3.0
    assert [by_component["sound"][name] for name in ("start_s", "end_s")] == pytest.approx([4.0, 14.0], abs=0.3)


def test_why_says_by_what_the_film_is_contaminated(lake):
    said = {step.table: step.said for step in item_provenance.story_of(lake, _rows(lake)[0]["digest"]).steps}
    assert "by its " in said["contamination"] and " of bench" in said["contamination"]


def test_a_version_that_holds_the_film_stays_a_draft(lake):
    name, _ = publish.needs_version(lake, "everything")
    with pytest.raises(
        ContractBroken, match="1 unit of the version is in an eval set: .* by its (keyframe|sound|tran)"
    ):
        publish_version(lake, name)


def test_a_comparison_with_an_eval_set_that_changed_is_made_again(lake):
    bench = Path(lake.settings.decontaminate.parsed[0].place)
    assert pipeline.run_tables(lake) == 0
    (bench / "pictures" / "shown.jpg").unlink()
    assert pipeline.run_tables(lake) == 2  # of pictures, and of films by their keyframes
    assert {row["component"] for row in _rows(lake)} == {"sound", "transcript"}
