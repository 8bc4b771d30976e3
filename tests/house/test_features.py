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


def test_a_line_that_is_not_open_names_what_does_it_and_a_test() -> None:
    assert len(CLAIMS) > 200
    unnamed = [
        name
        for name, (_, done_by, tests) in CLAIMS.items()
        if not _quoted(done_by.partition("; open:")[0]) or not _quoted(tests)
    ]
    assert unnamed == []


def test_a_partly_done_line_says_what_works_and_what_is_missing() -> None:
    assert [name for name, cells in CLAIMS.items() if not _says_both_or_neither(cells[1])] == []


def _says_both_or_neither(done_by: str) -> bool:
    if not done_by.startswith("partly"):
        return "open:" not in done_by
    return re.fullmatch(r"partly: \S.* ; open: \S.*", done_by) is not None


@pytest.mark.parametrize(
    ("done_by", "is_right"),
    [
        ("`catalog`", True),
        ("partly: `catalog` ; open: the rest", True),
        ("partly: `catalog`", False),
        ("`catalog` ; open: the rest", False),
        ("partly `catalog` ; open: the rest", False),
        ("partly: `catalog` ; open:", False),
    ],
)
def test_a_line_is_partly_done_where_something_is_open(done_by: str, is_right: bool) -> None:
    assert _says_both_or_neither(done_by) == is_right


def test_what_a_line_names_is_an_asset_or_a_command() -> None:
    strange = [
        (name, quoted)
        for name, cells in CLAIMS.items()
        for quoted in _quoted(cells[1])
        if not (_is_command(quoted.split()) if quoted.startswith("mmlake ") else _keys(quoted) <= ASSETS)
    ]
    assert strange == []


def _is_command(words: list[str]) -> bool:
    return words[1] in COMMANDS


def _keys(quoted: str) -> set[str]:
    return {quoted.replace("*", modality, 1) for modality in MODALITIES} if quoted.startswith("*/") else {quoted}


def test_the_tests_of_a_line_exist() -> None:
    named = [(name, *quoted.partition("::")[::2]) for name, cells in CLAIMS.items() for quoted in _quoted(cells[2])]
    missing = [
        (name, path, function)
        for name, path, function in named
        if not (ROOT / path).is_file() or function not in _functions(path)
    ]
    assert missing == []
