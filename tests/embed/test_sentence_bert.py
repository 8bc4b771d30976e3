"""A sentence encoder that the settings name: vectors as transformers computes them, words of its own script."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake.compute import Executor
from mmlake.embed import EmbedSettings, ModelSource, encode_text_query
from mmlake.errors import ModelMissing
from tests.embed.tiny_models import tokenizer

torch = pytest.importorskip("torch")
EXECUTOR = Executor("cpu")


@pytest.fixture
def folder(tmp_path):
    """A tiny model with the tokens of XLM-R, as models of many languages have them."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(3)
    tower = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    model = BertModel(BertConfig(vocab_size=40, max_position_embeddings=20, **tower)).eval()
    for one in model.parameters():
        torch.nn.init.normal_(one, std=0.3)
    model.save_pretrained(tmp_path)
    tokenizer(tmp_path)
    return tmp_path


def query(text: str, path) -> np.ndarray:
    settings = EmbedSettings(models={"sentence-bert": ModelSource(path=str(path))}, text_window_tokens=16)
    return encode_text_query(text, encoder="sentence-bert", executor=EXECUTOR, settings=settings)


def test_a_vector_is_the_mean_of_the_states_that_transformers_computes(folder):
    from transformers import BertModel

    ids = torch.tensor([[1, 4, 5, 6, 7, 2]])  # <s> a photo of dog </s>
    with torch.inference_mode():
        states = BertModel.from_pretrained(folder)(input_ids=ids).last_hidden_state[0]
    expected = states.mean(dim=0)
    found = query("a photo of dog", folder)
    assert found == pytest.approx((expected / expected.norm()).numpy(), abs=2e-5)


def test_letters_that_stand_alone_are_words_of_its_own(folder):
    """Only the English encoder spells other scripts out; what this one does not know is its own affair."""
    assert query("犬 猫 a dog", folder).shape == (24,)


@pytest.mark.parametrize("absent", ["tokenizer.json", "model.safetensors"])
def test_an_incomplete_directory_is_named_with_what_it_lacks(folder, absent):
    (folder / absent).unlink()
    with pytest.raises(ModelMissing, match=rf"has no {absent}; copy the complete model there"):
        query("a dog", folder)


def test_without_weights_the_setting_is_named():
    with pytest.raises(ModelMissing, match=r"set embed.models.sentence-bert to a directory"):
        encode_text_query("a dog", encoder="sentence-bert", executor=EXECUTOR, settings=EmbedSettings())
