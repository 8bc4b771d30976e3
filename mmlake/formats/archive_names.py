"""What the members of a zip or a tar are called, and nothing else of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

from mmlake.errors import UnreadableItem
from mmlake.formats import sniff, tar
from mmlake.formats import zip as zip_format
from mmlake.formats.compression import compression_of, expanded
from mmlake.streams import Window

_MEMORY_BYTES = 32 << 20  # a compressed tar up to here is expanded in memory


def names_in(file: IO[bytes], *, limit_bytes: int) -> Iterator[str]:
    """The names of the archive's members in their order, as far as it can be read. limit_bytes: up to which a
    compressed tar is expanded."""
    head = file.read(sniff.HEAD_BYTES)
    file.seek(0)
    with suppress(UnreadableItem):
        if head[:4] in (zip_format.HEADER, zip_format.END):
            yield from _in_zip(Window(file))
        elif sniff.is_tar_header(head):
            yield from _in_tar(Window(file))
        elif (compression := compression_of(head)) is not None:
            with tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES) as spool:
                with suppress(UnreadableItem), expanded(file, compression, limit_bytes=limit_bytes) as stream:
                    shutil.copyfileobj(stream, spool, 1 << 16)
                yield from _in_tar(Window(spool))


def _in_zip(window: Window) -> Iterator[str]:
    """Those of the directory, or of the headers where that is damaged, as the shard of the zip has them."""
    try:
        directory = zip_format.directory_of(window)
        found = [member.name for _, member in zip_format.walk(window, directory)]
    except UnreadableItem:
        yield from (member.name for _, member in zip_format.walk_headers(window))
        return
    yield from found


def _in_tar(window: Window) -> Iterator[str]:
    for found in tar.walk(window, head_bytes=0):
        if isinstance(found, tar.Run) and len(found.offsets) > 1:
            yield from found.names.split("\0")
        else:
            yield found.names if isinstance(found, tar.Run) else found.name
