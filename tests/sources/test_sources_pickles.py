"""Pickles of protocol 0 are printable, and are no texts: whoever loads one runs it."""

from __future__ import annotations

import datetime
import pickle
from collections import OrderedDict

import pytest
from source_builders import rows_of

from mmlake.formats.sniff import kind_of

VALUES = [
    {"text": "words"},
    ["words", 1],
    ("words", None, 1.5),
    OrderedDict(text="words"),
    datetime.date(2026, 11, 23),
    "words of a text",
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", ["a.txt", "a.dat", "a", "a.md"])
def test_a_pickle_of_protocol_0_is_no_text(value: object, name: str) -> None:
    kind = kind_of(pickle.dumps(value, protocol=0), name)
    assert kind is not None
    assert (kind.modality, kind.extension) == (None, "pkl")


@pytest.mark.parametrize("text", ["(do this)\n", "cats\nand\ndogs\n", "Very\npoor\n.", "(dp0", "(l\n"])
def test_texts_that_begin_alike_are(text: str) -> None:
    kind = kind_of(text.encode(), "a.txt")
    assert kind is not None
    assert kind.modality == "text"


def test_a_pickle_among_texts_is_a_row_that_says_so(tmp_path) -> None:
    (tmp_path / "in" / "d").mkdir(parents=True)
    (tmp_path / "in" / "d" / "a.txt").write_bytes(pickle.dumps({"text": "words"}, protocol=0))
    (tmp_path / "in" / "d" / "b.txt").write_text("words of a text")
    found = {row["sample_id"]: (row["modality"], row["error_code"]) for row in rows_of(tmp_path / "in")}
    assert found == {"d/a": ("text", 1005), "d/b": ("text", None)}
