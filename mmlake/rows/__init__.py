"""Interleaved rows: samples of texts, images, video and sound in their order, as tables."""

from __future__ import annotations

from mmlake.rows.batch import Conflict, RowBatch, empty_batch
from mmlake.rows.export import Exported, export_rows
from mmlake.rows.filter import Filter, parse_filter
from mmlake.rows.filters import FILTERS, Dropped, apply_filters
from mmlake.rows.image_frames import pick_frame
from mmlake.rows.lake_rows import lake_rows
from mmlake.rows.locators import way_of, ways, with_locator_columns
from mmlake.rows.materialize import Places, iter_materialized, materialize
from mmlake.rows.order import filter_rows
from mmlake.rows.passthrough import project
from mmlake.rows.policies import POLICIES, apply_policy
from mmlake.rows.row_reader import read_rows
from mmlake.rows.row_writer import WriteSettings, Written, write_rows
from mmlake.rows.schema import METADATA, METADATA_POSITION, REQUIRED, RESERVED, SCHEMA, align, reconcile, resolve
from mmlake.rows.stored_rows import read_lance_rows, read_parquet_rows

__all__ = [
    "Conflict",
    "Dropped",
    "Exported",
    "FILTERS",
    "Filter",
    "METADATA",
    "METADATA_POSITION",
    "POLICIES",
    "Places",
    "REQUIRED",
    "RESERVED",
    "RowBatch",
    "SCHEMA",
    "WriteSettings",
    "Written",
    "align",
    "apply_filters",
    "apply_policy",
    "empty_batch",
    "export_rows",
    "filter_rows",
    "iter_materialized",
    "lake_rows",
    "materialize",
    "parse_filter",
    "pick_frame",
    "project",
    "read_lance_rows",
    "read_parquet_rows",
    "read_rows",
    "reconcile",
    "resolve",
    "way_of",
    "ways",
    "with_locator_columns",
    "write_rows",
]
