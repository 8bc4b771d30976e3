"""A transcript that a version leaves out is nowhere in its samples: subtitles and aligned words repeat it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mmlake import pipeline
from mmlake.lake import Lake
from mmlake.loader import ShardStream
from mmlake.publish import update_catalog, update_samples
from mmlake.settings import Settings
from tests.cuts.counted_films import counted_film
from tests.lakes import published
from tests.preprocess.test_embedded_subtitles import film

SETTINGS = Settings.of(
    {
        "units": {"whole_up_to_s": 6.0, "min_span_s": 2.0, "target_span_s": 4.0, "max_span_s": 8.0},
        "quality": {"disabled": ("wrong_transcript", "strobe")},  # films of numbers, in which nobody speaks
    }
)
LINES = ["The fox sits in the snow.", "It waits for a mouse."]
WITHOUT = 'name = "silent"\nroles = ["media"]\nstatuses = ["ok", "flagged", "quarantined"]\ndrop_tiers = ["exact"]\n'
MASKED = 'name = "judged"\nstatuses = ["ok", "flagged"]\ndrop_tiers = ["exact"]\n'


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A film of twelve seconds with subtitles next to it, one whose subtitles are replacement characters, and one with
    its subtitles within it."""
    base = tmp_path_factory.mktemp("unsaid")
    films = base / "in" / "films"
    films.mkdir(parents=True)
    counted_film(films / "fox.mp4", 300)
    blocks = [f"{at + 1}\n00:00:0{5 * at + 1},000 --> 00:00:0{5 * at + 3},000\n{one}\n" for at, one in enumerate(LINES)]
    (films / "fox.srt").write_text("\n".join(blocks))
    counted_film(films / "lost.mp4", 100)
    (films / "lost.srt").write_text("1\n00:00:01,000 --> 00:00:03,000\n\ufffd\ufffd\ufffd \ufffd\ufffd\ufffd lost\n")
    film(films / "own.mkv", ("Hello", "eng", "0"), codec="copy")
    for one in films.glob("*.txt"):
        one.unlink()
    with Lake(base / "lake", landing=base / "in", settings=SETTINGS) as lake:
        pipeline.refresh(lake)
        pipeline.run_tables(lake)
        update_samples(lake)
        update_catalog(lake)
        yield lake


def samples_of(lake: Lake, recipe: str) -> list[dict[str, Any]]:
    """The samples of a version by that recipe."""
    name = published(lake, recipe)
    return list(ShardStream(lake.shards_dir / lake.versions.resolve(name), shuffle=False, decode={"json": "json"}))


def everything_of(samples: list[dict[str, Any]]) -> str:
    return " ".join(str(sample["json"]) + str(sample.get("transcript.txt", "")) for sample in samples)


def test_a_recipe_without_transcripts_has_none_of_their_words(lake: Lake) -> None:
    samples = samples_of(lake, WITHOUT)
    assert len(samples) >= 4 and not [line for line in LINES if line in everything_of(samples)]
    assert [one["json"]["words"] for one in samples] == [[]] * len(samples)
    (own,) = [one["json"] for one in samples if one["json"]["cues"]]
    assert "Hello" in str(own["cues"])  # no transcript was left out: they are of the film itself


def test_a_transcript_that_judging_takes_out_leaves_no_words_and_others_stay(lake: Lake) -> None:
    samples = samples_of(lake, MASKED)
    said = everything_of(samples)
    assert "\ufffd" not in said
    assert sorted(cue["text"] for one in samples for cue in one["json"]["cues"] if cue["text"] in LINES) == sorted(
        LINES
    )
    assert sum("lost" in str(one["json"]["sample_ids"]) for one in samples) == 1, "its film stays"
