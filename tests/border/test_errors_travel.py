"""Errors of items between processes."""

from __future__ import annotations

import pickle

import pytest

from mmlake.errors import UnreadableItem
from mmlake.formats.tar import CutMember


@pytest.mark.parametrize("kind", [UnreadableItem, CutMember])
def test_an_error_of_an_item_survives_a_pickle(kind: type[UnreadableItem]) -> None:
    """It broke the process pool whose worker raised it."""
    error = UnreadableItem.__new__(kind)
    UnreadableItem.__init__(error, 1003, "num_bytes=4 do not parse as JSON")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.code, again.reason, str(again)) == (kind, error.code, error.reason, str(error))
