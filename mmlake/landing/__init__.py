"""Landing zones: the one place where the library lists and opens files that it did not make.

`as_landing` takes a directory or an address; another kind of storage is one more class with the methods of `Landing` and one more
scheme in `opening.py`.
"""

from __future__ import annotations

from mmlake.landing.hub import HubLanding
from mmlake.landing.local import LocalLanding
from mmlake.landing.opening import absolute, as_landing, is_address
from mmlake.landing.s3 import S3Landing
from mmlake.landing.zone import SUCCESS, Entry, Landing, native, portable

__all__ = ["SUCCESS", "Entry", "HubLanding", "Landing", "LocalLanding", "S3Landing", "absolute", "as_landing", "is_address", "native", "portable"]
