"""The lists of `behaviours.py` are complete and name tests that exist."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from behaviours import BEHAVIOURS, DEFECTS

NUM_BEHAVIOURS, NUM_DEFECTS = 72, 13
TESTS = {
    node.name
    for path in Path(__file__).parent.glob("test_*.py")
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.FunctionDef)
}


def test_every_behaviour_and_every_defect_has_a_test():
    assert sorted(BEHAVIOURS) == list(range(1, NUM_BEHAVIOURS + 1))
    assert sorted(DEFECTS) == list(range(1, NUM_DEFECTS + 1))
    assert all([*BEHAVIOURS.values(), *DEFECTS.values()])


@pytest.mark.parametrize("table", [BEHAVIOURS, DEFECTS], ids=["behaviours", "defects"])
def test_the_tests_that_are_named_exist(table):
    assert {
        number: [name for name in names if name not in TESTS]
        for number, names in table.items()
        if not set(names) <= TESTS
    } == {}
