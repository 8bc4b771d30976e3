"""One file of a sample, a member of a tar or a file of a directory, told by its first bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from mmlake.records import SourceRef
from mmlake.sources import sniff
from mmlake.sources.compression import compression_of, expanded, expanded_head
from mmlake.sources.rows import Content, Fault, Reading
from mmlake.sources.sniff import Kind

ARCHIVES = ("application/zip", "application/x-7z-compressed", "application/x-xz", "application/x-bzip2")  # packed files whose members are not read
LABELS = ("cls", "id", "index")  # small members that describe the sample: a class, an id, a number


@dataclass(slots=True, kw_only=True)
class Member:
    """One file of a sample."""

    name: str  # with its folder
    stem: str  # what its sample is called
    size_bytes: int
    kind: Kind | None
    content: Content | None
    locate: Callable[[str], SourceRef]  # "" -> the member's own bytes; a JSON pointer -> a text inside it
    fault: Fault | None = None
    duplicate: bool = False
    extension: str = ""  # as `sniff.extension_of` has it; taken from the name where it is not given

    def __post_init__(self) -> None:
        self.extension = self.extension or sniff.extension_of(self.name)

    @property
    def modality(self) -> str | None:
        return self.kind.modality if self.kind else None

    @property
    def is_json(self) -> bool:
        return self.extension == "json" and self.fault is None and self.modality == "text"

    @property
    def is_label(self) -> bool:
        return self.extension in LABELS and self.modality in (None, "text") and self.fault is None and (self.kind is None or self.kind.content_type == "text/plain")

    @property
    def is_media(self) -> bool:
        return self.modality not in (None, "text")


def look(raw: Content, name: str, size_bytes: int, reading: Reading, *, head: bytes | None = None, extension: str | None = None) -> tuple[sniff.Kind | None, Content, Fault | None]:
    """(kind, way to the bytes, fault) of a file by its first bytes; one compressed with gzip or zstd counts as what it holds.

    raw: the way to the bytes as they lie. head: the first HEAD_BYTES, where they were read already. extension: as for `sniff.kind_of`.
    """
    open_raw = raw.open
    if head is None:
        head = raw.head(sniff.HEAD_BYTES)
    compression = compression_of(head)
    if compression is not None:
        with open_raw() as file:
            inner = expanded_head(file, compression, size_bytes=sniff.HEAD_BYTES)

        def open_expanded() -> IO[bytes]:
            return expanded(open_raw(), compression, limit_bytes=reading.settings.max_item_bytes)

        return sniff.kind_of(inner, name), Content(open_expanded, open_raw), None
    kind = sniff.kind_of(head, name, stream=open_raw, extension=extension)
    empty = size_bytes == 0 and sniff.extension_of(name) not in LABELS and (kind is None or kind.modality != "text")
    return kind, raw, Fault(1006, "size_bytes=0 not in [1, inf)") if empty else None
