"""Model encoders on tiny models of their real configurations: loaded through the table, from a directory, without
torchvision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from mmlake import compute, schemas
from mmlake.compute import Executor
from mmlake.embed import ENCODERS, EmbedSettings, ModelSource, embed, encode_text_queries, encode_text_query
from mmlake.embed.vision import pixels
from mmlake.errors import ModelMissing
from mmlake.store import BlobStore
from tests import make
from tests.embed.tiny_models import PICTURES, picture, recording, saved

pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _no_models_left():
    yield
    compute.forget_models()


def tracks(modality, store):
    base = {"modality": modality, "role": "media", "status": "ok", "size_bytes": 1, "transcript_source": "none"}
    digests = [store.put((recording if modality == "audio" else picture)(seed)) for seed in range(3)]
    if modality == "video":
        rows = [{"digest": "a" * 64, "keyframes": [{"time_s": 0.0, "digest": one, "shot": 0} for one in digests]}]
    else:
        rows = [{"digest": digest, "audio_digest": digest} for digest in digests]
    return make.as_units(schemas.from_rows(schemas.TRACKS, [base | row for row in rows]))


CASES = [("clip", "image", 12), ("clip", "video", 12), ("siglip", "image", 16)]
CASES += [("dinov2", "image", 16), ("dinov2", "video", 16), ("whisper-encoder", "audio", 16), ("clap", "audio", 12)]


@pytest.mark.parametrize(("name", "modality", "dimension"), CASES)
def test_a_model_gives_unit_vectors_that_a_second_run_repeats(name, modality, dimension, tmp_path):
    settings, store = saved(name, tmp_path), BlobStore(tmp_path / "blobs")
    rows = tracks(modality, store)
    first = embed(rows, modality, encoder=name, store=store, executor=Executor("cpu"), settings=settings)
    compute.forget_models()
    assert first.equals(embed(rows, modality, encoder=name, store=store, executor=Executor("cpu"), settings=settings))
    assert first.column("dimension").to_pylist() == [dimension] * rows.num_rows
    assert np.linalg.norm(first.column("vector").to_pylist(), axis=1) == pytest.approx(1, abs=1e-4)
    assert set(pa.compute.starts_with(first.column("revision"), "sha256:").to_pylist()) == {True}


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize(("name", "modality"), [case[:2] for case in CASES])
def test_halves_give_nearly_the_same_vectors_and_say_so(name, modality, precision, tmp_path):
    settings, store = saved(name, tmp_path), BlobStore(tmp_path / "blobs")
    rows, made = tracks(modality, store), {}
    for chosen in (settings, replace(settings, precision=precision)):
        made[chosen.precision] = embed(
            rows, modality, encoder=name, store=store, executor=Executor("cpu"), settings=chosen
        )
    whole, halves = (np.array(table["vector"].to_pylist()) for table in made.values())
    assert not np.array_equal(whole, halves)  # the model was run anew, and otherwise
    assert (whole * halves).sum(axis=1) == pytest.approx(1, abs=2e-3)
    assert made[precision]["revision"].to_pylist() == [
        f"{one} in {precision}" for one in made["float32"]["revision"].to_pylist()
    ]


@pytest.mark.parametrize("text", ["A harbour at dawn, with two boats.", "Rates rose by a quarter of a percent. " * 60])
def test_a_text_has_nearly_the_same_vector_in_halves(text):
    whole, halves = (
        encode_text_query(text, encoder="minilm-l6", executor=Executor("cpu"), settings=EmbedSettings(precision=one))
        for one in ("float32", "bfloat16")
    )
    assert not np.array_equal(whole, halves)
    assert float(whole @ halves) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("name", ["clip", "siglip", "clap"])
def test_a_text_query_lies_in_the_space_of_the_media(name, tmp_path):
    settings = saved(name, tmp_path)
    one, other = (
        encode_text_query(text, encoder=name, executor=Executor("cpu"), settings=settings)
        for text in ("a photo of a dog", "a cat")
    )
    assert one.shape == other.shape
    assert np.linalg.norm(one) == pytest.approx(1, abs=1e-4)
    assert not np.allclose(one, other)


@pytest.mark.parametrize(("name", "tower"), [("clip", "CLIPModel"), ("siglip", "SiglipModel"), ("clap", "ClapModel")])
def test_texts_of_any_length_go_through_the_model_together(name, tower, tmp_path, monkeypatch):
    import transformers

    settings, num_calls, model = saved(name, tmp_path), [], getattr(transformers, tower)
    tower_of = model.get_text_features
    texts = ["a photo of a dog", "a cat", "a photo", "dog cat dog cat a a a photo of of", "cat"]

    def counted(self, *given, **named):
        num_calls.append(1)
        return tower_of(self, *given, **named)

    alone = [encode_text_query(text, encoder=name, executor=Executor("cpu"), settings=settings) for text in texts]
    monkeypatch.setattr(model, "get_text_features", counted)
    together = encode_text_queries(texts, encoder=name, executor=Executor("cpu"), settings=settings)
    assert len(num_calls) == 1
    assert np.array(together) == pytest.approx(np.array(alone), abs=1e-5)


def test_recordings_of_a_batch_have_their_own_windows(tmp_path):
    settings, store = saved("clap", tmp_path), BlobStore(tmp_path / "blobs")
    base = {"modality": "audio", "role": "media", "status": "ok", "size_bytes": 1, "transcript_source": "none"}
    made = [store.put(recording(seed, num=seconds * 16_000)) for seed, seconds in enumerate((12, 1, 25))]
    rows = [base | {"digest": digest, "audio_digest": digest} for digest in made]
    table = make.as_units(schemas.from_rows(schemas.TRACKS, rows))
    asked = {"encoder": "clap", "store": store, "executor": Executor("cpu"), "settings": settings}
    together = embed(table, "audio", **asked)["vector"].to_pylist()
    alone = [embed(table.slice(at, 1), "audio", **asked)["vector"][0].as_py() for at in range(3)]
    assert np.array(together) == pytest.approx(np.array(alone), abs=1e-5)


def test_other_weights_are_another_revision(tmp_path):
    import torch
    import transformers as t

    from mmlake.embed.weights import revision_of

    saved("dinov2", tmp_path)
    before = revision_of(ModelSource(path=str(tmp_path)), "float32")
    torch.manual_seed(1)
    t.Dinov2Model(
        t.Dinov2Config(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8)
    ).save_pretrained(tmp_path)
    assert revision_of(ModelSource(path=str(tmp_path)), "float32") != before


@pytest.mark.parametrize("name", sorted(name for name in ENCODERS if ENCODERS[name].device == "gpu"))
def test_absent_weights_raise_with_the_setting_to_change(name, tmp_path):
    modality, store = ENCODERS[name].modalities[0], BlobStore(tmp_path / "b")
    for settings in (
        EmbedSettings(),
        EmbedSettings(models={name: ModelSource(path=str(tmp_path / "nowhere"))}),
        EmbedSettings(models={name: ModelSource(path=str(tmp_path))}),
    ):
        with pytest.raises(ModelMissing, match=rf"embed\.models\.{name}"):
            embed(
                tracks(modality, store),
                modality,
                encoder=name,
                store=store,
                executor=Executor("cpu"),
                settings=settings,
            )


def test_preprocessing_resizes_the_short_side_crops_the_middle_and_normalizes():
    from PIL import Image

    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 255
    plan = {
        "size": {"shortest_edge": 10},
        "crop_size": {"height": 10, "width": 10},
        "do_center_crop": True,
        "image_mean": [0.5] * 3,
        "image_std": [0.25] * 3,
    }
    values = pixels(Image.fromarray(wide), plan)
    assert values.shape == (3, 10, 10)
    assert values == pytest.approx(2.0)  # (1 - .5) / .25


def test_a_ruler_shaped_picture_does_not_grow_into_gigabytes():
    from PIL import Image

    values = pixels(Image.new("RGB", (20_000, 1)), {**PICTURES})
    assert values.shape == (3, 32, 32)
