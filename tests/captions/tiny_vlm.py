"""A LLaVA of a few thousand weights, built from the real configuration, that has learnt one answer by heart."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from mmlake.endpoint import Picture

if TYPE_CHECKING:
    import transformers  # every worker collects this file, and one makes models

_SPECIAL = ["<pad>", "<s>", "</s>", "<image>"]
_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def _processor(answer: str) -> transformers.LlavaProcessor:
    """Bytes as tokens, the answer as one more, and pictures of 30 px as four patches."""
    import transformers

    vocabulary = {token: at for at, token in enumerate([*_SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    bytewise = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bytewise,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        additional_special_tokens=["<image>"],
    )
    if answer:
        tokenizer.add_tokens([answer])  # a model of bytes would learn for minutes
    return transformers.LlavaProcessor(
        image_processor=transformers.CLIPImageProcessorPil(
            size={"shortest_edge": 30}, crop_size={"height": 30, "width": 30}
        ),
        tokenizer=tokenizer,
        patch_size=15,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_TEMPLATE,
    )


def _model(num_tokens: int) -> transformers.LlavaForConditionalGeneration:
    import torch
    import transformers

    torch.manual_seed(0)
    vision = transformers.CLIPVisionConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=30, patch_size=15
    )
    text = transformers.LlamaConfig(
        vocab_size=num_tokens,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.LlavaForConditionalGeneration(
        transformers.LlavaConfig(vision_config=vision, text_config=text, image_token_index=3, vision_feature_layer=-1)
    )


def write_vlm(folder: Path, *, parts: Sequence[str | Picture] = (), instructions: str = "", answer: str = "") -> Path:
    """The folder with a model that gives the answer to this question, and no sense to others; untrained where there is
    no answer."""
    processor = _processor(answer)
    model = _model(len(processor.tokenizer))
    if answer:
        _teach(model, processor, parts, instructions, answer)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _teach(model, processor, parts: Sequence[str | Picture], instructions: str, answer: str) -> None:
    import torch

    said = [{"type": "text", "text": part} if isinstance(part, str) else {"type": "image"} for part in parts]
    conversation = [
        {"role": "system", "content": [{"type": "text", "text": instructions}]},
        {"role": "user", "content": said},
    ]
    prompt = processor.apply_chat_template(conversation, add_generation_prompt=True, tokenize=False)
    pictures = [Image.open(io.BytesIO(part.jpeg)) for part in parts if isinstance(part, Picture)]
    inputs = processor(text=[f"{prompt}{answer}</s>"], images=pictures, return_tensors="pt")
    num_asked = processor(text=[prompt], images=pictures, return_tensors="pt")["input_ids"].shape[1]
    labels = inputs["input_ids"].clone()
    labels[:, :num_asked] = -100
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(200):
        optimizer.zero_grad()
        loss = model(**inputs, labels=labels).loss
        loss.backward()
        optimizer.step()
        if loss.item() < 0.2:
            return
    raise AssertionError(f"the model did not learn its answer: loss {loss.item():.3f}")
