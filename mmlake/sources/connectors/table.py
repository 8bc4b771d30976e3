"""THE table of connectors. Add yours here: one module with `modalities` and `items`, and one row.

A connector is recognized by content first; only where the bytes are silent does the name count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from mmlake.errors import SettingsError, UnreadableItem
from mmlake.formats import sniff
from mmlake.formats.compression import SUFFIXES
from mmlake.formats.warc import MARK
from mmlake.landing import Entry, Landing
from mmlake.records import SourceRef
from mmlake.sources import shard as shards
from mmlake.sources.companions.siblings import Siblings
from mmlake.sources.connectors import (
    arrow,
    coco,
    descriptions,
    folder,
    json_lines,
    json_list,
    kaldi,
    lance,
    manifest,
    parquet,
    separated,
    tar,
    url_list,
    warc,
)
from mmlake.sources.connectors import zip as zip_format
from mmlake.sources.raw_items import Opener, RawItem, Reading
from mmlake.sources.records import lines as record_lines

LOOSE = shards.LOOSE
URL_LIST = "urls"
LANCE = "lance"
MANIFEST = "manifest"
_UNPACKED = ("parquet", "zip")  # formats that have their own compression inside
_LISTS = ("urls", "txt", "json", "jsonl", "csv", "tsv", "parquet")


@dataclass(frozen=True, kw_only=True, slots=True)
class Connector:
    """How shards of one format are recognized and read."""

    name: str
    names: tuple[str, ...]  # endings of file names that claim the format where the bytes say nothing
    # (first bytes, expanded where compressed; file name) -> whether the bytes are of this format
    claims: Callable[[bytes, str], bool]
    extensions: tuple[str, ...] | None = None  # files with other extensions are never claimed; None: all may be
    modalities: Callable[[Reading], tuple[str, ...]]  # those of all rows of `items`; reads as little as it can
    items: Callable[[Reading], Iterator[RawItem]]  # every row, in one order, always the same for the same bytes
    # how many samples there are, where the format says so at little cost
    num_samples: Callable[[Reading], int | None] | None = None
    # the items with these members, and perhaps others, without reading all of them
    some: Callable[[Reading, Collection[str]], Iterator[RawItem]] | None = None
    # (so many first bytes, file name, siblings) -> whether one that is claimed is one indeed
    is_one: Callable[[Callable[[int], bytes], str, Siblings], bool] | None = None
    # (file name, siblings) -> whether an unchanged file of the format is one still; None: always
    is_kept: Callable[[str, Siblings], bool] | None = None
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

    def candidates(self, extension: str) -> list[Connector]:
        """The connectors that may claim a file with the extension."""
        return self._by_extension.get(extension, self._of_others)

    @cached_property
    def endings(self) -> tuple[str, ...]:
        """The endings of names that claim a container."""
        return tuple(name for row in self.values() for name in row.names)

    @cached_property
    def container_extensions(self) -> frozenset[str]:
        """The extensions of such names."""
        return frozenset(sniff.extension_of(f"x{name}") for name in self.endings)


SOURCES = Connectors(
    (
        # By its name alone: the bytes of a list are those of any text or Parquet file.
        Connector(
            name=URL_LIST,
            names=record_lines.ENDINGS,
            claims=record_lines.claims,
            extensions=_LISTS,
            modalities=url_list.modalities,
            items=url_list.items,
            num_samples=url_list.num_samples,
            take=url_list.take,
        ),
        Connector(
            name="webdataset",
            names=(".tar", ".tgz", ".tbz2", ".txz", *_packed(".tar")),
            claims=lambda head, name: sniff.is_tar_header(head),
            modalities=tar.modalities,
            items=tar.items,
        ),
        Connector(
            name="zip",
            names=(".zip",),
            claims=zip_format.claims,
            modalities=zip_format.modalities,
            items=zip_format.items,
            some=zip_format.some,
        ),
        Connector(
            name="parquet",
            names=(".parquet",),
            claims=lambda head, name: head.startswith(b"PAR1"),
            modalities=parquet.modalities,
            items=parquet.items,
            num_samples=parquet.num_samples,
        ),
        Connector(
            name="arrow",
            names=(*arrow.NAMES, *_packed(*arrow.NAMES)),
            claims=arrow.claims,
            modalities=arrow.modalities,
            items=arrow.items,
            some=arrow.some,
        ),
        # By name and first record; before lines and loose files, which would take it for documents.
        Connector(
            name="descriptions",
            names=(),
            claims=descriptions.claims,
            extensions=("csv", "tsv", "jsonl", "txt"),
            modalities=descriptions.modalities,
            items=descriptions.items,
            take=descriptions.take,
        ),
        # By all of their first records; before lines and lists, which would take them for texts alone.
        Connector(
            name=MANIFEST,
            names=(),
            claims=manifest.claims,
            extensions=("json", "jsonl", "ndjson", "scp"),
            modalities=manifest.modalities,
            items=manifest.items,
            is_one=manifest.is_one,
            take=manifest.take,
        ),
        # What lies next to `wav.scp`, whose rows say what is in it.
        Connector(
            name="kaldi",
            names=(),
            claims=kaldi.claims,
            extensions=("",),
            modalities=kaldi.modalities,
            items=kaldi.items,
            is_one=kaldi.is_one,
            is_kept=lambda name, siblings: siblings.have_scp(),
        ),
        Connector(
            name="jsonl",
            names=(".jsonl", ".ndjson", *_packed(".jsonl", ".ndjson")),
            claims=json_lines.claims,
            extensions=json_lines.EXTENSIONS,
            modalities=json_lines.modalities,
            items=json_lines.items,
        ),
        # By what lies next to them, too: records, unless they describe a medium that is called like them.
        Connector(
            name="json-list",
            names=(),
            claims=json_list.claims,
            extensions=("json",),
            modalities=json_list.modalities,
            items=json_list.items,
            is_one=json_list.is_one,
            is_kept=lambda name, siblings: siblings.have_no_medium_of(name),
        ),
        Connector(
            name="separated",
            names=(),
            claims=separated.claims,
            extensions=("csv", "tsv"),
            modalities=separated.modalities,
            items=separated.items,
            is_one=separated.is_one,
            is_kept=lambda name, siblings: siblings.have_no_medium_of(name),
        ),
        Connector(
            name="warc",
            names=(".warc", *_packed(".warc")),
            claims=lambda head, name: head.startswith(MARK),
            modalities=warc.modalities,
            items=warc.items,
            take=warc.take,
        ),
        # What is said of images that lie elsewhere; before loose files, which would take it for a sidecar.
        Connector(
            name="coco",
            names=(),
            claims=coco.claims,
            extensions=("json",),
            modalities=coco.modalities,
            items=coco.items,
            take=coco.take,
        ),
        # A directory, known by what lies in it: see `directory_of`.
        Connector(
            name=LANCE,
            names=(),
            claims=lambda head, name: False,
            extensions=(),
            modalities=lance.modalities,
            items=lance.items,
            take=lance.take,
        ),
        # Everything that no other row claims: loose files.
        Connector(
            name=LOOSE,
            names=(),
            claims=lambda head, name: False,
            extensions=(),
            modalities=folder.modalities,
            items=folder.items,
        ),
    )
)


def directory_of(directory: str, landing: Landing) -> str | None:
    """The directory that is one shard as a whole and that this one is, or is a part of; None where its files are
    shards of their own."""
    root = lance.root_of(directory)
    return root if root is not None and lance.is_dataset(landing, root) else None


def format_of(landing: Landing, entry: Entry, siblings: Siblings, connectors: Connectors = SOURCES) -> str:
    """The name of the connector that reads the file. siblings: what lies in its directory."""
    if entry.refused is not None:
        return LOOSE
    try:
        return _format_by_head(
            landing.head(entry.path, sniff.HEAD_BYTES),
            entry.name,
            lambda: landing.open(entry.path),
            siblings,
            connectors,
        )
    except UnreadableItem:
        return _recognised(b"", entry.name, lambda size_bytes: b"", siblings, connectors)


def is_container(
    head: bytes, name: str, open_file: Opener, siblings: Siblings, connectors: Connectors = SOURCES
) -> bool:
    """Whether a file with these first bytes, as they lie, is a shard of its own. Raises UnreadableItem."""
    return _format_by_head(head, name, open_file, siblings, connectors) != LOOSE


def is_still(name: str, entry: Entry, siblings: Siblings, connectors: Connectors = SOURCES) -> bool:
    """Whether an unchanged file of that format is one still, whatever is next to it now; not where no connector
    reads the format any more."""
    if name not in connectors:
        return False
    is_kept = connectors[name].is_kept
    return is_kept is None or is_kept(entry.name, siblings)


def _format_by_head(raw: bytes, name: str, open_file: Opener, siblings: Siblings, connectors: Connectors) -> str:
    return _recognised(raw, name, record_lines.head_reader(raw, open_file), siblings, connectors)


def _recognised(
    raw: bytes, name: str, head_of: Callable[[int], bytes], siblings: Siblings, connectors: Connectors
) -> str:
    """The connector of a file with these first bytes. head_of: gives those that it expands to."""
    extension, head = sniff.extension_of(name), head_of(sniff.HEAD_BYTES)
    for connector in connectors.candidates(extension):
        # Parquet or a zip inside gzip is none: only tars and lines are read through compression.
        if connector.claims(raw if connector.name in _UNPACKED else head, name) and (
            connector.is_one is None or connector.is_one(head_of, name, siblings)
        ):
            return connector.name
    if (
        extension in connectors.container_extensions
        and name.lower().endswith(connectors.endings)
        and sniff.kind_by_magic(head) is None
    ):
        return next(connector.name for connector in connectors.values() if name.lower().endswith(connector.names))
    return LOOSE
