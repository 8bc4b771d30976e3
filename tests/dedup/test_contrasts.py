"""Texts of which one says a word and the other its opposite are no semantic duplicates, however near their vectors."""

from __future__ import annotations

import numpy as np
import pytest

from mmlake import dedup
from mmlake.dedup import DedupSettings
from mmlake.dedup.prints import Ragged
from mmlake.dedup.text import fingerprints

SETTINGS = DedupSettings()


def are_apart(one: str, other: str, **arguments: bool) -> bool:
    made = list(fingerprints.prints([one, other]))
    table = {"shingles": Ragged.of([print_.shingles for print_ in made])}
    table["words"] = Ragged.of([print_.words for print_ in made])
    veto = dedup.text_veto(table, settings=SETTINGS, **arguments)
    found = veto(np.array([0]), np.array([1])), veto(np.array([1]), np.array([0]))
    assert found[0] == found[1]
    return bool(found[0][0])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Adds rows above the one that is selected", "Adds rows below the selected one"),
        ("A Man in a red coat waits for the bus.", "A woman in a red coat is waiting for a bus."),
        ("The share rose on Monday in New York", "In New York the share rose on Thursday"),
        ("A girl holds a blue umbrella", "A girl is holding up an umbrella, a yellow one"),
        ("The window opens without a sound", "With a sound the window opens"),
        ("The new bridge will be built next year", "The new bridge will not be built next year"),
        ("This engine works below zero degrees", "This engine doesn't work below zero degrees"),
        ("Nobody may enter the old mill", "Anybody may enter the old mill"),
    ],
)
def test_who_says_another_word_of_a_kind_says_something_else(one: str, other: str) -> None:
    assert are_apart(one, other)
    assert not are_apart(one, other, contrasts=False)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "The ferry leaves at noon from the north pier",
            "From the north pier the ferry departs at twelve o'clock sharp",
        ),
        ("Turn left, then right", "First turn to the left and afterwards to the right"),  # both say both
        ("The company was sold to its rival", "Its rival bought the company"),  # seen from the other side
        (
            "Removes the chosen row of the table",
            "Deletes the selected row from the table",
        ),  # opposites of "adds"
        ("A grey cat stops at the door", "A gray cat ends its walk at the door"),
        ("Copies it to the destination folder", "It is copied to the target folder"),
        ("He stands before the gate", "He stands there"),  # left out, and nothing in its place
        ("The gate is not open at night", "The gate is closed at night"),  # denied, and the opposite
        (
            "An officer was singled out for not addressing the scandal at the hearing",
            "For failing to address the scandal an officer had been singled out in the hearing",
        ),  # denied in other words
        ("Nobody may enter, and no dogs", "No dogs, and nobody enters"),  # both deny
        ("Der Zug fährt nach links", "Der Zug fährt nach rechts"),  # no English
        (
            "The first talks were held in a small hotel near the lake, guests recall, and nobody took any notes at all",
            "In the second week ministers met reporters on a terrace above town, where both parties denied that plan",
        ),  # so much differs that the words are a chance
    ],
)
def test_who_retells_a_text_is_not_kept_apart(one: str, other: str) -> None:
    assert not are_apart(one, other)
