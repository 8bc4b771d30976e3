"""The BERT encoder gives what that of transformers gives, to the bit, and without it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mmlake.embed import bert, minilm
from mmlake.errors import SettingsError

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small one of random weights, as transformers writes it."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=50,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=40,
        max_position_embeddings=16,
    )
    BertModel(config).save_pretrained(path := tmp_path_factory.mktemp("bert"))
    return path


@pytest.mark.parametrize("lengths", [[7], [7, 7], [16, 3, 9]])
def test_the_states_are_those_of_transformers(folder: Path, lengths: list[int]) -> None:
    from transformers import BertModel

    ids = torch.randint(0, 50, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(len(lengths)))
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    with torch.inference_mode():
        expected = BertModel.from_pretrained(folder).eval()(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        found = bert.Bert(folder, device="cpu").states(ids, mask)
    assert torch.equal(found[mask], expected[mask])


@pytest.mark.parametrize(
    ("name", "value"), [("model_type", "roberta"), ("hidden_act", "relu"), ("position_embedding_type", "relative_key")]
)
def test_an_encoder_of_another_kind_is_refused(folder: Path, tmp_path: Path, name: str, value: str) -> None:
    config = json.loads((folder / "config.json").read_text()) | {name: value}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(SettingsError, match=f"{name} is '{value}'"):
        bert.Shape.read(tmp_path / "config.json")


def test_neither_it_nor_the_encoder_of_texts_imports_transformers() -> None:
    """That took a process 4 s."""
    lines = [line for module in (bert, minilm) for line in Path(module.__file__).read_text().splitlines()]
    assert [line for line in lines if re.match(r"\s*(import|from) transformers", line)] == []
