"""Numbers in the environment of a deployment: what is none is said with its name, its value and what to do."""

from __future__ import annotations

import pytest

from mmlake.errors import SettingsError
from mmlake_assets.variables import whole_number

NAME = "MMLAKE_BACKFILL_SHARDS"


@pytest.mark.parametrize(("text", "number"), [("", 100), ("  ", 100), ("1", 1), (" 250 ", 250)])
def test_a_number_is_read_or_the_default_counts(monkeypatch, text, number):
    monkeypatch.setenv(NAME, text)
    assert whole_number(NAME, 100) == number
    monkeypatch.delenv(NAME)
    assert whole_number(NAME, 0) == 0


@pytest.mark.parametrize("text", ["many", "0", "-3", "1.5", "1e3"])
def test_what_is_no_number_from_one_on_is_refused(monkeypatch, text):
    monkeypatch.setenv(NAME, text)
    with pytest.raises(SettingsError, match=rf"{NAME} is '{text}', expected a whole number from 1 on.* default, 100"):
        whole_number(NAME, 100)
    with pytest.raises(SettingsError, match="as many as the machine has cores"):
        whole_number(NAME, 0)
