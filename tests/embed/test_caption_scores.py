"""Cosines of captions with vectors of media, by a tiny CLIP; and which encoders know texts of what they see."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake import compute, schemas
from mmlake.compute import Executor
from mmlake.embed import ENCODERS, EmbedSettings, ModelSource, caption_scores, encode_text_query
from mmlake.embed.agreement import PICTURE_SOUND, PICTURE_TEXT, chosen
from tests.embed.tiny_models import saved

pytest.importorskip("torch")
EXECUTOR = Executor("cpu")


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    yield saved("clip", tmp_path_factory.mktemp("clip"))
    compute.forget_models()


def revision(settings: EmbedSettings) -> str:
    from mmlake.embed.embedding import Running

    return Running.start(ENCODERS["clip"], EXECUTOR, settings).model.revision


def vectors(settings: EmbedSettings, **others: dict):
    """Rows of a, b ... with drawn vectors; others: what is different of one."""
    rng, rows = np.random.default_rng(3), []
    for digest in "abcd":
        vector = rng.normal(size=12)
        row = {"digest": digest, "encoder": "clip", "revision": revision(settings), "dimension": 12, "status": "ok"}
        rows.append(row | {"vector": vector / np.linalg.norm(vector)} | others.get(digest, {}))
    return schemas.from_rows(schemas.EMBEDDINGS, rows)


def scored(settings: EmbedSettings, pairs: list[tuple[str, str]], texts: dict[str, str], **others: dict):
    """(unit, caption) -> row."""
    import pyarrow as pa

    table = caption_scores(
        pa.table({"digest": [one for one, _ in pairs], "caption": [other for _, other in pairs]}),
        pa.table({"digest": list(texts), "text": list(texts.values())}),
        vectors(settings, **others),
        row=ENCODERS["clip"],
        executor=EXECUTOR,
        settings=settings,
    )
    return {(row["digest"], row["caption"]): row for row in table.to_pylist()}


def test_the_cosine_is_that_of_both_vectors_and_of_long_captions_that_of_the_mean_of_passages(settings) -> None:
    long = " ".join(["a photo of dog"] * 10 + ["cat of a"] * 10)  # two passages of 40 and 30 words
    texts = {"x": "a photo of dog", "y": "cat", "z": long}
    found = scored(settings, [("a", "x"), ("a", "y"), ("b", "x"), ("b", "z")], texts)
    rows = {row["digest"]: np.array(row["vector"]) for row in vectors(settings).to_pylist()}

    def query(text: str) -> np.ndarray:
        return encode_text_query(text, encoder="clip", executor=EXECUTOR, settings=settings).astype(float)

    for (unit, caption), row in found.items():
        if caption != "z":
            assert row["cosine"] == pytest.approx(rows[unit] @ query(texts[caption]), abs=2e-4)
    words = long.split()
    parts = [query(" ".join(words[:40])), query(" ".join(words[40:]))]
    assert found["b", "z"]["cosine"] == pytest.approx(rows["b"] @ sum(parts) / np.linalg.norm(sum(parts)), abs=0.02)
    assert {(row["encoder"], row["status"]) for row in found.values()} == {("clip", "ok")}


def test_each_pair_without_a_cosine_says_why_and_its_neighbours_have_theirs(settings) -> None:
    failed = {"status": "unreadable", "error_code": 3001, "error": "no pixels", "vector": [], "dimension": 0}
    pairs = [("a", "x"), ("a", "empty"), ("b", "x"), ("c", "x"), ("d", "x")]
    found = scored(
        settings, pairs, {"x": "a photo of dog", "empty": " \n"},
        b=failed, c={"revision": "sha256:other"}, d={"vector": [1.0, 0.0], "dimension": 2},
    )  # fmt: skip
    assert len(found) == 5 and found["a", "x"]["cosine"] is not None
    said = {pair: (row["error_code"], row["error"]) for pair, row in found.items() if row["cosine"] is None}
    assert said["a", "empty"] == (5003, "num_words=0 not in [1, inf)")
    assert said["b", "x"] == (3001, "no pixels")
    assert said["c", "x"][0] == 5002 and said["c", "x"][1].startswith("its vector is of revision sha256:other")
    assert said["d", "x"] == (5002, "dimension=2 not in [12, 12]")


def test_encoders_of_transcripts_know_no_texts_of_pictures_and_sounds() -> None:
    known = {name: [one for one in row.modalities if row.knows_texts_of(one)] for name, row in ENCODERS.items()}
    assert {name: found for name, found in known.items() if found} == {
        "clip": ["image", "video"], "siglip": ["image", "video"], "clap": ["audio"],
    }  # fmt: skip


def test_weights_of_a_sentence_encoder_take_no_cosine_of_pictures_from_clip() -> None:
    """It has texts and films among its modalities, and stands before clip and clap in the table."""
    names = ("sentence-bert", "clip", "clap")
    settings = EmbedSettings(models={name: ModelSource(path=f"/models/{name}") for name in names})
    found = {measure: [row.name for row in rows] for measure, rows in chosen(settings).items()}
    assert found[PICTURE_TEXT] == ["clip"] and found[PICTURE_SOUND] == ["clip", "clap"]
    alone = chosen(EmbedSettings(models={"sentence-bert": ModelSource(path="/models/s")}))
    assert alone[PICTURE_TEXT] == alone[PICTURE_SOUND] == ()
