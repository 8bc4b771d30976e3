"""Captions held against their pictures: scores in tables, catalog and `why`, and a recipe that masks the worst ones."""

from __future__ import annotations

import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mmlake import compute, pipeline, publish
from mmlake.compute import Executor
from mmlake.embed import encode_text_query
from mmlake.item_provenance import story_of
from mmlake.lake import Lake
from mmlake.loader import ShardStream
from mmlake.publish.dry_run import dry_run
from mmlake.publish.version import publish_version
from mmlake.recipes import find_recipe
from mmlake.settings import Settings
from mmlake.steps import CORPUS_STEPS, is_current, recheck, run_step
from mmlake.steps.caption_scores import _few as few
from mmlake.tables import Slot
from tests import make
from tests.embed.tiny_models import picture, saved
from tests.wiring.test_faults_in_steps import survives

pytest.importorskip("torch")
WORDS = ("a photo of dog", "cat on the mat", "a photo of", "the of dog a")
RECIPE = """
name = "scored"
where = "modality = 'image'"
required_roles = ["caption"]
drop_tiers = []
statuses = ["ok", "flagged", "quarantined"]
min_caption_score = {bound}
"""
STEP = CORPUS_STEPS["caption_scores"]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Four pictures, the first with two captions, the last with none; and a film with one."""
    base = tmp_path_factory.mktemp("scores")
    folder = base / "in" / "pictures"
    folder.mkdir(parents=True)
    lines = []
    for number in range(4):
        (folder / f"{number}.png").write_bytes(picture(number))
    (folder / "film.mp4").write_bytes(make.film(1))
    lines.append(json.dumps({"file_name": "film.mp4", "caption": WORDS[0]}))
    for name, text in (
        ("0.png", WORDS[0]),
        ("0.png", WORDS[1]),
        ("1.png", WORDS[0]),
        ("2.png", WORDS[2]),
    ):
        lines.append(json.dumps({"file_name": name, "text": text}))
    (folder / "metadata.jsonl").write_text("\n".join(lines) + "\n")
    (base / "clip").mkdir()
    return base


@pytest.fixture(scope="module")
def settings(base) -> Settings:
    models = {"clip": {"path": saved("clip", base / "clip").models["clip"].path}}
    return Settings.of({"embed": {"models": models, "encoders": {"image": "clip", "video": "clip"}}})


@pytest.fixture(scope="module")
def lake(base, settings):
    with Lake(base / "lake", landing=base / "in", settings=settings, executor=Executor("cpu")) as lake:
        made(lake)
        yield lake
    compute.forget_models()


def made(lake: Lake) -> None:
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    publish.update_samples(lake)
    publish.update_catalog(lake)


def scores(lake: Lake) -> dict[tuple[str, str], float]:
    """(file of the picture, its caption) -> cosine."""
    texts = lake.tables.concat("tracks", "text", columns=["digest", "text"]).to_pylist()
    said = {row["digest"]: row["text"] for row in texts}
    items = lake.tables.concat("items", "image", columns=["digest", "source_ref"]).to_pylist()
    files = {row["digest"]: json.loads(row["source_ref"])["path"].rsplit("/", 1)[-1] for row in items}
    table = lake.tables.read(Slot("caption_scores", "image")).to_pylist()
    return {(files[row["digest"]], said[row["caption"]]): row["cosine"] for row in table}


def test_each_caption_has_the_cosine_with_its_own_picture(lake) -> None:
    found = scores(lake)
    assert set(found) == {("0.png", WORDS[0]), ("0.png", WORDS[1]), ("1.png", WORDS[0]), ("2.png", WORDS[2])}
    rows = lake.catalog.read(["digest", "sample_ids", "modality", "vector_clip", "caption_score"]).to_pylist()
    pictures = {row["sample_ids"][0].rsplit("/", 1)[-1]: row for row in rows if row["modality"] == "image"}
    for (name, words), cosine in found.items():
        vector = next(row["vector_clip"] for key, row in pictures.items() if name.split(".")[0] in key)
        query = encode_text_query(words, encoder="clip", executor=lake.executor, settings=lake.settings.embed)
        assert cosine == pytest.approx(float(np.dot(vector, query)), abs=2e-4)
    best = sorted(row["caption_score"] for row in pictures.values() if row["caption_score"] is not None)
    of_first = max(found["0.png", WORDS[0]], found["0.png", WORDS[1]])
    assert best == sorted([of_first, found["1.png", WORDS[0]], found["2.png", WORDS[2]]])


def test_a_recipe_masks_the_captions_below_its_bound_and_says_so(lake) -> None:
    found = scores(lake)
    bound = sorted(found.values())[1] + 1e-6  # the two worst ones go
    recipes = lake.root / "recipes"
    recipes.mkdir(parents=True, exist_ok=True)
    (recipes / "scored.toml").write_text(RECIPE.format(bound=bound))
    kept = {pair for pair, cosine in found.items() if cosine >= bound}
    counted = dry_run(lake, find_recipe(lake.root, "scored"))
    request = publish.wanted(lake, "scored")
    name, _ = publish.needs_version(lake, request.branch, request.recipe)
    publish.ask_for(lake, name, request)
    publish_version(lake, name)
    excluded = lake.versions.excluded(name)
    masked = excluded.filter(pc.and_(pc.equal(excluded["cause"], "caption_score"), pc.invert(excluded["is_whole"])))
    assert counted.num_admitted == len({picture for picture, _ in kept})
    assert counted.masked.get("caption_score", 0) == masked.num_rows
    assert all(said.startswith("caption_score=") for said in masked["detail"].to_pylist())
    stream = ShardStream(lake.shards_dir / lake.versions.resolve(name), shuffle=False)
    said = sorted(
        text
        for sample in stream
        for text in [part["text"] for part in json.loads(sample["json"])["parts"] if part.get("text")]
    )
    assert said == sorted(words for _, words in kept)
    # nothing changed: no other version is wanted
    assert not publish.needs_version(lake, request.branch, request.recipe)[1]


def test_the_caption_of_a_film_is_compared_with_its_keyframes(lake) -> None:
    (row,) = lake.tables.read(Slot("caption_scores", "video")).to_pylist()
    (film,) = lake.catalog.read(["digest", "vector_clip", "caption_score"], where="modality = 'video'").to_pylist()
    query = encode_text_query(WORDS[0], encoder="clip", executor=lake.executor, settings=lake.settings.embed)
    # what describes the film is not said in it
    assert lake.tables.concat("tracks", "video", columns=["transcript"])["transcript"].to_pylist() == [None]
    assert row["digest"] == film["digest"] and row["cosine"] == film["caption_score"]
    assert row["cosine"] == pytest.approx(float(np.dot(film["vector_clip"], query)), abs=2e-4)


def test_why_says_the_cosine_of_picture_and_caption(lake) -> None:
    row = lake.tables.read(Slot("caption_scores", "image")).to_pylist()[0]
    for digest in (row["digest"], row["caption"]):
        said = [step.said for step in story_of(lake, digest).steps if step.table == "caption_scores"]
        assert said and "cosine of caption and medium" in said[0]


def test_what_is_known_is_taken_over_and_only_new_captions_are_encoded(lake, base, monkeypatch) -> None:
    before = lake.tables.read(Slot("caption_scores", "image"))
    (base / "in" / "more").mkdir()
    (base / "in" / "more" / "4.png").write_bytes(picture(4))
    (base / "in" / "more" / "4.txt").write_text(WORDS[3])
    asked: list[str] = []
    stage = sys.modules["mmlake.embed.caption_scores"]  # the package has a function of that name
    real = stage.mean_of_passages

    def counted(running, said):
        pairs = list(said)
        asked.extend(words for _, words in pairs)
        return real(running, pairs)

    monkeypatch.setattr(stage, "mean_of_passages", counted)
    made(lake)
    assert asked == [WORDS[3]]
    after = lake.tables.read(Slot("caption_scores", "image"))
    assert after.num_rows == before.num_rows + 1
    assert after.filter(pc.is_in(after["caption"], value_set=pc.unique(before["caption"]))).equals(before)
    assert is_current(STEP, lake, "image") and recheck(STEP, lake, "image") == (1, 5)


def test_a_fault_while_captions_are_scored_leaves_no_trace(lake) -> None:
    slot = Slot("caption_scores", "image")
    assert survives(
        lake, slot, lambda: run_step(STEP, lake, "image"), version=lambda: lake.tables.stamp(slot).data_version
    )


def test_a_caption_of_a_gallery_is_about_none_of_its_pictures() -> None:
    names = ["gallery"] * 17 + ["album"] * 16
    media = pa.table({"sample_id": names, "digest": [str(at) for at in range(len(names))]})
    assert set(few(media)["sample_id"].to_pylist()) == {"album"}


def test_an_encoder_that_knows_no_texts_scores_nothing(tmp_path, base) -> None:
    with Lake(tmp_path / "lake", landing=base / "in", executor=Executor("cpu")) as lake:
        made(lake)
        assert lake.tables.read(Slot("caption_scores", "image")).num_rows == 0
        assert run_step(STEP, lake, "image").reused
        assert set(lake.catalog.read(["caption_score"])["caption_score"].to_pylist()) == {None}
