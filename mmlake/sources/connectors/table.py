"""THE table of connectors. Add yours here: one module with `modalities` and `items`, and one row.

A connector is recognized by content first; only where the bytes are silent does the name count. Files that describe
others are shards of their own, too: those connectors stand with what they say of the others, in `companions`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

from mmlake.errors import SettingsError, UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.compression import SUFFIXES
from mmlake.landing import Entry, Landing
from mmlake.records import SourceRef
from mmlake.sources import shard as shards
from mmlake.sources.companions import coco, descriptions, kaldi, manifests, places
from mmlake.sources.companions.siblings import Siblings
from mmlake.sources.connectors import (
    arrow,
    folder,
    json_lines,
    json_list,
    lance,
    parquet,
    separated,
    tar,
    url_list,
    warc,
)
from mmlake.sources.connectors import zip as zip_connector
from mmlake.sources.raw_items import Opener, RawItem, Reading
from mmlake.sources.records.lines import ENDINGS, head_reader
from mmlake.sources.settings import SourceSettings

LOOSE = shards.LOOSE
URL_LIST = "urls"
LANCE = "lance"
MANIFEST, COCO = shards.MANIFEST, shards.COCO
_UNPACKED = ("parquet", "zip")  # formats that have their own compression inside
_LISTS = ("urls", "txt", "json", "jsonl", "csv", "tsv", "parquet")


@dataclass(frozen=True, kw_only=True, slots=True)
class Connector:
    """How shards of one format are recognized and read."""

    name: str
    names: tuple[str, ...]  # endings of file names that claim the format where the bytes say nothing
    # (first bytes, expanded where compressed; file name) -> whether the bytes are of this format; the default: by its
    # name or as a directory alone
    claims: Callable[[bytes, str], bool] = lambda head, name: False
    extensions: tuple[str, ...] | None = None  # files with other extensions are never claimed; None: all may be
    modalities: Callable[[Reading], tuple[str, ...]]  # those of all rows of `items`; reads as little as it can
    items: Callable[[Reading], Iterator[RawItem]]  # every row, in one order, always the same for the same bytes
    # how many samples there are, where the format says so at little cost
    num_samples: Callable[[Reading], int | None] | None = None
    # the items with these members, and perhaps others, without reading all of them
    some: Callable[[Reading, Collection[str]], Iterator[RawItem]] | None = None
    # (file name, siblings) -> whether one that is claimed is one by what lies next to it; asked of unchanged files, too
    is_kept: Callable[[str, Siblings], bool] | None = None
    # (so many first bytes, file name, settings) -> whether it is one by more than its very first bytes
    holds_records: Callable[[Callable[[int], bytes], str, SourceSettings], bool] | None = None
    # the bytes of one item without reading those before it; raises UnreadableItem where it is gone
    take: Callable[[Reading, SourceRef], bytes] | None = None
    plugin: str = ""  # "name==version" of the plugin that brings it; empty for a built-in one


def _packed(*endings: str) -> tuple[str, ...]:
    """The endings of compressed files."""
    return tuple(f"{ending}{suffix}" for ending in endings for suffix in SUFFIXES)


class Connectors(dict[str, Connector]):
    """A table of connectors by name, in the order in which they are asked. Nothing changes it once it is made."""

    def __init__(self, rows: Iterable[Connector]) -> None:
        super().__init__((row.name, row) for row in rows)
        extensions = {extension for row in self.values() for extension in row.extensions or ()}
        self._by_extension = {extension: self._of(extension) for extension in extensions}
        self._of_others = [row for row in self.values() if row.extensions is None]

    def __missing__(self, name: str) -> Connector:
        raise SettingsError(
            f"no connector reads the format {name!r}, expected one of {', '.join(self)}; name the plugin that brings "
            "it in [plugins], or scan the landing zone again without it"
        )

    def _of(self, extension: str) -> list[Connector]:
        return [row for row in self.values() if row.extensions is None or extension in row.extensions]

    @cached_property
    def endings(self) -> tuple[str, ...]:
        """The endings of names that claim a container."""
        return tuple(name for row in self.values() for name in row.names)

    @cached_property
    def _container_extensions(self) -> frozenset[str]:
        return frozenset(sniff.extension_of(f"x{name}") for name in self.endings)

    def format_of(self, landing: Landing, entry: Entry, siblings: Siblings) -> str:
        """The name of the connector that reads the file. siblings: what lies in its directory."""
        if entry.refused is not None:
            return LOOSE
        try:
            head = landing.head(entry.path, sniff.HEAD_BYTES)
            return self._recognised(head, entry.name, head_reader(head, lambda: landing.open(entry.path)), siblings)
        except UnreadableItem:
            return self._recognised(b"", entry.name, lambda size_bytes: b"", siblings)

    def is_container(self, head: bytes, name: str, open_file: Opener, siblings: Siblings) -> bool:
        """Whether a file with these first bytes, as they lie, is a shard of its own. Raises UnreadableItem."""
        return self._recognised(head, name, head_reader(head, open_file), siblings) != LOOSE

    def is_still(self, name: str, entry: Entry, siblings: Siblings) -> bool:
        """Whether an unchanged file of that format is one still, whatever is next to it now; not where no connector
        reads the format any more."""
        return name in self and ((is_kept := self[name].is_kept) is None or is_kept(entry.name, siblings))

    def _recognised(self, raw: bytes, name: str, head_of: Callable[[int], bytes], siblings: Siblings) -> str:
        """The connector of a file with these first bytes. head_of: gives those that it expands to."""
        extension, head = sniff.extension_of(name), head_of(sniff.HEAD_BYTES)
        for connector in self._by_extension.get(extension, self._of_others):
            # Parquet or a zip inside gzip is none: only tars and lines are read through compression.
            if (
                connector.claims(raw if connector.name in _UNPACKED else head, name)
                and (connector.is_kept is None or connector.is_kept(name, siblings))
                and (connector.holds_records is None or connector.holds_records(head_of, name, siblings.settings))
            ):
                return connector.name
        if (
            extension in self._container_extensions
            and name.lower().endswith(self.endings)
            and sniff.kind_by_magic(head) is None
        ):
            return next(connector.name for connector in self.values() if name.lower().endswith(connector.names))
        return LOOSE


# the columns that a module fills in by its functions of these names
_FUNCTIONS = ("claims", "modalities", "items", "num_samples", "some", "is_kept", "holds_records", "take")


def _row(
    name: str, module: ModuleType, *, names: tuple[str, ...] = (), extensions: tuple[str, ...] | None = None
) -> Connector:
    """The connector that a module is: it has `modalities`, `items` and, unless a name or a directory is all there is
    to recognize, `claims`; what else it has of the functions of a row is in the row."""
    found: dict[str, Any] = {column: getattr(module, column) for column in _FUNCTIONS if hasattr(module, column)}
    return Connector(name=name, names=names, extensions=extensions, **found)


SOURCES = Connectors(
    (
        # By its name alone: the bytes of a list are those of any text or Parquet file.
        _row(URL_LIST, url_list, names=ENDINGS, extensions=_LISTS),
        _row("webdataset", tar, names=places.TARS),
        _row("zip", zip_connector, names=(".zip",)),
        _row("parquet", parquet, names=(".parquet",)),
        _row("arrow", arrow, names=(*arrow.NAMES, *_packed(*arrow.NAMES))),
        # By name and first record; before lines and loose files, which would take it for documents.
        _row("descriptions", descriptions, extensions=("csv", "tsv", "jsonl", "parquet", "txt")),
        # By all of their first records; before lines and lists, which would take them for texts alone.
        _row(MANIFEST, manifests, extensions=manifests.EXTENSIONS),
        # What lies next to `wav.scp`, whose rows say what is in it.
        _row("kaldi", kaldi, extensions=("", "scp")),
        _row(
            "jsonl",
            json_lines,
            names=(".jsonl", ".ndjson", *_packed(".jsonl", ".ndjson")),
            extensions=json_lines.EXTENSIONS,
        ),
        # By what lies next to them, too: records, unless they describe a medium that is called like them.
        _row("json-list", json_list, extensions=("json",)),
        _row("separated", separated, extensions=("csv", "tsv")),
        _row("warc", warc, names=(".warc", *_packed(".warc"))),
        # What is said of images that lie elsewhere; before loose files, which would take it for a sidecar.
        _row(COCO, coco, extensions=("json",)),
        # A directory, known by what lies in it: see `directory_of`.
        _row(LANCE, lance, extensions=()),
        # Everything that no other row claims: loose files.
        _row(LOOSE, folder, extensions=()),
    )
)


def directory_of(directory: str, landing: Landing) -> str | None:
    """The directory that is one shard as a whole and that this one is, or is a part of; None where its files are
    shards of their own."""
    root = lance.root_of(directory)
    return root if root is not None and lance.is_dataset(landing, root) else None
