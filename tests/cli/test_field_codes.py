"""Each class of the field's error codes has codes of ours that exist, and a test that exists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mmlake.cli.field_codes import FIELD_CODES, FieldCode
from mmlake.error_codes import CODES
from mmlake.modalities import MODALITIES
from mmlake.quality import error_codes

ROOT = Path(__file__).parents[2]
KNOWN = {*CODES, *(entry.code for entry in error_codes(rule for row in MODALITIES.values() for rule in row.rules))}


def test_the_eight_classes_are_there_in_order() -> None:
    assert [row.name for row in FIELD_CODES] == [f"{number}XXX" for number in range(1, 9)]


@pytest.mark.parametrize("row", FIELD_CODES, ids=lambda row: row.name)
def test_codes_and_test_exist(row: FieldCode) -> None:
    path, _, name = row.test.partition("::")
    found = {node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)}
    assert set(row.codes) <= KNOWN and name in found
