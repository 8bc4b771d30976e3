"""Landing zones: the one place where the library lists and opens files that it did not make.

`as_landing` takes a directory or an address, or several by name; another kind of storage is one more class with the
methods of `Landing` and one more scheme in `addresses.py`.
"""

from __future__ import annotations

from mmlake.landing.addresses import Place, absolute, as_landing, is_address
from mmlake.landing.ahead import Span, files_ahead, listed_ahead, opened_ahead, ranges_ahead
from mmlake.landing.filesystem import FilesystemLanding
from mmlake.landing.hub import HubLanding
from mmlake.landing.local import LocalLanding, refuse_around
from mmlake.landing.mounts import Mounts, UnreachableLanding, addresses_in, addresses_of, naming
from mmlake.landing.s3 import S3Landing
from mmlake.landing.website import WebsiteLanding
from mmlake.landing.zone import SUCCESS, Entry, Landing, native, portable

__all__ = [
    "SUCCESS",
    "Entry",
    "FilesystemLanding",
    "HubLanding",
    "Landing",
    "LocalLanding",
    "Mounts",
    "Place",
    "S3Landing",
    "Span",
    "UnreachableLanding",
    "WebsiteLanding",
    "absolute",
    "addresses_in",
    "addresses_of",
    "as_landing",
    "is_address",
    "files_ahead",
    "listed_ahead",
    "naming",
    "native",
    "opened_ahead",
    "portable",
    "ranges_ahead",
    "refuse_around",
]
