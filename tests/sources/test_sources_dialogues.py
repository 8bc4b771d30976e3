"""Dialogues and instructions: one text per conversation, whatever they are written in, and their structure in the
metadata."""

from __future__ import annotations

import json

import pytest

from mmlake.sources import SourceSettings
from tests.sources.source_builders import brief, jsonl, land, parquet, png, rows_of, tar

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": " Hi.\n"},
    {"role": "assistant", "content": "Ho: \n\nhe"},
]
SHARED = [{"from": "human", "value": "<image>\nWhat is it?"}, {"from": "gpt", "value": "A cat."}]


def found(tmp_path, files, **options):
    return rows_of(land(tmp_path / "in", files), **options)


@pytest.mark.parametrize(
    "record, text",
    [
        ({"messages": CHAT}, "system: Be brief.\n\nuser: Hi.\n\nassistant: Ho: \n\nhe"),
        ({"conversations": SHARED, "image": "a/1.jpg"}, "human: <image>\nWhat is it?\n\ngpt: A cat."),
        ({"instruction": "Add.", "input": "1 2", "output": "3"}, "instruction: Add.\n\ninput: 1 2\n\noutput: 3"),
        (
            {"instruction": "Name a fruit.", "input": "", "output": "Apple"},
            "instruction: Name a fruit.\n\noutput: Apple",
        ),
        ({"output": "Apple", "Prompt": "Fruit?"}, "Prompt: Fruit?\n\noutput: Apple"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "text", "text": "See"},
                            {"type": "image_url", "image_url": {"url": "x"}},
                            {"type": "text", "text": "this"},
                        ],
                    }
                ]
            },
            "user: See\nthis",
        ),
        (
            {"messages": [{"role": "assistant", "content": None, "tool_calls": []}, {"role": "tool", "content": "42"}]},
            "tool: 42",
        ),
        ({"messages": [{"content": "no role"}, "no turn", 7]}, "no role"),
    ],
)
def test_a_dialogue_is_one_text_and_its_fields_stay(tmp_path, record, text):
    rows = found(tmp_path, {"a.jsonl": jsonl(record | {"n": 1})})
    assert brief(rows) == [("line:1", "text", "document", None)]
    assert rows[0]["text_content"] == text and json.loads(rows[0]["metadata_json"]) == record | {"n": 1}


@pytest.mark.parametrize(
    "record",
    [
        {"prompt": "no answer"},
        {"output": "no prompt"},
        {"prompt": " ", "output": "x"},
        {"prompt": ["x"], "output": "y"},
        {"messages": []},
        {"messages": "hi"},
        {"messages": [{"role": "user", "content": ""}]},
        {"messages": [[CHAT]]},
        {"messages": [{"role": "user", "content": {"text": "x"}}]},
    ],
)
def test_what_is_no_dialogue_is_a_row_that_says_so(tmp_path, record):
    assert [row["error_code"] for row in found(tmp_path, {"a.jsonl": jsonl(record)})] == [1003]


def test_a_text_of_its_own_comes_before_a_dialogue(tmp_path):
    rows = found(tmp_path, {"a.jsonl": jsonl({"text": "own", "messages": CHAT})})
    assert [row["text_content"] for row in rows] == ["own"] and json.loads(rows[0]["metadata_json"]) == {
        "messages": CHAT
    }


def test_half_of_a_surrogate_pair_in_a_turn_is_a_row(tmp_path):
    rows = found(
        tmp_path, {"a.jsonl": b'{"messages": [{"role": "user", "content": "\\ud800"}]}\n' + jsonl({"messages": CHAT})}
    )
    assert [row["error_code"] for row in rows] == [1003, None]


def test_columns_of_turns_and_of_prompts_are_texts_of_parquet(tmp_path):
    files = {
        "chat.parquet": parquet({"messages": [CHAT, None], "n": [1, 2]}),
        "asked.parquet": parquet({"question": ["a?"], "answer": ["b"], "k": [1]}),
    }
    rows = found(tmp_path, files)
    assert [(row["text_content"], row["error_code"]) for row in rows] == [
        ("question: a?\n\nanswer: b", None),
        ("system: Be brief.\n\nuser: Hi.\n\nassistant: Ho: \n\nhe", None),
        (None, 1003),
    ]
    assert [json.loads(row["metadata_json"]) for row in rows] == [
        {"question": "a?", "answer": "b", "k": 1},
        {"messages": CHAT, "n": 1},
        {"n": 2},
    ]


@pytest.mark.parametrize("is_column", [False, True])
def test_a_dialogue_about_an_image_next_to_it_is_metadata_of_the_image(tmp_path, is_column):
    files = {"a.tar": tar({"0.png": png(1), "0.json": json.dumps({"conversations": SHARED}).encode()})}
    if is_column:
        files = {"a.parquet": parquet({"image": [png(1)], "conversations": [SHARED]})}
    rows = found(tmp_path, files)
    assert [(row["modality"], row["sample_text"], json.loads(row["metadata_json"])) for row in rows] == [
        ("image", None, {"conversations": SHARED})
    ]


def test_records_of_a_tar_without_media_are_dialogues(tmp_path):
    rows = found(
        tmp_path,
        {"a.tar": tar({"0.json": json.dumps({"messages": CHAT}).encode(), "1.json": json.dumps({"n": 1}).encode()})},
    )
    assert [(member, code) for member, _, _, code in brief(rows)] == [("0.json#/messages", None), ("1.json", 1003)]


def test_the_settings_name_the_fields_of_dialogues(tmp_path):
    settings = SourceSettings(conversation_fields=("turns",), prompt_fields=("q",), answer_fields=("a",))
    records = [{"turns": CHAT[:1]}, {"q": "x", "a": "y"}, {"messages": CHAT}]
    rows = found(tmp_path, {"a.jsonl": jsonl(*records)}, settings=settings)
    assert [row["text_content"] for row in rows] == ["system: Be brief.", "q: x\n\na: y", None]


BODY = "A stone lies at the ford."


@pytest.mark.parametrize(
    ("record", "text", "metadata"),
    [
        ({"title": "Stones", "abstract": BODY, "categories": "hep-ph"}, BODY, {"categories", "title"}),
        ({"author": "x", "body": BODY, "score": 3}, BODY, {"author", "score"}),
        ({"Rating": 5, "Review": BODY}, BODY, {"Rating"}),
        ({"article": BODY, "abstract": "Stones."}, BODY, {"abstract"}),
        ({"body": " ", "article": BODY}, BODY, {"body"}),
        ({"inputs": "Add.", "targets": "3"}, "inputs: Add.\n\ntargets: 3", {"inputs", "targets"}),
        # what has another text, or a dialogue, has it as before
        ({"body": BODY, "text": "words"}, "words", {"body"}),
        ({"body": BODY, "prompt": "Add.", "output": "3"}, "prompt: Add.\n\noutput: 3", {"body", "prompt", "output"}),
    ],
)
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_record_without_other_texts_has_its_body(tmp_path, kind, record, text, metadata):
    if kind == "csv":
        cells = [f'"{value}"' for value in record.values()]
        data = f"{','.join(record)}\n{','.join(cells)}\n".replace("\n\n", "\n").encode()
    else:
        data = jsonl(record) if kind == "jsonl" else parquet({name: [value] for name, value in record.items()})
    (row,) = found(tmp_path, {f"a.{kind}": data})
    assert (row["role"], row["text_content"]) == ("document", text)
    if kind == "jsonl":
        assert json.loads(row["metadata_json"]).keys() == metadata


def test_a_body_next_to_a_picture_is_its_metadata(tmp_path):
    (row,) = found(tmp_path, {"a.tar": tar({"1.png": png(), "1.json": json.dumps({"body": BODY}).encode()})})
    assert (row["modality"], json.loads(row["metadata_json"])) == ("image", {"body": BODY})


def test_a_record_without_text_says_what_to_set(tmp_path):
    (row,) = found(tmp_path, {"a.jsonl": jsonl({"premise": "a", "label": 1})})
    assert row["materialize_error"].endswith("; name the one that is in sources.text_fields")
    (row,) = found(
        tmp_path / "set", {"a.jsonl": jsonl({"premise": "a"})}, settings=SourceSettings(text_fields=("premise",))
    )
    assert row["text_content"] == "a"
