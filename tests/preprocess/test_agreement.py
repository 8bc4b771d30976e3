"""The comparison of phones is the textbook's edit distance, and pronunciations follow the rules of reading."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from mmlake.preprocess.transcripts import agreement
from mmlake.preprocess.transcripts.agreement import NUMBER, PHONES, compare, confidence, features
from mmlake.preprocess.transcripts.pronunciation import by_letters, in_words, pronounce

DICTIONARY = {"gold": "G OW L D", "fish": "F IH SH", "paint": "P EY N T", "nine": "N AY N", "bake": "B EY K"}


def numbers(phones: str) -> list[int]:
    return [NUMBER[phone] for phone in phones.split()]


def plain_distance(left: list[int], right: list[int]) -> float:
    """Wagner and Fischer 1974, without vectors."""

    @cache
    def upto(row: int, column: int) -> float:
        if not row or not column:
            return row * agreement._MISSING + column * agreement._EXTRA
        cost = agreement._substitution(PHONES[left[row - 1]], PHONES[right[column - 1]])
        return min(
            upto(row - 1, column - 1) + cost,
            upto(row - 1, column) + agreement._MISSING,
            upto(row, column - 1) + agreement._EXTRA,
        )

    return upto(len(left), len(right))


@pytest.mark.parametrize("seed", range(8))
def test_the_distance_is_that_of_the_textbook(seed):
    rng = np.random.default_rng(seed)
    left = rng.integers(0, len(PHONES), rng.integers(1, 30)).tolist()
    right = rng.integers(0, len(PHONES), rng.integers(1, 30)).tolist()
    found = compare(left, right, rng)
    assert found.distance == pytest.approx(plain_distance(left, right))
    matched = found.cost_E[found.at_E >= 0].sum()
    missing = (found.at_E < 0).sum() * agreement._MISSING
    assert matched + missing + found.num_unclaimed * agreement._EXTRA == pytest.approx(found.distance)
    assert sorted(set(found.at_E[found.at_E >= 0])) == found.at_E[found.at_E >= 0].tolist()


def test_equal_phones_agree_and_claim_all_speech():
    phones = numbers("DH AH K AE T S AE T AA N DH AH M AE T")
    found = compare(phones, phones, np.random.default_rng(0))
    assert features([found]) == (1.0, 0.0, 0.0)
    assert confidence([found]) > 0.999


def test_the_order_of_phones_is_what_counts():
    phones = numbers("DH AH K W IH K B R AW N F AA K S JH AH M P S OW V ER DH AH L EY Z IY D AO G")
    mixed = np.random.default_rng(1).permutation(phones).tolist()
    assert confidence([compare(phones, mixed, np.random.default_rng(0))]) < 0.05


def test_phones_without_a_counterpart_have_no_confidence():
    assert confidence([compare(numbers("K AE T"), [], np.random.default_rng(0))]) == 0.0
    assert confidence([compare([], numbers("K AE T"), np.random.default_rng(0))]) == 0.0
    assert confidence([]) == 0.0


def test_phones_of_one_kind_are_nearer_than_others():
    cost = agreement._substitution
    assert cost("P", "P") == 0
    assert cost("P", "B") < cost("P", "G") < cost("P", "Z") <= cost("P", "AA") == 1
    assert cost("IH", "IY") < cost("IH", "AA")
    assert all(cost(left, right) == cost(right, left) for left in PHONES for right in PHONES)


@pytest.mark.parametrize(
    ("digits", "read"),
    [
        ("0", "zero"),
        ("12", "twelve"),
        ("45", "forty five"),
        ("100", "one hundred"),
        ("317", "three hundred seventeen"),
        ("1905", "nineteen oh five"),
        ("1984", "nineteen eighty four"),
        ("2007", "two thousand seven"),
        ("2026", "twenty twenty six"),
        ("45678", "forty five thousand six hundred seventy eight"),
        ("007", "zero zero seven"),
        ("1234567", "one two three four five six seven"),
    ],
)
def test_numbers_are_read_in_words(digits, read):
    assert " ".join(in_words(digits)) == read


@pytest.mark.parametrize(
    ("word", "phones"),
    [
        ("phish", "F IH SH"),
        ("knock", "N AA K"),
        ("nation", "N AE SH AH N"),
        ("quilt", "K W IH L T"),
        ("yellow", "Y EH L OW"),
        ("bright", "B R AY T"),
    ],
)
def test_letters_sound_as_the_rules_of_reading_say(word, phones):
    assert by_letters(word) == phones


@pytest.mark.parametrize(
    ("word", "phones", "is_known"),
    [
        ("Gold", "G OW L D", True),
        ("goldfish", "G OW L D F IH SH", False),
        ("painting", "P EY N T IH NG", False),
        ("baked", "B EY K D", False),
        ("gold’s", "G OW L D Z", False),
        ("9", "N AY N", True),
        ("fïsh", "F IH SH", False),
        ("魚", "", False),
    ],
)
def test_unknown_words_are_made_of_known_ones_where_they_can(word, phones, is_known):
    (found,) = pronounce(word, DICTIONARY.get)
    assert (found.word, " ".join(found.phones), found.is_known) == (word, phones, is_known)
