"""The lines of a text, one at a time, each within a limit: what JSON lines, lists of addresses and Kaldi's files are
made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO


def lines_of(stream: IO[bytes], limit_bytes: int) -> Iterator[bytes | int]:
    """Each line without its end, or the size of one that is over the limit. Iterating raises what reading raises,
    after the whole lines."""
    while line := stream.readline(limit_bytes + 2):
        size, ended = len(line), line.endswith(b"\n")
        line = line.rstrip(b"\r\n")  # under the same name: the line would be held twice while its record is read
        if len(line) <= limit_bytes:
            yield line
            continue
        while not ended and (line := stream.readline(1 << 20)):
            size, ended = size + len(line), line.endswith(b"\n")
        yield size
