"""Captions that a recipe masks for their cosine with what they stand next to."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmlake.errors import SettingsError
from mmlake.recipes import Recipe
from mmlake.recipes.document import parse
from tests.versions.sample_rows import CURATED, caption, catalog_row, chosen, many, name, picture, sample

BOUND = 0.25
SCORED = replace(CURATED, min_caption_score=BOUND)


def scores(*rows: tuple[int, int, float]) -> pa.Table:
    """(picture, caption, cosine), by number."""
    columns = {"digest": [name(row[0]) for row in rows], "caption": [name(row[1]) for row in rows]}
    columns["cosine"] = [row[2] for row in rows]
    return pa.table(
        columns, schema=pa.schema([("digest", pa.string()), ("caption", pa.string()), ("cosine", "float64")])
    )


def masked(selection) -> list[tuple[str, str, str]]:
    rows = selection.excluded.to_pylist()
    return sorted((row["digest"], row["cause"], row["detail"]) for row in rows if not row["is_whole"])


def test_one_caption_of_two_is_masked_and_the_same_words_stay_with_another_picture() -> None:
    samples = [sample(picture(0), caption(2), caption(3)), sample(picture(1), caption(2))]
    found = scores((0, 2, 0.1), (0, 3, 0.3), (1, 2, 0.25))
    selection = chosen(many(4), samples, SCORED, caption_scores=found)
    assert masked(selection) == [(name(2), "caption_score", "caption_score=0.1000 not in [0.25, 1]")]
    kept = {tuple(part["digest"] for part in row["parts"]) for row in selection.samples.to_pylist()}
    assert kept == {(name(0), name(3)), (name(1), name(2))}


def test_without_a_cosine_or_a_bound_a_caption_stays() -> None:
    samples = [sample(picture(0), caption(1))]
    assert masked(chosen(many(2), samples, SCORED, caption_scores=scores())) == []
    assert masked(chosen(many(2), samples, SCORED, caption_scores=scores((0, 1, 0.25), (7, 1, 0.0)))) == []
    assert masked(chosen(many(2), samples, CURATED, caption_scores=scores((0, 1, 0.0)))) == []


def test_what_else_keeps_a_caption_out_is_said_first_and_a_required_caption_takes_the_sample_along() -> None:
    rows = [catalog_row(0), catalog_row(1, status="quarantined", rule="too_few_words"), catalog_row(2)]
    samples = [sample(picture(0), caption(1), caption(2))]
    required = replace(SCORED, required_roles=("caption",))
    found = chosen(rows, samples, required, caption_scores=scores((0, 1, 0.0), (0, 2, 0.0)))
    causes = [(row["digest"], row["is_whole"], row["cause"]) for row in found.excluded.to_pylist()]
    assert causes == [(name(number), True, "required:caption") for number in range(3)]
    other = chosen(rows, samples, SCORED, caption_scores=scores((0, 1, 0.0), (0, 2, 0.0)))
    assert [cause for _, cause, _ in masked(other)].count("rule:too_few_words") == 1


@given(st.data())
def test_a_caption_stays_by_its_best_picture_of_the_sample(data) -> None:
    """Against a loop over samples: pictures 0 to 3, captions 10 to 13, any of them together."""
    cosine = st.sampled_from([-0.1, 0.2, 0.25, 0.3])
    pairs = data.draw(st.dictionaries(st.tuples(st.integers(0, 3), st.integers(10, 13)), cosine, max_size=10))
    drawn = data.draw(
        st.lists(
            st.tuples(
                st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True),
                st.lists(st.integers(10, 13), max_size=3, unique=True),
            ),
            min_size=1,
            max_size=4,
            unique_by=repr,
        )
    )
    samples = [sample(*map(picture, media), *map(caption, texts)) for media, texts in drawn]
    found = scores(*((*pair, value) for pair, value in pairs.items()))
    rows = [catalog_row(number) for number in (*range(4), *range(10, 14))]
    selection = chosen(rows, samples, replace(SCORED, drop_tiers=()), caption_scores=found)
    expected = [
        name(text)
        for media, texts in drawn
        for text in texts
        if (known := [pairs[one, text] for one in media if (one, text) in pairs]) and max(known) < BOUND
    ]
    assert [digest for digest, _, _ in masked(selection)] == sorted(expected)


def test_the_bound_is_a_cosine_in_the_document_and_part_of_its_digest() -> None:
    text = 'name = "a"\nmin_caption_score = 0.28\n'
    recipe = parse(text, origin="a.toml")
    assert recipe.min_caption_score == 0.28 and "embed" in recipe.sections
    assert Recipe.from_dict(recipe.to_dict()) == replace(recipe, origin="", text="")
    assert recipe.digest != parse('name = "a"\n', origin="a.toml").digest
    for wrong, said in (("28", "28, expected a cosine from -1 to 1"), ('"high"', "'high', expected a number")):
        with pytest.raises(SettingsError, match=said):
            parse(f'name = "a"\nmin_caption_score = {wrong}\n', origin="a.toml")
