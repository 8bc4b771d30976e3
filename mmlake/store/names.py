"""How a blob's file is called: `<sha256>.<extension>`."""

from __future__ import annotations

import re
from functools import lru_cache

from mmlake.records import Digest, is_digest
from mmlake.store.files import UNFINISHED

_EXTENSION = re.compile(r"[a-z0-9](?:[a-z0-9+._-]{0,30}[a-z0-9])?")


@lru_cache(maxsize=1024)  # a folder has few endings and many files
def plain_extension(extension: str) -> str:
    """The extension in lower case without its dot, of at most 32 ASCII characters; "bin" for what is no plain file
    ending (a slash, "..", "part", nothing)."""
    ending = extension.lower().removeprefix(".")
    plain = _EXTENSION.fullmatch(ending) and ".." not in ending and not f".{ending}".endswith(UNFINISHED)
    return ending if plain else "bin"


def blob_name(digest: Digest, extension: str) -> str:
    """The name of the blob's file."""
    return f"{digest}.{plain_extension(extension)}"


def digest_in(name: str) -> Digest | None:
    """The digest of a blob's file name; None for every other file."""
    digest, dot, _ = name.partition(".")
    return digest if dot and is_digest(digest) and not name.endswith(UNFINISHED) else None
