"""What is done about rows whose bytes could not be had."""

from __future__ import annotations

import logging

import pytest
from rows_made import batch, image, layout, meta, text

from mmlake.errors import RowsUnreadable, SettingsError
from mmlake.rows.policies import POLICIES, apply_policy

LOST = {"data": None, "materialize_error": "blob 3f is gone"}


def mixed():
    return batch(
        meta("a"),
        text(0, sample="a"),
        image(1, sample="a", **LOST),
        text(2, sample="a"),
        meta("b"),
        image(0, sample="b"),
        meta("c"),
        image(0, sample="c", **LOST),
    )


def test_error_raises_with_the_count_and_the_first_examples() -> None:
    with pytest.raises(
        RowsUnreadable, match=r"2 of 8 rows have no bytes, the first: a at position 1: blob 3f is gone; c at position 0"
    ):
        apply_policy(mixed(), "error")


def test_warn_keeps_every_row_and_says_how_many_have_no_bytes(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "mmlake.rows.policies"):
        assert layout(apply_policy(mixed(), "warn")) == layout(mixed())
    assert "2 of 8 rows" in caplog.text


def test_drop_row_drops_the_row_and_what_it_leaves_without_content() -> None:
    expected = [("a", -1, "metadata"), ("a", 0, "text"), ("a", 1, "text"), ("b", -1, "metadata"), ("b", 0, "image")]
    assert layout(apply_policy(mixed(), "drop_row")) == expected


def test_drop_sample_drops_all_rows_of_the_sample() -> None:
    assert layout(apply_policy(mixed(), "drop_sample")) == [("b", -1, "metadata"), ("b", 0, "image")]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "made",
    [
        batch(meta(), text(0), image(4)),
        batch(text(0, materialize_error=None), text(5, materialize_error=None)),
        batch(),
    ],
    ids=["no column", "all null", "no rows"],
)
def test_a_batch_without_errors_is_the_very_batch(policy: str, made) -> None:
    assert apply_policy(made, policy) is made


def test_a_policy_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError, match="^on_error='ignore' is not one of .*drop_sample"):
        apply_policy(mixed(), "ignore")
