"""Sources: from a landing zone to rows. `scan` finds the shards, `ingest` makes a shard's `items` table, `fetch` reads
one item again.

Enters: a directory of tars, Parquet files, JSON lines and loose files. Leaves: blobs and one row per item, the
unreadable ones included.
"""

from __future__ import annotations

from mmlake.sources.connectors import LOOSE, SOURCES, URL_LIST, Connector
from mmlake.sources.defaults import priorities
from mmlake.sources.fetching import fetch, fetch_many
from mmlake.sources.files.plain import Plain
from mmlake.sources.ingesting import ingest, read, read_samples
from mmlake.sources.retrying import reingest
from mmlake.sources.rows import Content, RawItem
from mmlake.sources.scanning import scan
from mmlake.sources.settings import SourceSettings
from mmlake.sources.shard import Shard, path_of_key, shard_key
from mmlake.sources.web.downloads import JournalledDownloads
from mmlake.sources.web.settings import WebSettings

__all__ = [
    "LOOSE",
    "SOURCES",
    "URL_LIST",
    "Connector",
    "Content",
    "JournalledDownloads",
    "Plain",
    "RawItem",
    "Shard",
    "SourceSettings",
    "WebSettings",
    "fetch",
    "fetch_many",
    "ingest",
    "path_of_key",
    "priorities",
    "read",
    "read_samples",
    "reingest",
    "scan",
    "shard_key",
]
