"""The ledger in docs/features.md is complete, and what it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import typer.main

import mmlake_assets.console  # noqa: F401 - adds run, demo and ui to the app
from mmlake.cli.app import app
from mmlake.modalities import MODALITIES
from mmlake_assets.definitions import defs

ROOT = Path(__file__).parents[2]
NUM_ROWS = {
    "A": 19, "B": 8, "C": 7, "D": 5, "E": 19, "F": 15, "G": 10, "H": 12, "I": 6, "J": 12, "K": 21,
    "L": 7, "M": 6, "N": 15, "O": 8, "P": 3, "Q": 6, "R": 6, "S": 4, "T": 14, "U": 20, "V": 39,
}  # fmt: skip
COMMANDS = set(typer.main.get_command(app).commands)
ASSETS = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}


def _rows() -> list[list[str]]:
    """The cells of every line of the tables: id, capability, done by, test."""
    lines = (ROOT / "docs" / "features.md").read_text().splitlines()
    return [
        [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
        for line in lines
        if re.match(r"\| *[A-Z]\d", line)
    ]


ROWS = {cells[0]: cells[1:] for cells in _rows()}
CLAIMS = {name: cells for name, cells in ROWS.items() if not re.match(r"open(:|$)", cells[1])}


def _quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@cache
def _functions(path: str) -> frozenset[str]:
    """Names of the tests that pytest would collect from the file's top level."""
    return frozenset(
        node.name
        for node in ast.parse((ROOT / path).read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def test_every_capability_has_one_line_in_order() -> None:
    expected = [f"{letter}{number}" for letter, count in NUM_ROWS.items() for number in range(1, count + 1)]
    assert [cells[0] for cells in _rows()] == expected


def test_every_line_has_four_cells_and_a_capability() -> None:
    assert [cells for cells in _rows() if len(cells) != 4 or not cells[1] or not cells[2]] == []


def test_an_open_line_claims_no_test() -> None:
    assert [name for name, cells in ROWS.items() if name not in CLAIMS and cells[2]] == []


@pytest.mark.parametrize("name", CLAIMS)
def test_a_line_that_is_not_open_names_what_does_it_and_a_test(name: str) -> None:
    _, done_by, tests = CLAIMS[name]
    assert _quoted(done_by.partition("; open:")[0])
    assert _quoted(tests)


@pytest.mark.parametrize("name", CLAIMS)
def test_a_partly_done_line_says_what_works_and_what_is_missing(name: str) -> None:
    done_by = CLAIMS[name][1]
    assert done_by.startswith("partly:") == ("open:" in done_by)
    assert re.fullmatch(r"partly: \S.* ; open: \S.*", done_by) or not done_by.startswith("partly")


@pytest.mark.parametrize("name", CLAIMS)
def test_what_a_line_names_is_an_asset_or_a_command(name: str) -> None:
    strange = []
    for quoted in _quoted(CLAIMS[name][1]):
        words = quoted.split()
        if words[0] == "mmlake":
            strange += [quoted] if len(words) < 2 or words[1] not in COMMANDS else []
        else:
            keys = (
                {quoted.replace("*", modality, 1) for modality in MODALITIES} if quoted.startswith("*/") else {quoted}
            )
            strange += sorted(keys - ASSETS)
    assert strange == []


@pytest.mark.parametrize("name", CLAIMS)
def test_the_tests_of_a_line_exist(name: str) -> None:
    for quoted in _quoted(CLAIMS[name][2]):
        path, _, function = quoted.partition("::")
        assert (ROOT / path).is_file(), quoted
        assert function in _functions(path), quoted
