"""The codes of all ways in which an item fails: the `error_code` column of the stage tables, and docs/errors.md."""

from __future__ import annotations

from mmlake.error_codes.catalogue import CODES, TRANSIENT_CODES
from mmlake.error_codes.entry import ErrorCode

__all__ = ["CODES", "TRANSIENT_CODES", "ErrorCode"]
