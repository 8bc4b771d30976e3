"""A small JSON file that carries its own checksum."""

from __future__ import annotations

import json

import pytest

from mmlake import checked_json

DOCUMENTS = [{}, {"a": 1, "ü": "\n\udcff"}, {"id": "0" * 64, "move": 3}, {"rows": [{"x": None}], "checks": {"c": 0.5}}]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_is_written_comes_back_and_any_reader_of_json_reads_it(document) -> None:
    text = checked_json.dumps(document)
    assert checked_json.loads(text) == document
    assert json.loads(text) == document | {"checksum": json.loads(text)["checksum"]}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_flipped_bit_and_no_shorter_text_is_taken_for_it(document) -> None:
    text = checked_json.dumps(document)
    harmed = [text[:at] + bytes([text[at] ^ 1 << bit]) + text[at + 1 :] for at in range(len(text)) for bit in range(8)]
    for one in [*harmed, *(text[:size] for size in range(len(text)))]:
        with pytest.raises(ValueError):
            checked_json.loads(one)


def test_files_of_earlier_releases_are_read_as_they_are() -> None:
    for document in ({"format": 1}, {"chain": "x"}, {"checks": {}}):
        assert checked_json.loads(json.dumps(document, separators=(",", ":")).encode()) == document


def test_an_object_with_a_checksum_of_its_own_is_refused() -> None:
    with pytest.raises(ValueError, match="field 'checksum'"):
        checked_json.dumps({"checksum": "mine"})
