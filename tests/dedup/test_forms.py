"""Semantic pairs that fill in one form, or that are the same but for their numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mmlake.dedup import DedupSettings, text_veto
from mmlake.dedup.text.fingerprints import print_table

FIRST = ("Mary", "James", "Olga", "Carlos", "Fatima", "Wei", "Linda", "Ahmed")
CITIES = ("Oslo", "Lima", "Cairo", "Boston", "Nairobi", "Vienna", "Denver", "Seoul")
JOBS = ("baker", "pilot", "nurse", "lawyer", "plumber", "chemist", "painter", "tailor")
OTHERS = (
    "The harbour master closed the northern quay after the storm had torn two barges from their moorings.",
    "Bread rises faster in a warm kitchen, and slower dough tastes better, as every baker of the village knows.",
)


def record(at: int) -> str:
    return json.dumps(
        {"id": 100 + at, "name": FIRST[at % 8], "city": CITIES[at * 3 % 8], "job": JOBS[at * 5 % 8], "active": True}
    )


def is_apart(texts: list[str], *, contrasts: bool = True) -> bool:
    """Of the first two of the texts."""
    veto = text_veto(print_table(texts), settings=DedupSettings(), contrasts=contrasts)
    return bool(veto(np.array([0]), np.array([1]))[0])


def test_records_of_one_form_are_apart_where_there_are_enough_of_them():
    records = [record(at) for at in range(8)]
    assert is_apart(records)
    assert is_apart([*records, *OTHERS])
    assert not is_apart([*records[:5], *OTHERS])  # three other texts are no form


def test_slots_that_are_equal_by_chance_are_no_part_of_the_form():
    records = [record(at) for at in range(8)]
    assert is_apart([records[0].replace(CITIES[0], CITIES[3]), *records[1:], *OTHERS])


def test_a_sentence_in_many_languages_is_a_form():
    codes = [f"{one}{two}" for one in "abcdefg" for two in "stuvw"]
    texts = [
        "\n".join(f"{code}.utf8={word}{code[::-1]}" for code in codes) for word in "kolo mesa tiru lopa vena".split()
    ]
    assert is_apart([*texts, "\n".join(f"{code}.utf8=haza{code[::-1]}" for code in codes), *OTHERS])


@pytest.mark.parametrize("place", [0, 1])
def test_who_says_the_same_is_not_apart_whatever_stands_around(place):
    said = [
        "The mayor of Oslo opened the new bridge on Friday.",
        "On Friday the new bridge was opened by Oslo's mayor.",
    ]
    assert not is_apart([said[place], said[1 - place], *(record(at) for at in range(8)), *OTHERS])


def test_a_few_words_that_others_have_too_are_no_form():
    said = [
        "The mayor of Oslo opened the new bridge on Friday.",
        "On Friday the new bridge was opened by Oslo's mayor.",
    ]
    assert not is_apart(
        [*said, *(f"On Friday the {one} saw {other}." for one, other in zip(FIRST, CITIES, strict=True))]
    )


def test_long_texts_that_hold_the_words_too_are_no_form():
    """Function words stand in every long text; that they stand in two short ones, too, says nothing."""
    short = [
        "It is in the tin box of one clever man that he has.",
        "That is of the tall man in the iron box, and he has it.",
    ]
    long = " ".join([*short, *OTHERS, *(f"word{at} and thing{at}" for at in range(40))])
    assert not is_apart([*short, *(f"{long} {at}" for at in range(9))])
    assert is_apart([*short, *(f"{short[0]} {one} {other}" for one, other in zip(FIRST, CITIES, strict=True))])


def test_a_blank_form_is_not_kept_apart_from_one_that_is_filled_in():
    records = [record(at) for at in range(8)]
    assert not is_apart([" ".join([*json.loads(records[0]), "true"]), *records])


def test_the_same_sentence_with_other_numbers_is_apart():
    first = "If you are upgrading from a version earlier than 15.6, see Section E.15."
    second = "If you are upgrading from a version earlier than 15.13, see Section E.8."
    assert is_apart([first, second, *OTHERS])
    assert not is_apart([first, second, *OTHERS], contrasts=False)  # of an eval set it has leaked
    assert not is_apart([first, first.replace("see", "read"), *OTHERS])
    assert not is_apart([first, second.replace("see", "read"), *OTHERS])  # who retells rounds
