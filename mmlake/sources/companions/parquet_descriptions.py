"""`metadata.parquet` next to images, recordings or films, as folders of the library `datasets` may have it in place of
`metadata.csv`: which Parquet files describe others.

Whether one does is in its footer: a column names files, and none holds media.
"""

from __future__ import annotations

from functools import partial

from mmlake.errors import UnreadableItem
from mmlake.formats.columnar.readers import ParquetReader
from mmlake.landing import Entry, Landing
from mmlake.sources.companions.description_forms import naming
from mmlake.sources.parsed_files import Kind, ParsedFiles
from mmlake.sources.records.cells import limits_of
from mmlake.sources.records.columns import columns_of
from mmlake.sources.settings import SourceSettings

_IS_DESCRIPTION: Kind[bool] = Kind(max_size=10_000)
_MARK = b"PAR1"


def begins_as_parquet(head: bytes) -> bool:
    """Whether these are the first bytes of a Parquet file."""
    return head.startswith(_MARK)


def is_description(landing: Landing, entry: Entry, *, settings: SourceSettings, parsed: ParsedFiles) -> bool:
    """Whether the Parquet file names others. It is opened once per owner of `parsed`, until it changes."""
    if entry.refused is not None:
        return False
    return parsed.get(_IS_DESCRIPTION, (landing.location, entry), lambda: _names_files(landing, entry, settings))


def _names_files(landing: Landing, entry: Entry, settings: SourceSettings) -> bool:
    try:
        if not begins_as_parquet(landing.head(entry.path, len(_MARK))):
            return False
        with ParquetReader(partial(landing.open, entry.path), limits_of(settings)) as file:
            return bool(naming(file.schema.names)) and not columns_of(file.schema, settings).media
    except UnreadableItem:
        return False  # the rows of the file itself say why
