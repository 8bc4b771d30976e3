"""Sources: from a landing zone to rows. `scan` finds the shards, `ingest` makes a shard's `items` table, `fetch` reads
one item again.

Enters: a directory of tars, Parquet files, JSON lines and loose files. Leaves: blobs and one row per item, the
unreadable ones included.
"""

from __future__ import annotations

from mmlake.download.downloads import JournalledDownloads
from mmlake.download.settings import WebSettings
from mmlake.sources.connectors.table import LOOSE, SOURCES, URL_LIST, Connector, Connectors
from mmlake.sources.fetcher import fetch, fetch_many
from mmlake.sources.ingestion import ingest, ingested, read
from mmlake.sources.raw_items import Content, RawItem, Reading
from mmlake.sources.reingestion import reingested
from mmlake.sources.scanner import scan
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import Shard, path_of_key, priorities, shard_key
from mmlake.sources.stored_files import StoredFiles

__all__ = [
    "LOOSE",
    "SOURCES",
    "URL_LIST",
    "Connector",
    "Connectors",
    "Content",
    "JournalledDownloads",
    "RawItem",
    "Reading",
    "Shard",
    "SourceSettings",
    "StoredFiles",
    "WebSettings",
    "fetch",
    "fetch_many",
    "ingest",
    "ingested",
    "path_of_key",
    "priorities",
    "read",
    "reingested",
    "scan",
    "shard_key",
]
