"""Model encoders on tiny models of their real configurations: loaded through the table, from a directory, without
torchvision."""

from __future__ import annotations

import io
import json

import numpy as np
import pyarrow as pa
import pytest

from mmlake import compute, schemas
from mmlake.compute import Executor
from mmlake.embed import ENCODERS, EmbedSettings, ModelSource, embed, encode_text_query
from mmlake.embed.vision import pixels
from mmlake.errors import ModelMissing
from mmlake.store import BlobStore
from tests import make

pytest.importorskip("torch")
pytest.importorskip("transformers")
TOWER = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
PICTURES = {
    "do_resize": True, "size": {"shortest_edge": 32}, "do_center_crop": True, "crop_size": {"height": 32, "width": 32},
    "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_models_left():
    yield
    compute.forget_models()


def tokenizer(folder):
    """A word-level tokenizer of 40 words in the one-file format of the tokenizers library."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = ["<pad>", "<s>", "</s>", "<unk>", "a", "photo", "of", "dog", "cat", *map(str, range(31))]
    words = Tokenizer(models.WordLevel({word: at for at, word in enumerate(vocabulary)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    words.save(str(folder / "tokenizer.json"))
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 16, **special})
    )


def saved(name, folder):
    """A tiny model of the encoder's architecture, as save_pretrained leaves it."""
    import torch
    import transformers as t

    torch.manual_seed(0)
    text = {
        **TOWER,
        "vocab_size": 40,
        "max_position_embeddings": 20,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    picture = {**TOWER, "image_size": 32, "patch_size": 8}
    if name == "clip":
        model = t.CLIPModel(t.CLIPConfig(text_config=text, vision_config=picture, projection_dim=12))
    elif name == "siglip":
        model = t.SiglipModel(t.SiglipConfig(text_config={**text, "projection_size": 16}, vision_config=picture))
    elif name == "dinov2":
        model = t.Dinov2Model(
            t.Dinov2Config(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8)
        )
    elif name == "whisper-encoder":
        small = {
            "d_model": 16,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 32,
            "decoder_ffn_dim": 32,
        }
        tokens = {
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
        }
        model = t.WhisperModel(t.WhisperConfig(**small, max_source_positions=1500, vocab_size=60, **tokens))
        t.WhisperFeatureExtractor().save_pretrained(folder)
    else:
        audio = {
            "hidden_size": 8, "patch_embeds_hidden_size": 4, "depths": [1, 1], "num_attention_heads": [2, 2],
            "num_hidden_layers": 2,
            "num_mel_bins": 64, "spec_size": 256, "projection_dim": 12, "window_size": 8,
        }  # fmt: skip
        model = t.ClapModel(
            t.ClapConfig(
                text_config={**text, "type_vocab_size": 1, "projection_dim": 12}, audio_config=audio, projection_dim=12
            )
        )
        t.ClapFeatureExtractor().save_pretrained(folder)
    model.save_pretrained(folder)
    if name in ("clip", "siglip", "dinov2"):
        (folder / "preprocessor_config.json").write_text(json.dumps(PICTURES))
    if name in ("clip", "siglip", "clap"):
        tokenizer(folder)
    return EmbedSettings(models={name: ModelSource(path=str(folder))})


def picture(seed):
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (40, 60, 3), dtype=np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def recording(seed):
    import soundfile

    buffer = io.BytesIO()
    soundfile.write(buffer, np.random.default_rng(seed).normal(0, 0.1, 8_000), 16_000, format="FLAC")
    return buffer.getvalue()


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


def test_other_weights_are_another_revision(tmp_path):
    import torch
    import transformers as t

    from mmlake.embed.weights import revision_of

    saved("dinov2", tmp_path)
    before = revision_of(ModelSource(path=str(tmp_path)))
    torch.manual_seed(1)
    t.Dinov2Model(
        t.Dinov2Config(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8)
    ).save_pretrained(tmp_path)
    assert revision_of(ModelSource(path=str(tmp_path))) != before


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
