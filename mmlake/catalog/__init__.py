"""One LanceDB table over all modalities: a row per distinct digest, searchable by text, vector and SQL.

Enters: the stage tables of each modality. Leaves: catalog rows and search results. It never reads media and has one
writer.
"""

from __future__ import annotations

from mmlake.catalog.catalog import Catalog
from mmlake.catalog.columns import is_taken
from mmlake.catalog.hashes import version_of
from mmlake.catalog.join import CATALOG_SCHEMA, NOT_JUDGED, rows, vector_column
from mmlake.catalog.settings import CatalogSettings
from mmlake.catalog.source_fields import FieldTypes

__all__ = [
    "CATALOG_SCHEMA",
    "NOT_JUDGED",
    "Catalog",
    "CatalogSettings",
    "FieldTypes",
    "is_taken",
    "rows",
    "vector_column",
    "version_of",
]
