"""Lists of URLs whose records are interleaved: the images are fetched, and everything stands in the order of the
record."""

from __future__ import annotations

import json

import pytest

from mmlake import sources
from mmlake.records import SourceRef
from tests.sources.source_builders import SETTINGS, jsonl, land, parquet, png, sha
from tests.sources.web.site import rows_of_lists


@pytest.mark.parametrize("name", ["a.urls.jsonl", "a.urls.parquet"])
def test_images_among_texts_are_fetched_and_stand_at_their_places(tmp_path, site, name):
    first, second = site.serve("/1.png", png(1)), site.serve("/2.png", png(2))
    record = {
        "texts": [None, "Between.", None, "Behind."],
        "images": [first, None, second, None],
        "url": site.serve("/page.html", b"<p>page</p>"),
        "general_metadata": "{}",
    }
    land(
        tmp_path / "in",
        {name: jsonl(record) if name.endswith("jsonl") else parquet({key: [value] for key, value in record.items()})},
    )
    rows = sorted(rows_of_lists(tmp_path), key=lambda row: row["position"])
    assert [(row["position"], row["modality"], row["text_content"], row["error_code"]) for row in rows] == [
        (0, "image", None, None),
        (1, "text", "Between.", None),
        (2, "image", None, None),
        (3, "text", "Behind.", None),
    ]
    assert [row["digest"] for row in rows if row["modality"] == "image"] == [sha(png(1)), sha(png(2))]
    said = json.loads(rows[0]["metadata_json"])
    assert (said["image_url"], said["url"], said["http_status"]) == (first, record["url"], 200) and "images" not in said


def test_matched_images_are_fetched_before_their_sentences(tmp_path, site):
    images = [
        {"raw_url": site.serve("/b.png", png(2)), "matched_text_index": 1, "image_name": "b.png"},
        {"raw_url": site.serve("/a.png", png(1)), "matched_text_index": 0},
    ]
    land(tmp_path / "in", {"a.urls.jsonl": jsonl({"text_list": ["One.", "Two."], "image_info": images})})
    rows = sorted(rows_of_lists(tmp_path), key=lambda row: row["position"])
    assert [row["text_content"] or row["digest"] for row in rows] == [sha(png(1)), "One.", sha(png(2)), "Two."]


def test_an_image_that_does_not_come_keeps_its_place_and_says_why(tmp_path, site):
    land(
        tmp_path / "in",
        {
            "a.urls.jsonl": jsonl(
                {"texts": [None, "t", None], "images": [site.url("/gone.png"), None, "no-address.png"]},
                {"texts": ["u"], "images": [None]},
            )
        },
    )
    rows = rows_of_lists(tmp_path)
    assert sorted((row["sample_id"][-6:], row["position"], row["modality"], row["error_code"]) for row in rows) == [
        ("line:1", 0, "image", 1106),
        ("line:1", 1, "text", None),
        ("line:1", 2, "image", 1101),
        ("line:2", 0, "text", None),
    ]


def test_the_modalities_of_an_interleaved_list_are_known_before_anything_is_fetched(tmp_path):
    land(
        tmp_path / "in",
        {"a.urls.jsonl": jsonl({"texts": [None, "t"], "images": ["http://h/1", None], "url": "http://h/page"})},
    )
    assert sources.scan(tmp_path / "in", settings=SETTINGS)[0].modalities == ("text", "image")


def test_texts_of_an_interleaved_list_are_fetched_again_by_their_locators(tmp_path):
    root = land(
        tmp_path / "in",
        {"a.urls.jsonl": jsonl({"texts": ["first", None, "second"], "images": [None, "http://h/1", None]})},
    )
    assert sources.fetch(SourceRef("a.urls.jsonl", "line:1/texts/2"), landing=root) == b"second"
