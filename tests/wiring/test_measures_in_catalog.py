"""Measures and source fields of a lake, from its landing zone to a search of its catalog."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from mmlake import pipeline, publish
from mmlake.catalog import vector_column
from mmlake.errors import SettingsError
from mmlake.lake import Lake
from mmlake.parts import BUILT_IN
from mmlake.quality import Scorer
from mmlake.records import digest_of
from mmlake.settings import Settings
from tests import make

TEXTS = {make.prose(1): {"label": "cat", "page": 3}, make.prose(2): {"label": "dog", "page": 0.5}, "Too short.": {}}


def lake_at(tmp_path, *, modality=None, encoders=BUILT_IN.encoders, **sections) -> Lake:
    lines = "".join(json.dumps({"text": text, **fields}) + "\n" for text, fields in TEXTS.items())
    make.land(tmp_path / "landing", {"text/a.jsonl": lines.encode()})
    row = modality or BUILT_IN.modalities["text"]
    parts = replace(BUILT_IN, modalities={**BUILT_IN.modalities, "text": row}, encoders=encoders)
    return Lake(tmp_path / "lake", landing=tmp_path / "landing", settings=Settings.of(sections), parts=parts)


def catalogued(lake: Lake) -> Lake:
    pipeline.refresh(lake)
    pipeline.run_tables(lake)
    publish.update_samples(lake)
    publish.update_catalog(lake)
    return lake


def mean_word_length(text: str) -> float:
    words = re.sub(r"[^a-z ]", "", text.lower()).split()
    return sum(len(word) for word in words) / len(words)


def found(lake: Lake, where: str) -> set[str]:
    return set(lake.catalog.search(where=where)["digest"].to_pylist())


def digests(*texts: str) -> set[str]:
    return {digest_of(text.encode()) for text in texts}


def test_numbers_of_the_catalog_are_those_of_the_texts(tmp_path) -> None:
    lake = catalogued(lake_at(tmp_path))
    rows = {row["digest"]: row for row in lake.catalog.read().to_pylist()}
    for text in TEXTS:
        row = rows[digest_of(text.encode())]
        assert row["mean_word_length_chars"] == pytest.approx(mean_word_length(text), abs=1e-12)
        assert (row["num_failures"], row["snr_db"]) == (0.0, None)
    bound = (mean_word_length(make.prose(1)) + mean_word_length(make.prose(2))) / 2
    longer = {text for text in TEXTS if mean_word_length(text) > bound}
    assert found(lake, f"mean_word_length_chars > {bound}") == digests(*longer)
    assert found(lake, "metadata.label = 'cat'") == digests(make.prose(1))
    assert found(lake, "metadata.page > 1") == digests(make.prose(1))
    with pytest.raises(SettingsError, match=r"mean_word_length_chars.*metadata\.label, metadata\.page"):
        lake.catalog.search(where="metadata.colour = 'red'")


def test_a_threshold_change_takes_no_measure_again_and_changes_no_number(tmp_path) -> None:
    lake = catalogued(lake_at(tmp_path))
    columns = ["digest", "mean_word_length_chars", "garbled_fraction", "metadata"]
    before, stamps = lake.catalog.read(columns), lake.tables.stamps("measures", "text")
    lake = catalogued(lake_at(tmp_path, quality={"bounds": {"word_length": [9, 10]}}))
    assert lake.catalog.count("status = 'flagged'") == 2
    assert lake.catalog.read(columns).equals(before)
    assert lake.tables.stamps("measures", "text") == stamps


def one(subject) -> float:
    return float(len(subject.track["text"] or ""))


def load():
    return one


def test_rows_say_producer_and_revision_and_another_revision_measures_again(tmp_path) -> None:
    text = BUILT_IN.modalities["text"]
    scorer = Scorer(
        name="acme_len", modalities=("text",), revision="7", licence="MIT", columns=("text",), load=load,
        plugin="acme==1.0",
    )  # fmt: skip
    lake = catalogued(lake_at(tmp_path, modality=replace(text, scorers=(scorer,))))
    rows = lake.tables.concat("measures", "text").to_pylist()
    takers = {row["measure"]: (row["producer"], row["revision"]) for row in rows}
    assert takers["acme_len"] == ("acme_len (acme==1.0)", "7")
    assert (takers["num_words"], takers["num_failures"]) == (("text", "17"), ("measures", "1"))
    assert found(lake, "acme_len <= 10") == digests("Too short.")
    (measurement,) = text.measurements
    newer = replace(text, measurements=(replace(measurement, revision="2"),))
    lake = catalogued(lake_at(tmp_path, modality=newer))
    rows = lake.tables.concat("measures", "text").to_pylist()
    assert {row["revision"] for row in rows if row["measure"] == "num_words"} == {"2"}


def test_a_switched_encoder_leaves_the_old_vectors_in_the_catalog(tmp_path) -> None:
    encoders = BUILT_IN.encoders | {"other-words": replace(BUILT_IN.encoders["minilm-l6"], name="other-words")}
    lake = catalogued(lake_at(tmp_path, encoders=encoders))
    old = lake.catalog.read(["digest", vector_column("minilm-l6")])
    lake = catalogued(lake_at(tmp_path, encoders=encoders, embed={"encoders": {"text": "other-words"}}))
    assert {"minilm_l6", "other_words"} <= set(lake.catalog.encoders())
    assert lake.catalog.read(["digest", vector_column("minilm-l6")]).equals(old)
    assert lake.catalog.count(f"{vector_column('other-words')} IS NOT NULL") > 0
    assert lake.catalog.verify() == []
