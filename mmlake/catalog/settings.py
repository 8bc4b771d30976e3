"""The settings of the catalog."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CatalogSettings:
    """What the catalog keeps of each item and when it builds indexes."""

    text_chars: int = 32_768
    # characters of text per row; enough for full-text search over long articles, and 100k rows of it still fit a laptop
    vector_index_rows: int = 50_000
    # vectors; below it an exact scan of 384 dimensions takes milliseconds and an index only costs recall
    merge_rows: int = 4_096
    # changed rows per commit; one merge of 100k x 384 floats overran LanceDB's memory pool
    keep_versions_s: float = 3_600.0
    # seconds; a reader that opened an older Lance version has this long to finish before `compact` prunes it
    fusion_depth: int = 50
    # ranks that each side of a hybrid search brings, at least; deeper ranks add under 1/110 to a fused score

    hashed_on_open_bytes: int = 4 << 30
    # of the table's files: up to here a process hashes them all before its first answer (about 3 s); of a larger table
    # it compares sizes, and `mmlake fsck` hashes


DEFAULTS = CatalogSettings()
