"""Pairs of preferences: two texts of one sample, each the whole conversation as it went in one way."""

from __future__ import annotations

import json

import pytest

from mmlake.sources import SourceSettings
from tests.sources.source_builders import gz, jsonl, land, parquet, png, rows_of, tar

ASKED, GOOD, BAD = (
    {"role": "user", "content": "Why?"},
    {"role": "assistant", "content": "Because."},
    {"role": "assistant", "content": "No."},
)
PAIRS = {
    "hh-rlhf": (
        {"chosen": "\n\nHuman: Why?\n\nAssistant: Because.", "rejected": "\n\nHuman: Why?\n\nAssistant: No."},
        ["Human: Why?\n\nAssistant: Because.", "Human: Why?\n\nAssistant: No."],
    ),
    "strings": (
        {"prompt": "Why?", "chosen": "Because.", "rejected": "No."},
        ["prompt: Why?\n\nchosen: Because.", "prompt: Why?\n\nrejected: No."],
    ),
    "repeated prompt": (
        {"prompt": "Why?", "chosen": "Why? Because.", "rejected": "Why? No."},
        ["Why? Because.", "Why? No."],
    ),
    "system and question": (
        {"system": "Be brief.", "question": "Why?", "chosen": "Because.", "rejected": "No."},
        [
            "system: Be brief.\n\nquestion: Why?\n\nchosen: Because.",
            "system: Be brief.\n\nquestion: Why?\n\nrejected: No.",
        ],
    ),
    "UltraFeedback": (
        {
            "prompt": "Why?",
            "chosen": [ASKED, GOOD],
            "rejected": [ASKED, BAD],
            "messages": [ASKED, GOOD],
            "score_chosen": 8.0,
        },
        ["user: Why?\n\nassistant: Because.", "user: Why?\n\nassistant: No."],
    ),
    "turns of the prompt": (
        {"prompt": [ASKED], "chosen": [GOOD], "rejected": [BAD]},
        ["user: Why?\n\nassistant: Because.", "user: Why?\n\nassistant: No."],
    ),
}


def found(tmp_path, files, **options):
    return rows_of(land(tmp_path / "in", files), **options)


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.parquet", "a.tar"])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_pair_is_two_texts_that_say_which_they_are(tmp_path, pair, name):
    record, texts = PAIRS[pair]
    made = {
        "a.jsonl.gz": lambda: gz(jsonl(record)),
        "a.parquet": lambda: parquet({key: [value] for key, value in record.items()}),
        "a.tar": lambda: tar({"0.json": json.dumps(record).encode()}),
    }
    rows = found(tmp_path, {name: made[name]()})
    assert [(row["text_content"], row["position"], row["role"]) for row in rows] == [
        (texts[0], 0, "document"),
        (texts[1], 1, "document"),
    ]
    assert [json.loads(row["metadata_json"]) for row in rows] == [
        record | {"preference": side} for side in ("chosen", "rejected")
    ]
    assert len({row["sample_id"] for row in rows}) == 1


@pytest.mark.parametrize("empty", [None, "", " ", [], [{"role": "assistant", "content": ""}]])
def test_a_side_without_words_leaves_the_other(tmp_path, empty):
    rows = found(tmp_path, {"a.jsonl": jsonl({"chosen": "Because.", "rejected": empty})})
    assert [row["text_content"] for row in rows] == ["Because."]


@pytest.mark.parametrize(
    "record", [{"chosen": "x"}, {"rejected": "x"}, {"chosen": None, "rejected": None}, {"chosen": 1, "rejected": 0}]
)
def test_what_is_no_pair_is_a_row_that_says_so(tmp_path, record):
    assert [row["error_code"] for row in found(tmp_path, {"a.jsonl": jsonl(record)})] == [1003]


def test_a_short_question_that_one_answer_happens_to_begin_with_stays(tmp_path):
    rows = found(tmp_path, {"a.jsonl": jsonl({"prompt": "No", "chosen": "Yes.", "rejected": "Not so."})})
    assert [row["text_content"] for row in rows] == ["prompt: No\n\nchosen: Yes.", "prompt: No\n\nrejected: Not so."]


def test_a_pair_about_an_image_next_to_it_is_metadata_of_the_image(tmp_path):
    record, _ = PAIRS["strings"]
    (row,) = found(tmp_path, {"a.tar": tar({"0.png": png(1), "0.json": json.dumps(record).encode()})})
    assert row["modality"] == "image" and json.loads(row["metadata_json"]) == record


def test_the_settings_name_the_sides(tmp_path):
    settings = SourceSettings(chosen_fields=("Better",), rejected_fields=("worse",))
    rows = found(
        tmp_path,
        {"a.jsonl": jsonl({"better": "a", "worse": "b"}), "b.parquet": parquet({"better": ["a"], "WORSE": ["b"]})},
        settings=settings,
    )
    assert [json.loads(row["metadata_json"])["preference"] for row in rows] == ["chosen", "rejected"] * 2
