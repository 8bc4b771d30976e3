"""Phrases and lines that a text says again, and how its lines end."""

from __future__ import annotations

import random

import pytest

from mmlake.quality.text import MEASURES
from mmlake.quality.text_rules import TEXT_RULES

RULE = next(rule for rule in TEXT_RULES if rule.name == "one_phrase")
PROSE = (
    "The ferry left before dawn and nobody saw it go. At the harbour a man counted ropes, and when he was done he "
    "began again. By noon the wind had turned, which the gulls knew first."
)


def measured(text: str, name: str) -> float | None:
    return MEASURES[name](text)


def naive(words: list[str]) -> float:
    """By going through the words for each phrase."""
    best = 0
    for phrase in set(zip(words, words[1:], words[2:], strict=False)):
        times = at = 0
        while at <= len(words) - 3:
            found = tuple(words[at : at + 3]) == phrase
            times, at = times + found, at + (3 if found else 1)
        best = max(best, times * sum(map(len, phrase)) if times >= 3 else 0)
    return best / sum(map(len, words))


@pytest.mark.parametrize("seed", range(40))
def test_the_top_phrase_is_the_one_with_the_most_letters(seed: int) -> None:
    """Phrases may begin within themselves, as in "a bb a bb a"."""
    rng = random.Random(seed)
    words = [rng.choice(["a", "bb", "ccc", "dddd"][: rng.randint(1, 4)]) for _ in range(rng.randint(3, 60))]
    assert measured(" ".join(words), "top_phrase_fraction") == pytest.approx(naive(words))


def test_a_text_written_around_one_phrase_breaks_the_rule_and_prose_does_not() -> None:
    shop = "Cheap running shoes in town. We sell cheap running shoes, and cheap running shoes online."
    assert not RULE.holds(measured(shop, RULE.measure), RULE.low, RULE.high)
    assert RULE.holds(measured(PROSE, RULE.measure), RULE.low, RULE.high) and measured(PROSE, RULE.measure) == 0


@pytest.mark.parametrize(("num_others", "holds"), [(41, False), (42, True)])
def test_eighteen_of_a_hundred_letters_is_the_bound(num_others: int, holds: bool) -> None:
    """Three times three digits among one and forty letters are .18, which is out."""
    others = "abcdefghijklmnopqrstuvwxyzäöüéèêàâçñøåíóúýðûôîï"[:num_others]
    text = " ".join(f"{word} 1 2 3" if at < 3 else word for at, word in enumerate(others))
    fraction = measured(text, RULE.measure)
    assert fraction == pytest.approx(9 / (9 + num_others))
    assert RULE.holds(fraction, RULE.low, RULE.high) == holds


def test_said_twice_is_no_habit_and_addresses_are_no_words() -> None:
    assert measured("one two three four one two three", "top_phrase_fraction") == 0
    links = "\n".join(f"{word} https://github.com/org/{word}" for word in PROSE.split())
    assert measured(links, "top_phrase_fraction") == 0
    assert measured("two words", "top_phrase_fraction") is None
    assert measured("船は日の出前に港を出たが、誰もそれを見なかった。", "top_phrase_fraction") is None


def test_long_lines_that_repeat_between_short_ones_count_by_their_characters() -> None:
    """Gopher has both shares: by number one of five lines is no fault, by characters half of the text is."""
    long = "super very incredibly huge long duplicate."
    assert measured(f"{long}\n{long}\na.\nb.\nc.", "repeated_line_fraction") == pytest.approx(41 / 85)
    assert measured("a.\na.\nb.\nc.\nd.", "repeated_line_fraction") == pytest.approx(1 / 5)


def test_lines_of_prose_end_with_marks_and_those_of_a_menu_do_not() -> None:
    menu = "Home\nAbout us\nContact\n\n* * *\nTerms and conditions of the harbour authority"
    assert measured(menu, "ended_line_fraction") == 0
    assert measured(menu, "short_line_fraction") == pytest.approx(3 / 4)
    assert measured('He said: "Go."\n彼は行った。\n(Really?) \nno mark', "ended_line_fraction") == pytest.approx(3 / 4)
    assert measured("***", "ended_line_fraction") is None


def broken(text: str) -> set[str]:
    """The rules on lines and signs that a text breaks."""
    rules = [rule for rule in TEXT_RULES if rule.name in ("symbols", "bullets", "elided_lines")]
    return {
        rule.name
        for rule in rules
        if (value := measured(text, rule.measure)) is not None and not rule.holds(value, rule.low, rule.high)
    }


def test_tags_of_posts_are_symbols_and_numbers_headings_and_rulers_are_none() -> None:
    assert broken(f"{PROSE} #harbour #ferry #gulls #dawn") == {"symbols"}
    numbered = f"########\n# Changes\n########\n{PROSE} Closes #12, #13, #14, #15 and &#233; &#x2014;.\n#####"
    assert broken(numbered) == set()


@pytest.mark.parametrize(("num_tags", "rules"), [(1, set()), (2, {"symbols"})])
def test_one_hash_sign_in_ten_words_is_the_bound(num_tags: int, rules: set[str]) -> None:
    words = [f"word{at}" for at in range(19 - num_tags)]
    assert broken(" ".join([*words, *["#tag"] * num_tags])) == rules


@pytest.mark.parametrize(("num_items", "rules"), [(8, set()), (9, {"bullets"})])
@pytest.mark.parametrize("mark", ["•", "-", "*", "▪"])
def test_nine_of_ten_lines_that_are_items_are_a_list(num_items: int, rules: set[str], mark: str) -> None:
    lines = [f"  {mark} item number {at}" for at in range(num_items)] + ["A line between them."] * (10 - num_items)
    assert broken("\n\n".join(lines)) == rules


def test_what_people_say_is_no_list_nor_is_an_option_of_a_program() -> None:
    assert broken("\n".join(f"— Bonjour, dit le numéro {at}." for at in range(10))) == set()
    assert broken("\n".join(f"-{option} does this and that" for option in "abcdefghij")) == set()
    assert measured("- one\n- two\n- three", "bulleted_line_fraction") is None


@pytest.mark.parametrize("ending", ["...", "…", "....", '..."', "…)"])
@pytest.mark.parametrize(("num_cut", "rules"), [(5, set()), (6, {"elided_lines"})])
def test_three_of_ten_lines_that_end_in_an_ellipsis_are_beginnings_of_other_texts(
    ending: str, num_cut: int, rules: set[str]
) -> None:
    whole = "The ferry left before dawn and nobody on the whole long pier saw it go at all that day."
    lines = [f"The mayor of the town said on Monday that the new bridge would not{ending}"] * num_cut
    assert broken("\n".join([*lines, *[whole] * (20 - num_cut)])) == rules


@pytest.mark.parametrize(
    ("text", "fraction"),
    [
        ("The boats of the harbour are blue.\nThe boats of the harbour are blue.", 1 / 2),
        ("The boats are blue. They sail at dawn.\n\nthe boats are blue, they sail at dawn\n", 1 / 2),
        ("The boats are blue. The boats are blue. The boats are blue.", 2 / 3),
        ("The boats are blue.\nThey sail at dawn.\nThe boats are blue.", None),
        ("The boats of the harbour are blue.", None),
        ("", None),
    ],
)
def test_a_short_text_that_is_said_again_as_a_whole_repeats_its_lines(text: str, fraction: float | None) -> None:
    """A refrain has something between: one repeated line of three says nothing."""
    assert measured(text, "repeated_line_fraction") == (fraction if fraction is None else pytest.approx(fraction))
