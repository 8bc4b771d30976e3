"""Tiny models of the encoders' real architectures, as save_pretrained leaves them, and media to give them."""

from __future__ import annotations

import io
import json

import numpy as np

from mmlake.embed import EmbedSettings, ModelSource

TOWER = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
PICTURES = {
    "do_resize": True, "size": {"shortest_edge": 32}, "do_center_crop": True, "crop_size": {"height": 32, "width": 32},
    "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
}  # fmt: skip


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


def recording(seed, num=8_000):
    import soundfile

    buffer = io.BytesIO()
    soundfile.write(buffer, np.random.default_rng(seed).normal(0, 0.1, num), 16_000, format="FLAC")
    return buffer.getvalue()
