"""One file of a sample, a member of a tar or a file of a directory, told by its first bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import IO, Any, Final

from mmlake.errors import Fault
from mmlake.formats import sniff
from mmlake.formats.compression import compression_of, expanded, expanded_head
from mmlake.formats.sniff import Kind
from mmlake.records import SourceRef
from mmlake.sources.raw_items import Content, Reading

# packed files whose members are not read
ARCHIVES = ("application/zip", "application/x-7z-compressed", "application/vnd.rar")
LABELS = ("cls", "id", "index")  # small members that describe the sample: a class, an id, a number

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Member:
    """One file of a sample. What follows from its kind is found once: a shard has up to millions."""

    __slots__ = (
        "_extension",
        "content",
        "duplicate",
        "fault",
        "is_json",
        "is_label",
        "is_media",
        "kind",
        "locate",
        "modality",
        "name",
        "notes",
        "size_bytes",
        "stem",
    )

    def __init__(
        self,
        name: str,
        stem: str,
        *,
        size_bytes: int,
        kind: Kind | None,
        content: Content | None,
        locate: Callable[[str], SourceRef],
        fault: Fault | None = None,
        duplicate: bool = False,
        extension: str | None = None,
    ) -> None:
        """name: with its folder. stem: what its sample is called. locate: "" -> the member's own bytes; a JSON
        pointer -> a text inside it. extension: of the name, where it is known."""
        self.name, self.stem, self.size_bytes, self.kind, self.content = name, stem, size_bytes, kind, content
        self.locate, self.fault, self.duplicate = locate, fault, duplicate
        # what its row says of itself
        self.notes: Mapping[str, Any] = {"duplicate_member": True} if duplicate else _NOTHING
        self._extension = extension
        self.modality = modality = None if kind is None else kind.modality
        self.is_media = modality is not None and modality != "text"
        self.is_json = self.is_label = False
        if not self.is_media and fault is None:
            self.is_json = modality == "text" and self.extension == "json"
            self.is_label = self.extension in LABELS and (kind is None or kind.content_type == "text/plain")

    def locator(self) -> tuple[str, str]:
        """(the locator of its own bytes as JSON, its path)."""
        ref = self.locate("")
        return ref.to_json(), ref.path

    @property
    def extension(self) -> str:
        """That of the name."""
        if self._extension is None:
            self._extension = sniff.extension_of(self.name)
        return self._extension


def look(
    raw: Content,
    name: str,
    size_bytes: int,
    reading: Reading,
    *,
    head: bytes | None = None,
    extension: str | None = None,
) -> tuple[Kind | None, Content, Fault | None]:
    """(kind, way to the bytes, fault) of a file by its first bytes; a compressed one counts as what it holds.

    raw: the way to the bytes as they lie. head: the first HEAD_BYTES, where they were read already. extension: as for
    `sniff.kind_of`.
    """
    if head is None:
        head = raw.head(sniff.HEAD_BYTES)
    compression = compression_of(head) if head[:1] != b"{" else None  # as records begin, and nothing that is compressed
    if compression is not None:
        open_raw = raw.open
        with open_raw() as file:
            inner = expanded_head(file, compression, size_bytes=sniff.HEAD_BYTES)

        def open_expanded() -> IO[bytes]:
            return expanded(open_raw(), compression, limit_bytes=reading.settings.max_item_bytes)

        return sniff.kind_of(inner, name), Content(open_expanded, open_raw), None
    kind = sniff.kind_of(head, name, stream=raw.open, extension=extension)
    if (
        size_bytes == 0
        and (kind is None or kind.modality != "text")
        and (sniff.extension_of(name) if extension is None else extension) not in LABELS
    ):
        return kind, raw, Fault(1006, "size_bytes=0 not in [1, inf)")
    return kind, raw, None
