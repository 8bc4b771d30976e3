"""Lance datasets: a directory `name.lance` with manifests in `_versions` is one shard, read one fragment and one batch of rows at a time.

A fragment that cannot be read is one row that says so, and the next fragment is read. Lance keeps no checksums: wrong bits that still
decode are not noticed here. The rows are those of one version, which their locators name. From a remote landing zone the manifests are
copied first and then one fragment at a time, so that no more than one lies on the local disk.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from mmlake.errors import SettingsError, UnreadableItem
from mmlake.landing import Entry, Landing
from mmlake.optional import need
from mmlake.records import SourceRef
from mmlake.sources.records.jsonl import SampleNames
from mmlake.sources.rows import Fault, RawItem, Reading, first_field
from mmlake.sources.settings import SourceSettings
from mmlake.sources.tables.columnroles import Columns, columns_of
from mmlake.sources.tables.columns import cells_of, items_of

SUFFIX = ".lance"

_BROKEN = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, RuntimeError, NotImplementedError)  # pylance's ways to say that a file is damaged
_ADDRESSED = "lance.blob"  # the extension type of blobs that may name an address in place of bytes; blobs without it are bytes
_MANIFESTS = "_versions"
_OLD_MANIFEST = "_latest.manifest"  # a copy of the newest manifest beside its directory, written by Lance before 0.10
_BATCH_ROWS = 1024
_OURS = ("_rowid", "_rowaddr")
_MEMBER = re.compile(r"version:(\d+)/row:(\d+)(?:/(.*))?", re.DOTALL)


def root_of(directory: str) -> str | None:
    """The dataset that the directory is, or is a part of, going by names alone: its outermost part that ends in `.lance`."""
    parts = directory.split("/")
    return next(("/".join(parts[: at + 1]) for at, part in enumerate(parts) if part.lower().endswith(SUFFIX)), None)


def is_dataset(landing: Landing, path: str) -> bool:
    """Whether the directory holds the manifests or the data of a dataset."""
    return path.lower().endswith(SUFFIX) and any(landing.files(f"{path}/{part}") for part in (_MANIFESTS, "data"))


def modalities(reading: Reading) -> tuple[str, ...]:
    """The modalities that the columns can have; those of the path where the dataset does not open. Only manifests are read."""
    with _opened(reading) as dataset:
        return dataset.columns.modalities or (reading.hint or "text",)


def items(reading: Reading) -> Iterator[RawItem]:
    """The rows of the version, fragment by fragment; within a row media in the order of the columns, then texts."""
    home = reading.hint or "text"
    for entry in reading.landing.files(reading.path):
        if entry.name != _OLD_MANIFEST:
            yield reading.fault(1005, "the file lies inside a Lance dataset but is no part of it", modality=home, member=entry.name)
    with _opened(reading) as dataset:
        if dataset.unread:
            reason = f"the columns {dataset.unread[:12]} are of a type whose values may be addresses outside of the dataset, and are not read; write them as plain bytes"
            yield reading.fault(1007, reason, modality=dataset.columns.modalities[0] if dataset.columns.modalities else home, member=f"version:{dataset.version}/columns")
        if not dataset.columns.modalities:
            yield reading.fault(1003, f"none of the columns {dataset.schema.names[:12]} holds a text, image, video or audio", modality=home)
            return
        names, first = SampleNames(reading.key), 0
        for fragment in dataset.fragments():
            num_rows = fragment.count_rows()
            yield from _fragment(dataset, fragment, first, num_rows, names)
            first += num_rows


def take(reading: Reading, ref: SourceRef) -> bytes:
    """The bytes of the item that the locator names, by a random take from its version. Raises UnreadableItem where it is gone."""
    parts = _MEMBER.fullmatch(ref.member or "")
    if parts is None:
        raise UnreadableItem(1001, f"the locator {ref.member!r} names no version and row of a Lance dataset")
    number = int(parts[2])
    with _opened(reading, version=int(parts[1])) as dataset:
        batch = dataset.row(number)
        for item in _rows(dataset, batch, number, SampleNames(reading.key)):
            if item.ref == ref and item.content is not None:
                return item.content.read()
    raise UnreadableItem(1001, f"{ref.path} no longer has the member {ref.member!r}")


class _Dataset:
    """One version of a dataset and the directory where its files lie."""

    def __init__(self, handle: Any, reading: Reading, fetch: Callable[[str], None], forget: Callable[[str], None]) -> None:
        self.handle, self.reading = handle, reading
        self.version: int = handle.version
        self.schema: pa.Schema = pa.schema([field for field in handle.schema if not _may_lead_outside(field)])
        self.unread = [field.name for field in handle.schema if _may_lead_outside(field)]
        self.columns: Columns = columns_of(_unblobbed(self.schema), reading.settings)
        self._fetch, self._forget = fetch, forget

    def fragments(self) -> Iterator[Any]:
        """The fragments in their order, each with its files on the local disk until the next one is taken."""
        for fragment in self.handle.get_fragments():
            paths = self.paths(fragment)
            try:
                for path in paths:
                    self._fetch(path)
            except UnreadableItem:
                pass  # the fragment then fails to be read, which becomes its row
            yield fragment
            for path in paths:
                self._forget(path)

    def paths(self, fragment: Any) -> list[str]:
        """The files of a fragment, relative to the dataset. Raises UnreadableItem 1007 where one lies outside of it."""
        found = [f"data/{file.path}" for file in fragment.data_files()]
        if (deletions := fragment.deletion_file()) is not None:
            found.append(deletions)
        for path in found:
            if path.startswith("/") or ".." in PurePosixPath(path).parts or "\0" in path:
                raise UnreadableItem(1007, f"fragment {fragment.fragment_id} names the file {path[:200]!r}, which lies outside of the dataset")
            _check_refused(self.reading.landing.stat(f"{self.reading.path}/{path}"))
        return found

    def row(self, number: int) -> pa.RecordBatch:
        """The row with this number, counted from 1, as a batch of one."""
        first = 0
        for fragment in self.handle.get_fragments():
            num_rows = fragment.count_rows()
            if first < number <= first + num_rows:
                for path in self.paths(fragment):
                    self._fetch(path)
                with _reading_lance(f"row {number} of version {self.version}"):
                    batches = list(
                        fragment.to_batches(columns=self.schema.names, offset=number - first - 1, limit=1, with_row_id=True, with_row_address=True, blob_handling="all_binary")
                    )
                if batches:
                    return batches[0]
            first += num_rows
        raise UnreadableItem(1001, f"version {self.version} of the dataset has no row {number}")


def _may_lead_outside(field: pa.Field) -> bool:
    """Whether values of the column may be addresses that Lance itself would open: any file of this machine, any host, with our credentials."""
    kind = field.type
    name = kind.extension_name if isinstance(kind, pa.BaseExtensionType) else (field.metadata or {}).get(b"ARROW:extension:name", b"").decode("ascii", "replace")
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return name.startswith(_ADDRESSED) or any(_may_lead_outside(storage.field(at)) for at in range(storage.num_fields))


def _unblobbed(schema: pa.Schema) -> pa.Schema:
    """The schema with blob columns as the bytes that are read from them, not as Lance keeps them."""
    fields = [pa.field(field.name, pa.large_binary()) if (field.metadata or {}).get(b"lance-encoding:blob") == b"true" else field for field in schema]
    return pa.schema(fields)


@contextmanager
def _reading_lance(what: str) -> Iterator[None]:
    """Turns every way in which pylance fails on damaged files into UnreadableItem 1001, its Rust panics included."""
    try:
        yield
    except _BROKEN as error:
        raise UnreadableItem(1001, f"{what} cannot be read") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # derives from BaseException, and its class cannot be imported
            raise
        raise UnreadableItem(1001, f"{what} cannot be read") from error


@contextmanager
def _opened(reading: Reading, *, version: int | None = None) -> Iterator[_Dataset]:
    lance = need("lance", extra="lance", purpose="reading a Lance dataset")
    wanted = version or pinned(reading.path, reading.settings)
    with _on_disk(reading) as (root, fetch, forget):
        what = f"version {wanted} of the dataset" if wanted else "the dataset's latest manifest"
        with _reading_lance(what):
            handle = lance.dataset(str(root), version=wanted)
            strange = bool(handle.base_paths())
        if handle.version < 1:  # a manifest of zeros opens as an empty version 0
            raise UnreadableItem(1001, f"{what} has version={handle.version} not in [1, inf)")
        if strange:
            raise UnreadableItem(1007, "the dataset keeps files outside of its directory")
        yield _Dataset(handle, reading, fetch, forget)


def pinned(path: str, settings: SourceSettings) -> int | None:
    """The version that the settings pin this dataset to; None: its latest."""
    for pin in settings.lance_versions:
        name, _, number = pin.rpartition("@")
        if not name or not number.isdigit() or not int(number):
            raise SettingsError(f"sources.lance_versions holds {pin!r}; write the dataset's path in the landing zone and its version, such as 'images/pets.lance@7'")
        if name == path:
            return int(number)
    return None


@contextmanager
def _on_disk(reading: Reading) -> Iterator[tuple[Path, Callable[[str], None], Callable[[str], None]]]:
    """(local directory of the dataset, what brings one of its files there, what takes it away)."""
    landing = reading.landing
    manifests = landing.files(f"{reading.path}/{_MANIFESTS}")
    for entry in manifests:
        _check_refused(entry)
    if (local := landing.local_path(reading.path)) is not None:
        yield local, lambda path: None, lambda path: None
        return
    with tempfile.TemporaryDirectory(prefix="mmlake-lance-") as name:
        root = Path(name)

        def fetch(path: str) -> None:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            with landing.open(f"{reading.path}/{path}") as source, (root / path).open("wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)

        for entry in manifests:
            fetch(f"{_MANIFESTS}/{entry.name}")
        yield root, fetch, lambda path: (root / path).unlink(missing_ok=True)


def _check_refused(entry: Entry | None) -> None:
    if entry is not None and entry.refused is not None:
        raise UnreadableItem(1007, f"{entry.name[:200]!r} inside the dataset is {entry.refused}")


def _fragment(dataset: _Dataset, fragment: Any, first: int, num_rows: int, names: SampleNames) -> Iterator[RawItem]:
    number, broken, reading = first, None, dataset.reading
    batches = _batches(fragment, dataset.schema.names, reading.settings)
    while True:
        try:
            with _reading_lance(f"fragment {fragment.fragment_id}: rows {number + 1} to {first + num_rows}"):
                batch = next(batches, None)
        except UnreadableItem as error:
            broken = error.reason
            break
        if batch is None:
            break
        yield from _rows(dataset, batch, number + 1, names)
        number += batch.num_rows
    if broken is None and number != first + num_rows:
        broken = f"fragment {fragment.fragment_id} has {number - first} rows, its manifest says {num_rows}"
    if broken is not None:
        yield reading.fault(1001, broken, modality=dataset.columns.modalities[0], member=f"version:{dataset.version}/fragment:{fragment.fragment_id}")


def _batches(fragment: Any, names: list[str], settings: SourceSettings) -> Iterator[pa.RecordBatch]:
    size_bytes = sum(file.file_size_bytes or 0 for file in fragment.data_files())
    batch_rows = max(1, min(_BATCH_ROWS, settings.batch_bytes * fragment.physical_rows // max(1, size_bytes)))
    batches: Iterator[pa.RecordBatch] = fragment.to_batches(
        columns=names, batch_size=batch_rows, batch_readahead=1, io_buffer_size=2 * settings.batch_bytes, with_row_id=True, with_row_address=True, blob_handling="all_binary"
    )
    return batches


def _rows(dataset: _Dataset, batch: pa.RecordBatch, number: int, names: SampleNames) -> Iterator[RawItem]:
    """The items of a batch whose first row has this number."""
    reading = dataset.reading
    for at, fields in enumerate(cells_of(batch, dataset.columns, settings=reading.settings), number):
        member = f"version:{dataset.version}/row:{at}"
        if isinstance(fields, Fault):
            yield reading.fault(fields.code, fields.reason, modality=dataset.columns.modalities[0], member=member)
            continue
        row_id, address = (fields.pop(name) for name in _OURS)
        fields.setdefault("lance", {"version": dataset.version, "fragment": address >> 32, "row_id": row_id, "row_address": address})
        identity = first_field(fields, reading.settings.id_fields)
        sample_id = names.of(fields[identity] if identity else None, at)
        yield from items_of(fields, dataset.columns, sample_id=sample_id, locate=_locator(reading.path, member), settings=reading.settings)


def _locator(path: str, member: str) -> Callable[[str], SourceRef]:
    return lambda column: SourceRef(path=path, member=f"{member}/{column}" if column else member)
