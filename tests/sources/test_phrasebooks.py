"""Dictionaries of an interface are no records, though some of their phrases are called as fields of records are."""

from __future__ import annotations

import json

import pytest

from tests.sources.source_builders import land, png, rows_of

LABELS = {"Text": "Texto", "Captions": "Leyendas", "Play": "Reproducir", "Pause": "Pausa", "Mute": "Silenciar"}


def phrases(num: int, num_spaced: int) -> dict[str, str]:
    """So many entries, of which so many have a name of two words."""
    own = dict(list(LABELS.items())[: num - num_spaced])
    own |= {f"Label{number}": f"etiqueta {number}" for number in range(num - num_spaced - len(own))}
    return own | {f"Exit Window {number}": f"salir {number}" for number in range(num_spaced)}


def rows(tmp_path, value: dict, **others: bytes) -> list[dict]:
    files = {"es.json": json.dumps(value).encode()} | {name.replace("_", "."): data for name, data in others.items()}
    return rows_of(land(tmp_path / "in", files))


@pytest.mark.parametrize(("num", "num_spaced"), [(60, 30), (16, 8), (24, 8)])
def test_a_dictionary_of_phrases_is_one_row_that_says_so(tmp_path, num: int, num_spaced: int) -> None:
    (row,) = rows(tmp_path, phrases(num, num_spaced))
    assert (row["status"], row["error_code"]) == ("unreadable", 1003)
    assert f"num_fields={num} phrases" in row["materialize_error"] and row["digest"] is not None


@pytest.mark.parametrize(
    "value",
    [
        phrases(15, 8),
        phrases(25, 8),
        phrases(60, 30) | {"Text": "a text of a document. " * 20},
        phrases(60, 30) | {"likes": 7},
    ],
    ids=["few", "identifiers", "a long text", "a number"],
)
def test_other_records_keep_their_texts(tmp_path, value: dict) -> None:
    found = rows(tmp_path, value)
    assert [(row["status"], row["role"]) for row in found] == [("ok", "document"), ("ok", "caption")]


def test_next_to_a_medium_it_is_metadata_of_it(tmp_path) -> None:
    (row,) = rows(tmp_path, phrases(60, 30), es_png=png())
    assert (row["modality"], row["status"], row["sample_text"]) == ("image", "ok", None)
    assert json.loads(row["metadata_json"])["Captions"] == "Leyendas"
