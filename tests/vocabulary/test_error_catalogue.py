"""The error tree and the catalogue of codes: what a row's `error_code` and an exit code stand for."""

from __future__ import annotations

import re

import pytest

from mmlake import errors
from mmlake.error_codes import CODES, catalogue
from mmlake.errors import MmlakeError, UnreadableItem
from mmlake.records import SEVERITIES

TREE = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, MmlakeError)]
# Sources, store and preprocess live here; the rules of quality (4xxx) come from `quality.RULES`.
THOUSANDS = {
    1: ("shard", "record", "text", "content", "file", "member", "item", "address", "host", "answer", "robots"),
    2: ("blob",),
    3: (
        *("undecodable", "media", "stream", "pixel", "container", "sample", "duration", "frame", "worker", "item"),
        *("transcript", "alignment", "speakers", "split", "cut", "device"),
        *("endpoint", "answer", "question", "correction", "description", "model"),
    ),
    5: ("fingerprint", "embed"),
}


@pytest.mark.parametrize("entry", CODES.values(), ids=lambda entry: entry.name)
def test_an_entry_stands_under_its_own_code_in_the_right_thousand(entry) -> None:
    assert CODES[entry.code] is entry
    assert any(word in entry.name for word in THOUSANDS[entry.code // 1000])


@pytest.mark.parametrize("entry", CODES.values(), ids=lambda entry: entry.name)
def test_an_entry_says_what_and_what_to_do_in_sentences(entry) -> None:
    for text in (entry.what, entry.fix):
        assert re.fullmatch(r"[A-Z][^\n]{10,}\.", text)


@pytest.mark.parametrize("entry", CODES.values(), ids=lambda entry: entry.name)
def test_an_entry_has_a_stable_name_and_a_known_severity(entry) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", entry.name)
    assert entry.severity in SEVERITIES


def test_no_code_and_no_name_is_given_twice() -> None:
    entries = catalogue._ENTRIES
    assert (
        len({entry.code for entry in entries}) == len({entry.name for entry in entries}) == len(entries) == len(CODES)
    )


def test_codes_are_listed_in_order() -> None:
    assert list(CODES) == sorted(CODES)


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_every_error_has_a_sentence_and_an_exit_code_of_its_own_right(kind) -> None:
    assert kind.__doc__
    assert kind is MmlakeError or 2 <= kind.exit_code <= 10


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_every_error_is_drawn_in_the_tree(kind) -> None:
    code = "" if kind is MmlakeError else rf"\s+\({kind.exit_code}\)"
    assert re.search(rf"{kind.__name__}{code}\s", errors.__doc__ or "")


def test_an_unreadable_item_carries_code_and_reason() -> None:
    error = UnreadableItem(3004, "pixels=81000000 not in [1, 50000000]")
    assert (error.code, error.reason, str(error)) == (
        3004,
        "pixels=81000000 not in [1, 50000000]",
        "3004 pixel_budget: pixels=81000000 not in [1, 50000000]",
    )


def test_an_unreadable_item_is_no_error_that_stops_a_run() -> None:
    """`except MmlakeError` around a shard must never take one item's fault for its own."""
    assert not issubclass(UnreadableItem, MmlakeError)
