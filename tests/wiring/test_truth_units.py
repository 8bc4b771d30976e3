"""Long items held against what was planted in them: met by units that are right, and by none that are wrong in one
place. Tables made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mmlake.preprocess.settings import UnitSettings
from mmlake.sample import LongItem, Sentence
from mmlake.truth.spans import Cuts, Planted, Stretch, check_cuts
from mmlake.truth.units import LongTruth, UnitTruth, excerpt_pairs, follow

# A film of 90 s: shots at 20, 40 and 66 s, black and silent from 40 to 46 s, and a sentence that runs over the cut at
# 20 s.
SENTENCES = (
    Sentence(text="The owl called.", start_s=2.0, end_s=4.0),
    Sentence(text="Snow fell over night.", start_s=18.0, end_s=21.0),
    Sentence(text="The bees came back.", start_s=55.0, end_s=58.0),
    Sentence(text="He lost his hat, again.", start_s=75.0, end_s=78.0),
)
PAUSES = ((0.0, 2.0), (4.0, 18.0), (21.0, 55.0), (58.0, 75.0), (78.0, 90.0))
FILM = Planted(
    item=LongItem(modality="video", duration_s=90.0, pauses_s=PAUSES, rests_s=((40.0, 46.0),)),
    shots_s=(20.0, 40.0, 66.0),
    sentences=SENTENCES,
)
GOOD = (
    Stretch(digest="a", start_s=0.0, end_s=17.0),
    Stretch(digest="b", start_s=17.0, end_s=40.1),
    Stretch(digest="-", start_s=40.1, end_s=45.9, gap="static"),
    Stretch(digest="c", start_s=45.9, end_s=66.0),
    Stretch(digest="d", start_s=66.0, end_s=90.0),
)
SAID = {
    "a": [("the", 2.0, 2.4), ("owl", 2.4, 3.0), ("called.", 3.0, 4.0)],
    "b": [("Snow", 1.0, 1.5), ("fell", 1.5, 2.0), ("over", 2.0, 3.0), ("night", 3.0, 4.0)],
    "c": [("The", 9.1, 9.5), ("bees", 9.5, 10.5), ("came", 10.5, 11.0), ("back", 11.0, 12.1)],
    "d": [("He", 9.0, 9.3), ("lost", 9.3, 10.0), ("his", 10.0, 10.5), ("hat", 10.5, 11.0), ("again", 11.0, 12.0)],
}


def cut(*stretches: Stretch, planted: Planted = FILM) -> Cuts:
    return check_cuts(stretches, planted, min_s=10, max_s=30)


def moved(number: int, border_s: float) -> list[Stretch]:
    """GOOD with another border behind that unit."""
    made = list(GOOD)
    made[number] = replace(made[number], end_s=border_s)
    made[number + 1] = replace(made[number + 1], start_s=border_s)
    return made


def followed(stretches=GOOD, *, given=SAID, causes=None, planted=FILM) -> LongTruth:
    return follow("film", planted, stretches, given=given, causes=causes or {}, settings=UnitSettings())


def test_units_that_are_right_meet_the_truth() -> None:
    one = followed()
    assert one.wrong == []
    assert one.borders == {"pause": 1, "gap": 2, "shot": 1}
    assert (one.num_units, one.num_sentences, one.num_said, one.num_excluded) == (4, 4, 4, 0)
    assert (one.batch_s, one.gap_s, one.excluded_s) == (pytest.approx(84.2), pytest.approx(5.8), {})


def test_a_border_in_the_middle_of_a_sentence_is_wrong_where_it_could_be_elsewhere() -> None:
    cuts = cut(*moved(0, 20.0))  # at a shot border, within a sentence, with pauses on both sides of it
    assert [line for line in cuts.wrong if "Snow fell" in line] == cuts.wrong != []
    assert cuts.borders["forced"] == 1


def test_a_border_in_a_sentence_that_fills_the_room_is_forced() -> None:
    planted = replace(
        FILM,
        item=replace(FILM.item, pauses_s=((0.0, 1.0), (39.0, 90.0))),
        sentences=(Sentence(text="On and on.", start_s=1.0, end_s=39.0),),
        shots_s=(40.0, 66.0),
    )
    cuts = cut(*GOOD, planted=planted)
    assert (cuts.wrong, cuts.borders["forced"], cuts.forced_fraction) == ([], 1, 0.25)


def test_a_border_at_nothing_that_was_planted_is_wrong() -> None:
    planted = replace(FILM, item=replace(FILM.item, pauses_s=((0.0, 2.0), (21.0, 50.0))))
    assert [line.partition(" lies")[0] for line in cut(*moved(3, 70.0), planted=planted).wrong] == [
        "the border at 17.00 s",
        "the border at 70.00 s",
    ]


@pytest.mark.parametrize(("border_s", "is_right"), [(66.1, True), (66.2, False)])
def test_a_border_is_at_a_shot_border_within_two_frames(border_s, is_right) -> None:
    planted = replace(FILM, item=replace(FILM.item, pauses_s=((0.0, 40.0),)))
    assert (cut(*moved(3, border_s), planted=planted).wrong == []) is is_right


def test_a_rest_that_is_no_gap_is_named() -> None:
    cuts = cut(*GOOD[:2], replace(GOOD[2], gap=None), *GOOD[3:])
    assert cuts.wrong == ["the rest from 40.00 to 46.00 s is no gap"]


def test_a_gap_that_was_not_planted_is_named() -> None:
    cuts = cut(*GOOD[:4], replace(GOOD[4], gap="silence"))
    assert cuts.wrong == ["the gap silence from 66.00 to 90.00 s is no planted rest"]


def test_a_gap_that_reaches_far_beyond_its_rest_is_named() -> None:
    assert cut(*moved(2, 47.0)).wrong == ["the gap static from 40.10 to 47.00 s is no planted rest"]


def test_units_that_leave_a_hole_are_named() -> None:
    wrong = cut(*GOOD[:3], replace(GOOD[3], start_s=47.0), GOOD[4]).wrong
    assert wrong == ["units and gaps leave 45.900 to 47.000 s to nobody, or to two"]


def test_units_that_end_early_are_named() -> None:
    assert cut(*GOOD[:4]).wrong == ["units and gaps end at 66.00 s of 90.00 s"]


def test_an_item_without_units_is_lost() -> None:
    assert followed(()).wrong != []


def test_a_unit_that_no_batch_holds_is_lost() -> None:
    one = followed(given={unit: words for unit, words in SAID.items() if unit != "b"})
    assert "the unit from 17.00 to 40.10 s is in no batch, and not excluded" in one.wrong
    assert "23.10 s are in no batch, in no excluded sample and in no gap" in one.wrong


def test_a_unit_that_is_excluded_with_a_cause_is_not_lost() -> None:
    one = followed(given={unit: words for unit, words in SAID.items() if unit != "b"}, causes={"b": "tier:near"})
    assert one.wrong == []
    assert {cause: round(length_s, 3) for cause, length_s in one.excluded_s.items()} == {"tier:near": 23.1}
    assert (one.num_said, one.num_excluded) == (3, 1)


@pytest.mark.parametrize("number", range(4))
def test_a_missing_word_is_a_lost_sentence(number) -> None:
    one = followed(given=SAID | {"b": SAID["b"][:number] + SAID["b"][number + 1 :]})
    assert one.wrong == ['not all words of "Snow fell over night." are there']
    assert one.num_said == 3


def test_words_in_another_order_are_a_lost_sentence() -> None:
    assert followed(given=SAID | {"a": [SAID["a"][1], SAID["a"][0], SAID["a"][2]]}).num_said == 3


def test_words_on_the_clock_of_the_item_are_wrong_in_a_unit() -> None:
    late = [(word, start_s + 66, end_s + 66) for word, start_s, end_s in SAID["d"]]
    assert followed(given=SAID | {"d": late}).wrong == ['not all words of "He lost his hat, again." are there']


@pytest.mark.parametrize(("shift_s", "is_right"), [(0.14, True), (0.16, False), (-0.14, True), (-0.16, False)])
def test_words_are_where_they_are_said(shift_s, is_right) -> None:
    words = [(word, start_s + shift_s, end_s + shift_s) for word, start_s, end_s in SAID["b"]]
    one = followed(given=SAID | {"b": words})
    assert ((one.num_said == 4), not one.wrong) == (is_right, is_right)


@pytest.mark.parametrize(("start_s", "counts"), [(0.9, (4, 4)), (0.45, (4, 3)), (0.2, (3, 3))])
def test_a_first_word_may_begin_in_the_pause_before_it_and_is_counted(start_s, counts) -> None:
    one = followed(given=SAID | {"b": [("Snow", start_s, 1.5), *SAID["b"][1:]]})
    assert (one.num_said, one.num_exact) == counts


def test_a_sentence_whose_words_two_units_hold_is_whole() -> None:
    stretches = moved(0, 20.0)
    given = SAID | {"a": [*SAID["a"], ("Snow", 18.0, 18.5), ("fell", 18.5, 19.0)]}
    given["b"] = [("over", -1.0 + 0.0, 0.0), ("night", 0.0, 1.0)]
    assert followed(stretches, given=given).num_said == 4


def test_a_voice_without_words_has_no_sentences_to_lose() -> None:
    one = followed(given={unit: [] for unit in SAID}, planted=replace(FILM, has_words=False))
    assert (one.wrong, one.num_sentences) == ([], 0)


def test_the_table_says_what_is_lost_and_which_copies_were_missed() -> None:
    from rich.console import Console

    good = UnitTruth(items=[followed()], num_excerpts=1, num_found=1, missed=[])
    bad = UnitTruth(items=[followed(GOOD[:4])], num_excerpts=1, num_found=1, missed=[])
    missed = UnitTruth(items=[followed()], num_excerpts=1, num_found=0, missed=["video 12 (trimmed)"])
    assert [one.is_met for one in (good, bad, missed)] == [True, False, False]
    out = Console(width=200, record=True)
    for one in (good, bad, missed):
        out.print(one.drawn())
    text = out.export_text()
    assert text.count("NOT MET") == 2
    assert "units and gaps end at 66.00" in text
    assert "video 12 (trimmed)" in text


def test_an_excerpt_pairs_with_the_units_that_hold_it() -> None:
    from mmlake.sample import Excerpt, Truth

    copy = Excerpt(modality="video", kind="smaller", digest="b0", parent="p", start_s=20.0, end_s=40.0)
    truth = Truth(
        seed=1, scale=1.0, speech="formant", items=(), duplicates=(), lookalikes=(), shots={}, sentences={},
        long_items={"p": FILM.item}, excerpts=(copy,), probes=(), samples=(), companions=(),
    )  # fmt: skip
    assert excerpt_pairs(truth, {"p": GOOD}, "video") == {("b", "b0")}
    assert excerpt_pairs(truth, {"p": GOOD}, "audio") == set()
