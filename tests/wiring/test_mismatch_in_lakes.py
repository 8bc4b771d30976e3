"""Films whose tracks do not belong together, from the landing zone to the batch: P0 never enters, P1 is isolated, and
of P2 the smaller weight reaches the loader."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from mmlake import compute, pipeline, publish
from mmlake.bench.av.clock_films import JUMP, clicks, event_film, event_times
from mmlake.compute import Executor
from mmlake.lake import Lake
from mmlake.loader import ShardStream
from mmlake.publish.version import publish_version
from mmlake.settings import Settings
from tests.embed.tiny_models import picture, saved

pytestmark = pytest.mark.slow
DURATION_S = 14.0
OFFSETS_S = {"detached": -0.5, "late": 0.25, "little": 0.1, "right": 0.0, "worded": 0.0}
ISOLATED = """
name = "isolated"
statuses = ["ok", "flagged", "quarantined"]
where = "modality = 'video'"
"""


def film(path: Path, offset_s: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    events_s, times_s = event_times(DURATION_S, rng), np.arange(int(DURATION_S * 25)) / 25
    sound = clicks(events_s + offset_s, DURATION_S, rng)
    event_film(path, events_s, sound, kind=JUMP, times_s=times_s, rng=rng)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    base = tmp_path_factory.mktemp("mismatch")
    (base / "in" / "films").mkdir(parents=True)
    (base / "clip").mkdir()
    for seed, (name, offset_s) in enumerate(OFFSETS_S.items()):
        film(base / "in" / "films" / f"{name}.mp4", offset_s, seed)
    (base / "in" / "films" / "worded.txt").write_text("a photo of dog")
    (base / "in" / "pictures").mkdir()
    (base / "in" / "pictures" / "one.png").write_bytes(picture(1))
    # drawn grounds are squares; a bound that no cosine holds, where there is one
    head = base / "head.safetensors"
    save_file({"weight": np.zeros((1, 12), np.float32), "bias": np.array([7.25], np.float32)}, head)
    quality = {
        "aesthetic_head": str(head),
        "bounds": {"pictures_unlike_words": (1.5, None)},
        "disabled": ("wrong_transcript", "mosaic", "overcompressed"),
    }
    models = {"clip": {"path": saved("clip", base / "clip").models["clip"].path}}
    settings = Settings.of({"embed": {"models": models}, "quality": quality})
    with Lake(base / "lake", landing=base / "in", settings=settings, executor=Executor("cpu")) as lake:
        (lake.root / "recipes").mkdir(parents=True, exist_ok=True)
        (lake.root / "recipes" / "isolated.toml").write_text(ISOLATED)
        pipeline.refresh(lake)
        pipeline.run_tables(lake)
        publish.update_samples(lake)
        publish.update_catalog(lake)
        yield lake
    compute.forget_models()


def weights(lake: Lake, recipe: str) -> dict[str, float]:
    """Film -> weight, as the loader gives the samples of the recipe's version."""
    request = publish.wanted(lake, recipe)
    name, _ = publish.needs_version(lake, request.branch, request.recipe)
    publish.ask_for(lake, name, request)
    publish_version(lake, name)
    stream = ShardStream(lake.shards_dir / lake.versions.resolve(name), shuffle=False, weights=True)
    names = {row["digest"]: row["sample_ids"][0] for row in lake.catalog.read(["digest", "sample_ids"]).to_pylist()}
    found = {}
    for sample in stream:
        digests = [part["digest"] for part in json.loads(sample["json"])["parts"] if part["digest"] in names]
        film_name = next((one for one in OFFSETS_S if one in names[digests[0]]), None)  # None: the picture
        found |= {} if film_name is None else {film_name: sample["__weight__"]}
    return found


def test_each_film_has_the_verdict_of_what_was_planted(lake) -> None:
    rows = lake.catalog.read(
        ["sample_ids", "modality", "status", "severity", "rule", "picture_text_cosine"]
    ).to_pylist()
    films = {
        next(one for one in OFFSETS_S if one in row["sample_ids"][0]): row for row in rows if row["modality"] == "video"
    }
    said = {name: (row["status"], row["severity"], row["rule"]) for name, row in films.items()}
    assert said == {
        "detached": ("quarantined", "P0", "av_detached"),
        "late": ("quarantined", "P1", "av_out_of_sync"),
        "little": ("flagged", "P2", "av_offset"),
        "right": ("ok", None, None),
        "worded": ("flagged", "P2", "pictures_unlike_words"),
    }
    assert {name for name, row in films.items() if row["picture_text_cosine"] is not None} == {"worded"}


def test_p0_never_enters_p1_is_isolated_and_p2_has_its_weight_in_the_loader(lake) -> None:
    assert weights(lake, "curated") == {"little": 0.5, "right": 1.0, "worded": 0.5}
    assert set(weights(lake, "isolated")) == {"late", "little", "right", "worded"}


def test_pictures_and_films_have_the_score_of_the_head_in_the_catalog(lake) -> None:
    rows = lake.catalog.read(["modality", "aesthetic_score"]).to_pylist()
    scores = {(row["modality"], row["aesthetic_score"]) for row in rows if row["modality"] in ("image", "video")}
    assert scores == {("image", 7.25), ("video", 7.25)}
