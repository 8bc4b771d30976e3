"""Whisper by transformers, on a small model of its real configuration that is saved to disk and loaded again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from preprocess_media import tone, wav

from mmlake.errors import ModelMissing, SettingsError
from mmlake.preprocess import PreprocessSettings
from mmlake.preprocess.transcripts.recognition import SpeechRecognizer
from mmlake.preprocess.transcripts.whisper import chunks

_SPECIAL = ("<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>", "<|transcribe|>")
_SPECIAL += ("<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Whisper of one layer with random weights and a tokenizer of words, as its publisher lays it out."""
    import torch
    import transformers

    folder = tmp_path_factory.mktemp("whisper")
    letters = [*"abcdefghijklmnopqrstuvwxyz", "Ġ"]
    vocabulary = {
        sign: number for number, sign in enumerate([*letters, *(f"Ġ{letter}" for letter in letters[:26]), *_SPECIAL])
    }
    tokenizer = transformers.WhisperTokenizer(
        vocab=vocabulary, merges=[("Ġ", letter) for letter in letters[:26]], language="en", task="transcribe"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": list(_SPECIAL)})
    tokenizer.add_tokens([transformers.AddedToken(f"<|{step * 0.02:.2f}|>", special=False) for step in range(1501)])
    number = tokenizer.convert_tokens_to_ids
    end, start = number("<|endoftext|>"), number("<|startoftranscript|>")
    torch.manual_seed(3)
    config = transformers.WhisperConfig(
        **{f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in SIZES.items()},
        d_model=16,
        vocab_size=len(tokenizer),
        pad_token_id=end,
        bos_token_id=end,
        eos_token_id=end,
        decoder_start_token_id=start,
        max_target_positions=48,
    )
    model = transformers.WhisperForConditionalGeneration(config)
    model.generation_config = transformers.GenerationConfig(
        alignment_heads=[[0, 0], [0, 1]],
        begin_suppress_tokens=[end],
        decoder_start_token_id=start,
        eos_token_id=end,
        pad_token_id=end,
        is_multilingual=True,
        lang_to_id={"<|en|>": number("<|en|>"), "<|de|>": number("<|de|>")},
        task_to_id={"translate": number("<|translate|>"), "transcribe": number("<|transcribe|>")},
        no_timestamps_token_id=number("<|notimestamps|>"),
        max_length=24,
        return_timestamps=False,
        suppress_tokens=[],
    )
    model.save_pretrained(folder)
    transformers.WhisperFeatureExtractor().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


SIZES = {"layers": 1, "attention_heads": 2, "ffn_dim": 32}


def settings(folder: Path) -> PreprocessSettings:
    return PreprocessSettings(recognizer="whisper-transformers", recognizer_model=str(folder))


def test_words_have_times_within_the_speech_that_they_are_of(saved: Path) -> None:
    sound, speech = wav(tone(6), kind="FLAC"), [(1.0, 2.0), (4.0, 5.5)]
    recognizer = SpeechRecognizer(settings(saved))
    columns = recognizer.columns(sound, speech)
    words = columns["cues"]
    assert words and columns["transcript"] == " ".join(word["text"] for word in words)
    assert all(0.8 <= word["start_s"] <= word["end_s"] <= 5.7 for word in words)
    assert columns["transcript_source"] == f"asr:whisper-transformers@{saved.name}"
    assert SpeechRecognizer(settings(saved)).columns(sound, speech) == columns
    assert recognizer.columns(sound, [])["transcript"] == ""


def test_what_a_model_lacks_is_named(saved: Path, tmp_path: Path) -> None:
    sound = wav(tone(1), kind="FLAC")
    with pytest.raises(ModelMissing, match=r"model\.safetensors"):
        SpeechRecognizer(settings(tmp_path)).columns(sound)
    for path in saved.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    facts = json.loads((saved / "generation_config.json").read_text())
    del facts["alignment_heads"]
    (tmp_path / "generation_config.json").write_text(json.dumps(facts))
    with pytest.raises(SettingsError, match="alignment_heads"):
        SpeechRecognizer(settings(tmp_path)).columns(sound)


@pytest.mark.parametrize(
    ("speech", "expected"),
    [
        (None, [(0, 25), (25, 50), (50, 75), (75, 100)]),
        ([], []),
        ([(1, 3), (5, 28)], [(0.8, 28.2)]),
        ([(1, 3), (5, 30), (31, 32)], [(0.8, 3.2), (4.8, 32.2)]),
        ([(1, 41)], [(0.8, 21), (21, 41.2)]),
        ([(90, 100)], [(89.8, 100)]),
    ],
)
def test_chunks_hold_all_speech_and_fit_the_model(speech, expected) -> None:
    np.testing.assert_allclose(np.reshape(chunks(speech, 100.0), (-1, 2)), np.reshape(expected, (-1, 2)))
