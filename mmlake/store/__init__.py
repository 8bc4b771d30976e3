"""Blobs by the SHA-256 of their bytes: `blobs/ab/cd/<sha256>.<ext>`, small ones of a batch together in `blobs/packs/`.

Enters: bytes or a stream. Leaves: a digest that names them permanently. A blob is written under a temporary name,
synced, renamed and never written again, so a killed writer leaves at most `.part` files that nothing refers to; `sweep`
removes those. See `docs/store.md`.

    Blobs        what every store can do          BlobStore    the one in a directory
    S3Store      the one below a prefix of a bucket
    PackWriter   many small blobs to one file     PackIndex    from a digest to its place in that file

A pack is `b"mmlpak1\\n"` and records (`pack_file.py`): header of 76 bytes (magic, size, digest, extension, CRC-32),
then the blob. Its index (`index.py`) is a fanout table and sorted entries of 44 bytes (digest, offset of the blob's
bytes, size), with their own SHA-256, which names both: `<name>.pack`, `<name>.idx`.
"""

from mmlake.durable import sync_directory
from mmlake.store.blobs import Blobs, StoreStats
from mmlake.store.checked_file import checked_file
from mmlake.store.files import write_atomically
from mmlake.store.index import Entry, PackIndex
from mmlake.store.local import BlobStore
from mmlake.store.location import open_store
from mmlake.store.pack_file import HEADER_BYTES, PACKED_BELOW_BYTES, PackWriter, Record, parse_record, scan
from mmlake.store.s3 import S3Store
from mmlake.store.settings import StoreSettings

__all__ = [
    "HEADER_BYTES",
    "PACKED_BELOW_BYTES",
    "BlobStore",
    "Blobs",
    "Entry",
    "PackIndex",
    "PackWriter",
    "Record",
    "S3Store",
    "StoreSettings",
    "StoreStats",
    "checked_file",
    "open_store",
    "parse_record",
    "scan",
    "sync_directory",
    "write_atomically",
]
